/**
 * One line of the list: a link to the conversation, what a search has found in it, and the menu of what can be done with it.
 *
 * @import { Commands } from "../commands.js"
 * @import { Conversation } from "../wire.d.ts"
 * @import { Question } from "./conversation_menu.js"
 */

import { useLayoutEffect, useRef, useState } from "../../vendor/preact/hooks.js";
import { html, memo } from "../html.js";
import { hashOf } from "../route.js";
import * as chat from "../texts/chat.js";
import { ConversationMenu } from "./conversation_menu.js";
import { useTexts } from "./language.js";
import { TitleEditor } from "./title_editor.js";

/**
 * @typedef {object} Props
 * @property {Conversation} conversation
 * @property {boolean} isCurrent
 * @property {boolean} hasUnsent
 * @property {Commands} commands
 * @property {() => void} onChosen
 * @property {(question: Question, conversation: Conversation) => void} onAsk
 */

export const ConversationRow = memo(
  /** @param {Props} props */ ({ conversation, isCurrent, hasUnsent, commands, onChosen, onAsk }) => {
    const { t } = useTexts(chat);
    const [isRenaming, setRenaming] = useState(false);
    const row = useRef(/** @type {HTMLElement | null} */ (null));
    const wasRenaming = useRef(false);
    useLayoutEffect(() => {
      // Back to where it began, unless a click has taken the focus elsewhere.
      if (wasRenaming.current && !isRenaming && document.activeElement === document.body) row.current?.querySelector("button")?.focus();
      wasRenaming.current = isRenaming;
    }, [isRenaming]);
    const { id, hit } = conversation;
    const title = conversation.title || t("untitled");
    if (isRenaming) {
      return html`<li class="row"><${TitleEditor} conversation=${conversation} commands=${commands} onDone=${() => setRenaming(false)} /></li>`;
    }
    const choose = () => {
      if (hit?.message_id) void commands.search.goTo(id, hit.message_id);
      onChosen();
    };
    return html`
      <li ref=${row} class="row ${isCurrent ? "is-current" : ""}">
        <a href=${hashOf(id)} dir="auto" aria-current=${isCurrent ? "page" : null} title=${title} onClick=${choose}>
          <span class="row-title">${title}</span>
          ${hasUnsent && html`<span class="row-unsent" title=${t("hasUnsent")}><span class="visually-hidden">${t("hasUnsent")}</span></span>`}
          ${hit && html`<span class="row-hit">${hit.snippet.map(({ text, marked }) => (marked ? html`<mark>${text}</mark>` : text))}</span>`}
        </a>
        <span class="row-buttons">
          <${ConversationMenu} conversation=${conversation} commands=${commands} onRename=${() => setRenaming(true)} onAsk=${onAsk} />
        </span>
      </li>
    `;
  },
);
