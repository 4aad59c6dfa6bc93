/** The browser's own dialog, for everything that asks or tells over the page: it keeps the focus in it and closes on Esc. */

import { useId, useLayoutEffect, useRef } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";

/** @param {{title: string, description?: string | undefined, class?: string, onClose: () => void, children?: any}} props */
export function Dialog({ title, description, class: className = "", onClose, children }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const id = useId();
  useLayoutEffect(() => {
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    dialog.current?.showModal();
    return () => before?.isConnected && before.focus();
  }, []);
  const clickOutside = (/** @type {Event} */ event) => event.target === dialog.current && onClose();
  const cancel = (/** @type {Event} */ event) => {
    event.preventDefault();
    onClose();
  };
  const described = description === undefined ? null : `${id}-text`;
  return html`
    <dialog ref=${dialog} class="dialog ${className}" aria-labelledby="${id}-title" aria-describedby=${described} onCancel=${cancel} onClick=${clickOutside}>
      <div class="dialog-body">
        <h2 id="${id}-title">${title}</h2>
        ${description !== undefined && html`<p id=${described} dir="auto">${description}</p>`}
        ${children}
      </div>
    </dialog>
  `;
}
