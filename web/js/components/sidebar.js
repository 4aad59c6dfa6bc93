/**
 * The list of conversations, what a search has found instead of it, and the menu of whoever is signed in.
 *
 * @import { Commands } from "../commands.js"
 * @import { ConversationList } from "../conversations.js"
 * @import { Found } from "../finding.js"
 * @import { Conversation, User } from "../wire.d.ts"
 * @import { Question } from "./conversation_menu.js"
 */

import { useLayoutEffect, useRef } from "../../vendor/preact/hooks.js";
import { byAge } from "../conversations.js";
import { html, memo } from "../html.js";
import * as chat from "../texts/chat.js";
import { AccountMenu } from "./account_menu.js";
import { ConversationRow } from "./conversation_row.js";
import { Icon, Mark } from "./icon.js";
import { useTexts } from "./language.js";
import { SearchField } from "./search_field.js";

/**
 * @typedef {object} Props
 * @property {ConversationList} list
 * @property {Found | null} found
 * @property {readonly string[]} tags
 * @property {string} unsentIds of the conversations in which a message waits to be sent, with spaces between
 * @property {string | null} currentId
 * @property {User | null} user
 * @property {Commands} commands
 * @property {() => void} onChosen
 * @property {(question: Question, conversation: Conversation) => void} onAsk
 * @property {() => void} onHelp
 * @property {() => void} onSignOut
 */

export const Sidebar = memo(
  /** @param {Props} props */ (props) => {
    const { list, found, tags, user, commands, onChosen, onHelp, onSignOut } = props;
    const { t } = useTexts(chat);
    const startNew = () => {
      commands.open(null);
      onChosen();
      document.getElementById("composer")?.focus();
    };
    return html`
      <div class="brand"><${Mark} /><span>Kvasir</span></div>
      <button type="button" class="button new-chat" title=${t("newChatHint")} onClick=${startNew}>
        <${Icon} name="plus" />${t("newChat")}
      </button>
      <${SearchField} found=${found} tags=${tags} commands=${commands} />
      <nav class="conversations" aria-label=${t("conversations")} aria-busy=${found?.isBusy ? "true" : null}>
        ${found === null ? html`<${Listed} ...${props} />` : html`<${FoundList} ...${props} found=${found} />`}
        ${found === null
          ? list.cursor !== null && html`<${Older} onMore=${() => commands.loadMoreConversations()} />`
          : found.cursor !== null && html`<${Older} onMore=${() => commands.search.more()} />`}
      </nav>
      <${AccountMenu} user=${user} commands=${commands} onChosen=${onChosen} onHelp=${onHelp} onSignOut=${onSignOut} />
    `;
  },
);

/** @param {Props} props */
function Listed(props) {
  const { t } = useTexts(chat);
  const { list } = props;
  if (list.isLoaded && list.items.length === 0) return html`<p class="conversations-empty">${t("listEmpty")}</p>`;
  return byAge(list.items, new Date()).map(
    ({ title, items }) => html`
      <section key=${title} aria-label=${t(title)}>
        <h2>${t(title)}</h2>
        <${Rows} ...${props} items=${items} />
      </section>
    `,
  );
}

/** @param {Props & {found: Found}} props */
function FoundList(props) {
  const { t } = useTexts(chat);
  const { found } = props;
  const isEmpty = found.isLoaded && !found.isBusy && found.items.length === 0;
  const empty = found.query.trim() !== "" ? "nothingFound" : found.archived ? "nothingArchived" : "nothingTagged";
  const count = found.cursor === null ? t("foundCount", { count: found.items.length }) : t("foundSome", { count: found.items.length });
  return html`
    <div class="visually-hidden" role="status">${found.isLoaded && !found.isBusy ? count : ""}</div>
    ${isEmpty && html`<p class="conversations-empty">${t(empty)}</p>`}
    <${Rows} ...${props} items=${found.items} />
  `;
}

/** @param {Props & {items: readonly Conversation[]}} props */
function Rows({ items, currentId, unsentIds, commands, onChosen, onAsk }) {
  return html`
    <ul>
      ${items.map(
        (conversation) => html`<${ConversationRow}
          key=${conversation.id}
          conversation=${conversation}
          isCurrent=${conversation.id === currentId}
          hasUnsent=${unsentIds.includes(conversation.id)}
          commands=${commands}
          onChosen=${onChosen}
          onAsk=${onAsk}
        />`,
      )}
    </ul>
  `;
}

/** @param {{onMore: () => void}} props */
function Older({ onMore }) {
  const { t } = useTexts(chat);
  const button = useRef(/** @type {HTMLButtonElement | null} */ (null));
  useLayoutEffect(
    () => () => {
      // When all is there the button goes; a focus on it stays in the list.
      if (document.activeElement !== button.current) return;
      const links = button.current?.closest("nav")?.querySelectorAll("a") ?? [];
      [...links].at(-1)?.focus();
    },
    [],
  );
  return html`<button ref=${button} type="button" class="button more" onClick=${onMore}>${t("showOlder")}</button>`;
}
