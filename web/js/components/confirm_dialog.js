/** A question before something that cannot be undone. The browser's own dialog: it keeps the focus and closes on Esc. */

import { useLayoutEffect, useRef } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import * as chat from "../texts/chat.js";
import { useTexts } from "./language.js";

/** @param {{title: string, text: string, action: string, onConfirm: () => void, onCancel: () => void}} props */
export function ConfirmDialog({ title, text, action, onConfirm, onCancel }) {
  const { t } = useTexts(chat);
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useLayoutEffect(() => {
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    dialog.current?.showModal();
    return () => before?.isConnected && before.focus();
  }, []);
  const clickOutside = (/** @type {Event} */ event) => event.target === dialog.current && onCancel();
  return html`
    <dialog ref=${dialog} class="dialog" aria-labelledby="dialog-title" aria-describedby="dialog-text" onCancel=${onCancel} onClick=${clickOutside}>
      <div class="dialog-body">
        <h2 id="dialog-title">${title}</h2>
        <p id="dialog-text" dir="auto">${text}</p>
        <div class="dialog-buttons">
          <button type="button" class="button" autofocus onClick=${onCancel}>${t("cancel")}</button>
          <button type="button" class="button button-danger" onClick=${onConfirm}>${action}</button>
        </div>
      </div>
    </dialog>
  `;
}
