/**
 * Sentences for a moment: what was done, or what went wrong and what to do about it.
 *
 * @import { Toast } from "../state.js"
 */

import { Icon } from "../../components/icon.js";
import { useTexts } from "../../components/language.js";
import { html } from "../../html.js";
import * as texts from "../../texts/inbox.js";

/** @param {{toasts: readonly Toast[], onDismiss: (id: string) => void}} props */
export function Toasts({ toasts, onDismiss }) {
  const { t, say } = useTexts(texts);
  const shown = (/** @type {boolean} */ isFault) =>
    toasts
      .filter((toast) => toast.isFault === isFault)
      .map(
        (toast) => html`
          <div key=${toast.id} class="notice">
            <span dir="auto">${say(toast.saying)}</span>
            <button type="button" class="icon-button" aria-label=${t("dismiss")} title=${t("dismiss")} onClick=${() => onDismiss(toast.id)}><${Icon} name="close" /></button>
          </div>
        `,
      );
  return html`
    <div class="toasts">
      <div role="alert">${shown(true)}</div>
      <div role="status">${shown(false)}</div>
    </div>
  `;
}
