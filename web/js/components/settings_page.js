/**
 * The settings, shown in place of a conversation: one page for each thing that is one's own.
 *
 * @import { Commands } from "../commands.js"
 * @import { Preferences } from "../preferences.js"
 * @import { SettingsPageName } from "../route.js"
 * @import { Session } from "../session.js"
 * @import { State } from "../state.js"
 */

import { useLayoutEffect, useMemo, useRef } from "../../vendor/preact/hooks.js";
import { AccountApi } from "../account_api.js";
import { html } from "../html.js";
import { SETTINGS_PAGES, hashOf, hashOfSettings } from "../route.js";
import * as texts from "../texts/settings.js";
import { Icon } from "./icon.js";
import { KeysPage } from "./settings_keys.js";
import { useTexts } from "./language.js";
import { GeneralPage } from "./settings_general.js";
import { SessionsPage } from "./settings_sessions.js";
import { SignInPage } from "./settings_sign_in.js";
import { UsagePage } from "./settings_usage.js";

const PAGES = { general: GeneralPage, sessions: SessionsPage, "sign-in": SignInPage, keys: KeysPage, usage: UsagePage };

/** @param {{page: SettingsPageName, state: State, session: Session, commands: Commands, preferences: Preferences}} props */
export function SettingsPage({ page, state, session, commands, preferences }) {
  const { t } = useTexts(texts);
  const account = useMemo(() => new AccountApi(commands.chat.api), [commands]);
  const view = PAGES[page];
  const tabs = useRef(/** @type {HTMLElement | null} */ (null));
  // On a narrow screen the tabs are wider than it.
  useLayoutEffect(() => tabs.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }), [page]);
  return html`
    <div class="settings" id="settings" tabindex="-1">
      <div class="settings-inside">
        <nav ref=${tabs} class="tabs" aria-label=${t("settings")}>
          ${SETTINGS_PAGES.map(
            (name) => html`
              <a key=${name} href=${hashOfSettings(name)} aria-current=${name === page ? "page" : null}>${t(`page_${name}`)}</a>
            `,
          )}
          <a class="tabs-close icon-button" href=${hashOf(state.currentId)} aria-label=${t("backToChat")} title=${t("backToChat")}><${Icon} name="close" /></a>
        </nav>
        <${view} key=${page} state=${state} session=${session} account=${account} commands=${commands} preferences=${preferences} />
      </div>
    </div>
  `;
}
