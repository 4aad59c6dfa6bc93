/**
 * One line of the list: a link to the conversation, and the buttons to rename and delete it.
 *
 * @import { Commands } from "../commands.js"
 * @import { Conversation } from "../wire.d.ts"
 */

import { useLayoutEffect, useRef, useState } from "../../vendor/preact/hooks.js";
import { html, memo } from "../html.js";
import { hashOf } from "../route.js";
import * as chat from "../texts/chat.js";
import { Icon } from "./icon.js";
import { useTexts } from "./language.js";

const TITLE_CHARS_MAX = 200;

/**
 * @typedef {object} Props
 * @property {Conversation} conversation
 * @property {boolean} isCurrent
 * @property {Commands} commands
 * @property {() => void} onChosen
 * @property {(conversation: Conversation) => void} onRemove
 */

export const ConversationRow = memo(
  /** @param {Props} props */ ({ conversation, isCurrent, commands, onChosen, onRemove }) => {
    const { t } = useTexts(chat);
    const [isRenaming, setRenaming] = useState(false);
    const renameButton = useRef(/** @type {HTMLButtonElement | null} */ (null));
    const wasRenaming = useRef(false);
    useLayoutEffect(() => {
      // Back to where it began, unless a click has taken the focus elsewhere.
      if (wasRenaming.current && !isRenaming && document.activeElement === document.body) renameButton.current?.focus();
      wasRenaming.current = isRenaming;
    }, [isRenaming]);
    const title = conversation.title || t("untitled");
    if (isRenaming) {
      return html`<li class="row"><${TitleEditor} conversation=${conversation} commands=${commands} onDone=${() => setRenaming(false)} /></li>`;
    }
    return html`
      <li class="row ${isCurrent ? "is-current" : ""}">
        <a href=${hashOf(conversation.id)} dir="auto" aria-current=${isCurrent ? "page" : null} title=${title} onClick=${onChosen}>${title}</a>
        <span class="row-buttons">
          <button
            ref=${renameButton}
            type="button"
            class="icon-button"
            aria-label=${t("renameOf", { title })}
            title=${t("rename")}
            onClick=${() => setRenaming(true)}
          >
            <${Icon} name="pencil" />
          </button>
          <button type="button" class="icon-button" aria-label=${t("deleteOf", { title })} title=${t("delete")} onClick=${() => onRemove(conversation)}>
            <${Icon} name="trash" />
          </button>
        </span>
      </li>
    `;
  },
);

/** @param {{conversation: Conversation, commands: Commands, onDone: () => void}} props */
function TitleEditor({ conversation, commands, onDone }) {
  const { t } = useTexts(chat);
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const isDone = useRef(false);
  useLayoutEffect(() => input.current?.select(), []);
  const finish = (/** @type {boolean} */ isWanted) => {
    // Leaving the field follows upon Enter and Esc: only the first of them counts.
    if (isDone.current) return;
    isDone.current = true;
    const title = (input.current?.value ?? "").trim();
    if (isWanted && title !== "" && title !== conversation.title) void commands.rename(conversation, title);
    onDone();
  };
  const keyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.isComposing) return;
    if (event.key === "Enter" || event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      finish(event.key === "Enter");
    }
  };
  return html`
    <input
      ref=${input}
      class="title-editor"
      dir="auto"
      aria-label=${t("titleField")}
      maxlength=${TITLE_CHARS_MAX}
      defaultValue=${conversation.title}
      onKeyDown=${keyDown}
      onBlur=${() => finish(true)}
    />
  `;
}
