/**
 * Who is signed in, and behind it everything that is not about one conversation: settings, import, other pages, keys, signing out.
 *
 * @import { Commands } from "../commands.js"
 * @import { User } from "../wire.d.ts"
 * @import { Item } from "./menu.js"
 */

import { useRef } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import { hashOfSettings } from "../route.js";
import * as chat from "../texts/chat.js";
import { Icon } from "./icon.js";
import { useTexts } from "./language.js";
import { Menu } from "./menu.js";

/** @param {{user: User | null, commands: Commands, onChosen: () => void, onHelp: () => void, onSignOut: () => void}} props */
export function AccountMenu({ user, commands, onChosen, onHelp, onSignOut }) {
  const { t } = useTexts(chat);
  const file = useRef(/** @type {HTMLInputElement | null} */ (null));
  const name = user?.username ?? "";
  const may = (/** @type {string} */ right) => user?.rights?.includes(right) ?? false;
  /** @type {Item[]} */
  const items = [
    { label: t("settings"), icon: "settings", href: hashOfSettings("general"), onChoose: onChosen },
    { label: t("import"), icon: "upload", onChoose: () => file.current?.click() },
    { label: t("help"), icon: "keyboard", onChoose: onHelp },
    ...(may("answer_people") || may("administer") ? [{}] : []),
    ...(may("answer_people") ? [{ label: t("inbox"), icon: /** @type {const} */ ("inbox"), href: "/inbox" }] : []),
    ...(may("administer") ? [{ label: t("admin"), icon: /** @type {const} */ ("gauge"), href: "/admin" }] : []),
    {},
    { label: t("signOut"), icon: "leave", onChoose: onSignOut },
  ];
  const take = (/** @type {any} */ event) => {
    const [chosen] = event.target.files;
    if (chosen) void commands.conversations.bringIn(chosen);
    // The same file chosen again is to be taken again.
    event.target.value = "";
    onChosen();
  };
  return html`
    <footer class="account">
      <${Menu} label=${t("accountOf", { name })} items=${items} class="account-button">
        <span class="account-mark" aria-hidden="true" data-letter=${[...name][0]?.toUpperCase() ?? ""}></span>
        <span class="account-name">${name}</span>
        <${Icon} name="updown" />
      <//>
      <input ref=${file} type="file" class="visually-hidden" tabindex="-1" aria-hidden="true" accept=".json,.ndjson,.jsonl,application/json,application/x-ndjson" onChange=${take} />
    </footer>
  `;
}
