/** A question before something that cannot be undone. */

import { html } from "../html.js";
import * as chat from "../texts/chat.js";
import { Dialog } from "./dialog.js";
import { useTexts } from "./language.js";

/** @param {{title: string, text: string, action: string, onConfirm: () => void, onCancel: () => void}} props */
export function ConfirmDialog({ title, text, action, onConfirm, onCancel }) {
  const { t } = useTexts(chat);
  return html`
    <${Dialog} title=${title} description=${text} onClose=${onCancel}>
      <div class="dialog-buttons">
        <button type="button" class="button" autofocus onClick=${onCancel}>${t("cancel")}</button>
        <button type="button" class="button button-danger" onClick=${onConfirm}>${action}</button>
      </div>
    <//>
  `;
}
