/**
 * A dialog with a form: asks for what an act needs, or only whether it shall be done, and stays open with the reason where the
 * server refuses. The browser's own dialog: it keeps the focus and closes on Esc.
 *
 * @import { Saying } from "../../texts.js"
 */

import { useId, useLayoutEffect, useRef, useState } from "../../../vendor/preact/hooks.js";
import { messageOf } from "../../api.js";
import { useTexts } from "../../components/language.js";
import { html } from "../../html.js";
import * as texts from "../../texts/admin.js";

/**
 * @param {object} props
 * @param {string} props.title
 * @param {string} [props.action] what the button says; without one there is nothing to do but to close
 * @param {boolean} [props.isDanger]
 * @param {boolean} [props.isWide]
 * @param {(fields: FormData) => Promise<unknown>} [props.onSubmit]
 * @param {() => void} props.onClose
 * @param {any} [props.children]
 */
export function Dialog({ title, action, isDanger = false, isWide = false, onSubmit, onClose, children }) {
  const { t, say } = useTexts(texts);
  const titleId = useId();
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState(/** @type {Saying | null} */ (null));
  useLayoutEffect(() => {
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    dialog.current?.showModal();
    return () => before?.isConnected && before.focus();
  }, []);
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    if (isBusy || onSubmit === undefined) return;
    setBusy(true);
    setProblem(null);
    try {
      await onSubmit(new FormData(/** @type {HTMLFormElement} */ (event.target)));
      onClose();
    } catch (refused) {
      setProblem(messageOf(refused));
      setBusy(false);
    }
  };
  return html`
    <dialog ref=${dialog} class="dialog ${isWide ? "dialog-wide" : ""}" aria-labelledby=${titleId} onCancel=${onClose}>
      <form class="dialog-body" onSubmit=${submit}>
        <h2 id=${titleId}>${title}</h2>
        ${children}
        <p class="dialog-problem" role="alert">${problem === null ? "" : say(problem)}</p>
        <div class="dialog-buttons">
          <button type="button" class="button" autofocus=${isDanger} onClick=${onClose}>${t(action === undefined ? "close" : "cancel")}</button>
          ${action !== undefined &&
          html`<button type="submit" class="button ${isDanger ? "button-danger" : "button-primary"}" aria-disabled=${String(isBusy)}>
            ${isBusy ? t("oneMoment") : action}
          </button>`}
        </div>
      </form>
    </dialog>
  `;
}

/** @param {{label: string, hint?: string, children?: any}} props */
export function Field({ label, hint, children }) {
  return html`
    <label class="field">
      <span>${label}</span>
      ${children}
      ${hint !== undefined && html`<small class="field-hint">${hint}</small>`}
    </label>
  `;
}
