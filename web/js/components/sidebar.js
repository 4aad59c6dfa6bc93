/**
 * The list of conversations with what can be done to them, and who is signed in.
 *
 * @import { Commands } from "../commands.js"
 * @import { ConversationList } from "../conversations.js"
 * @import { Conversation } from "../wire.d.ts"
 */

import { useLayoutEffect, useRef, useState } from "../../vendor/preact/hooks.js";
import { byAge } from "../conversations.js";
import { html, memo } from "../html.js";
import * as chat from "../texts/chat.js";
import { ConfirmDialog } from "./confirm_dialog.js";
import { ConversationRow } from "./conversation_row.js";
import { Icon, Mark } from "./icon.js";
import { useTexts } from "./language.js";
import { focusComposer } from "./textarea.js";

/**
 * @typedef {object} Props
 * @property {ConversationList} list
 * @property {string | null} currentId
 * @property {string} username
 * @property {Commands} commands
 * @property {() => void} onChosen
 * @property {() => void} onSignOut
 */

export const Sidebar = memo(
  /** @param {Props} props */ ({ list, currentId, username, commands, onChosen, onSignOut }) => {
    const { t } = useTexts(chat);
    const [doomed, setDoomed] = useState(/** @type {Conversation | null} */ (null));
    const remove = async () => {
      setDoomed(null);
      if (doomed) await commands.remove(doomed);
      // The button that was pressed goes with its row.
      focusComposer();
    };
    const startNew = () => {
      commands.open(null);
      onChosen();
    };
    return html`
      <div class="brand"><${Mark} /><span>Kvasir</span></div>
      <button type="button" class="button new-chat" title=${t("newChatHint")} onClick=${startNew}>
        <${Icon} name="plus" />${t("newChat")}
      </button>
      <nav class="conversations" aria-label=${t("conversations")}>
        ${list.isLoaded && list.items.length === 0 && html`<p class="conversations-empty">${t("listEmpty")}</p>`}
        ${byAge(list.items, new Date()).map(
          ({ title, items }) => html`
            <section key=${title} aria-label=${t(title)}>
              <h2>${t(title)}</h2>
              <ul>
                ${items.map(
                  (conversation) => html`<${ConversationRow}
                    key=${conversation.id}
                    conversation=${conversation}
                    isCurrent=${conversation.id === currentId}
                    commands=${commands}
                    onChosen=${onChosen}
                    onRemove=${setDoomed}
                  />`,
                )}
              </ul>
            </section>
          `,
        )}
        ${list.cursor !== null &&
        html`<${Older} commands=${commands} />`}
      </nav>
      <footer class="account">
        <span class="account-name" title=${username}>${username}</span>
        <button type="button" class="icon-button" aria-label=${t("signOut")} title=${t("signOut")} onClick=${onSignOut}>
          <${Icon} name="leave" />
        </button>
      </footer>
      ${doomed &&
      html`
        <${ConfirmDialog}
          title=${t("deleteTitle")}
          text=${t("deleteText", { title: doomed.title || t("untitled") })}
          action=${t("delete")}
          onConfirm=${remove}
          onCancel=${() => setDoomed(null)}
        />
      `}
    `;
  },
);

/** @param {{commands: Commands}} props */
function Older({ commands }) {
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
  return html`
    <button ref=${button} type="button" class="button more" onClick=${() => commands.loadMoreConversations()}>${t("showOlder")}</button>
  `;
}
