/**
 * The title of a conversation as a field, where it is shown. Enter and leaving the field take the new title, Esc leaves the old one.
 *
 * @import { Commands } from "../commands.js"
 * @import { Conversation } from "../wire.d.ts"
 */

import { useLayoutEffect, useRef } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import * as chat from "../texts/chat.js";
import { useTexts } from "./language.js";

const TITLE_CHARS_MAX = 200;

/** @param {{conversation: Conversation, commands: Commands, onDone: () => void}} props */
export function TitleEditor({ conversation, commands, onDone }) {
  const { t } = useTexts(chat);
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const isDone = useRef(false);
  useLayoutEffect(() => input.current?.select(), []);
  const finish = (/** @type {boolean} */ isWanted) => {
    // Leaving the field follows upon Enter and Esc: only the first of them counts.
    if (isDone.current) return;
    isDone.current = true;
    const title = (input.current?.value ?? "").trim();
    if (isWanted && title !== "" && title !== conversation.title) void commands.conversations.rename(conversation, title);
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
