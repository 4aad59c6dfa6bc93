/**
 * What the person said: a bubble with their words as they typed them, which they can word anew (that makes a branch).
 *
 * @import { Commands } from "../commands.js"
 * @import { Message } from "../wire.d.ts"
 */

import { useLayoutEffect, useRef, useState } from "../../vendor/preact/hooks.js";
import { html, memo } from "../html.js";
import * as chat from "../texts/chat.js";
import { BranchArrows } from "./branch_arrows.js";
import { CopyButton } from "./copy_button.js";
import { Icon } from "./icon.js";
import { useChoices, useTexts } from "./language.js";
import { fitHeight, focusComposer, isSendKey } from "./textarea.js";

/**
 * @typedef {object} Props
 * @property {Message} message
 * @property {Commands} commands
 * @property {number} place from 1, among those that are shown
 * @property {number} count -1: not known yet
 * @property {number} siblingIndex
 * @property {number} siblingCount
 * @property {string | null} previousId
 * @property {string | null} nextId
 */

export const UserMessage = memo(
  /** @param {Props} props */ (props) => {
    const { message, commands } = props;
    const { t } = useTexts(chat);
    // Another wording that was begun before a reload goes on.
    const [isEditing, setEditing] = useState(() => commands.wording(message) !== "");
    const body = useRef(/** @type {any} */ (null));
    const editButton = useRef(/** @type {HTMLButtonElement | null} */ (null));
    const wasEditing = useRef(false);
    useLayoutEffect(() => {
      if (body.current) body.current.rawText = message.content;
    });
    useLayoutEffect(() => {
      // Back to where the editor was opened, unless the words went off and the focus with them.
      if (wasEditing.current && !isEditing && document.activeElement === document.body) editButton.current?.focus();
      wasEditing.current = isEditing;
    }, [isEditing]);
    if (isEditing) {
      return html`
        <article class="message" data-message-id=${message.id} aria-label=${t("youSaid")} aria-posinset=${props.place} aria-setsize=${props.count}>
          <${Editor} key=${message.id} message=${message} commands=${commands} onDone=${() => setEditing(false)} />
        </article>
      `;
    }
    return html`
      <article
        class="message from-user"
        data-message-id=${message.id}
        data-role="user"
        aria-label=${t("youSaid")}
        aria-posinset=${props.place}
        aria-setsize=${props.count}
        tabindex="-1"
      >
        <div class="bubble" dir="auto" ref=${body}>${message.content}</div>
        <div class="actions">
          <${CopyButton} text=${message.content} label=${t("copyMessage")} />
          <button
            ref=${editButton}
            type="button"
            class="icon-button"
            aria-label=${t("editMessage")}
            title=${t("editMessage")}
            onClick=${() => setEditing(true)}
          >
            <${Icon} name="pencil" />
          </button>
          <${BranchArrows} ...${props} />
        </div>
      </article>
    `;
  },
);

/** @param {{message: Message, commands: Commands, onDone: () => void}} props */
function Editor({ message, commands, onDone }) {
  const { t } = useTexts(chat);
  const { sendKey } = useChoices();
  const area = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const [text, setText] = useState(() => commands.wording(message) || message.content);
  const change = (/** @type {string} */ next) => {
    setText(next);
    commands.putWording(message, next === message.content ? "" : next);
  };
  const leave = () => {
    commands.putWording(message, "");
    onDone();
  };
  useLayoutEffect(() => {
    area.current?.focus();
    area.current?.setSelectionRange(text.length, text.length);
  }, []);
  useLayoutEffect(() => fitHeight(area.current), [text]);
  const isSendable = text.trim() !== "" && text !== message.content;
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!isSendable || !commands.edit(message, text)) return;
    focusComposer();
    leave();
  };
  const keyDown = (/** @type {KeyboardEvent} */ event) => {
    if (isSendKey(event, sendKey)) submit(event);
    if (event.key === "Escape") {
      // Esc also stops an answer; here it means: leave the words as they were.
      event.stopPropagation();
      leave();
    }
  };
  return html`
    <form class="editor" onSubmit=${submit}>
      <textarea
        ref=${area}
        dir="auto"
        rows="1"
        aria-label=${t("editMessage")}
        value=${text}
        onInput=${(/** @type {any} */ event) => change(event.target.value)}
        onKeyDown=${keyDown}
      ></textarea>
      <div class="editor-buttons">
        <button type="button" class="button" onClick=${leave}>${t("cancel")}</button>
        <button type="submit" class="button button-primary" disabled=${!isSendable}>${t("sendEdit")}</button>
      </div>
    </form>
  `;
}
