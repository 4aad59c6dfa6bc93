/**
 * What is asked about a conversation over the page: whether to delete it, and what its tags are.
 *
 * @import { Commands } from "../commands.js"
 * @import { Conversation } from "../wire.d.ts"
 */

import { useRef } from "../../vendor/preact/hooks.js";
import { TAG_CHARS_MAX, TAGS_MAX } from "../conversation_commands.js";
import { tagsTyped } from "../conversations.js";
import { html } from "../html.js";
import * as chat from "../texts/chat.js";
import { ConfirmDialog } from "./confirm_dialog.js";
import { Dialog } from "./dialog.js";
import { Icon } from "./icon.js";
import { useTexts } from "./language.js";
import { focusComposer } from "./textarea.js";

/** @param {{conversation: Conversation, commands: Commands, onDone: () => void}} props */
export function DeleteDialog({ conversation, commands, onDone }) {
  const { t } = useTexts(chat);
  const remove = async () => {
    onDone();
    await commands.conversations.remove(conversation);
    // The button that was pressed goes with its row.
    focusComposer();
  };
  return html`
    <${ConfirmDialog}
      title=${t("deleteTitle")}
      text=${t("deleteText", { title: conversation.title || t("untitled") })}
      action=${t("delete")}
      onConfirm=${remove}
      onCancel=${onDone}
    />
  `;
}

/** @param {{conversation: Conversation, suggestions: readonly string[], commands: Commands, onDone: () => void}} props */
export function TagsDialog({ conversation, suggestions, commands, onDone }) {
  const { t } = useTexts(chat);
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const { tags } = conversation;
  const add = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!field.current) return;
    const added = tagsTyped(field.current.value, suggestions).filter((tag) => !tags.includes(tag));
    field.current.value = "";
    if (added.length > 0) void commands.conversations.addTags(conversation, added);
  };
  const remove = (/** @type {string} */ tag) => {
    void commands.conversations.removeTag(conversation, tag);
    // The button that was pressed goes with its tag.
    field.current?.focus();
  };
  return html`
    <${Dialog} title=${t("tags")} description=${t("tagsText")} class="is-wide" onClose=${onDone}>
      <ul class="chips" aria-label=${t("tags")}>
        ${tags.map(
          (tag) => html`
            <li key=${tag} class="chip">
              <span dir="auto">${tag}</span>
              <button type="button" class="chip-button" aria-label=${t("removeTag", { tag })} title=${t("removeTag", { tag })} onClick=${() => remove(tag)}>
                <${Icon} name="close" />
              </button>
            </li>
          `,
        )}
      </ul>
      <form class="field-line" onSubmit=${add}>
        <label class="field">
          <span class="visually-hidden">${t("newTag")}</span>
          <input ref=${field} list="known-tags" dir="auto" maxlength=${TAG_CHARS_MAX * TAGS_MAX} placeholder=${t("newTag")} disabled=${tags.length >= TAGS_MAX} />
        </label>
        <datalist id="known-tags">${suggestions.filter((tag) => !tags.includes(tag)).map((tag) => html`<option key=${tag} value=${tag} />`)}</datalist>
        <button type="submit" class="button">${t("addTag")}</button>
      </form>
      <div class="dialog-buttons"><button type="button" class="button button-primary" onClick=${onDone}>${t("doneButton")}</button></div>
    <//>
  `;
}
