/**
 * One sentence for a moment, over the page: what went wrong and what to do, or what has just been done.
 *
 * @import { Saying } from "../texts.js"
 */

import { useEffect } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import * as chat from "../texts/chat.js";
import { Icon } from "./icon.js";
import { useTexts } from "./language.js";

const NOTICE_MS = 8000;

/** @param {{text: Saying | null, onDismiss: () => void}} props */
export function Notice({ text, onDismiss }) {
  const { t, say } = useTexts(chat);
  useEffect(() => {
    if (text === null) return undefined;
    const timer = setTimeout(onDismiss, NOTICE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return html`
    <div class="notice-place" role="alert">
      ${text !== null &&
      html`
        <div class="notice">
          <span dir="auto">${say(text)}</span>
          <button type="button" class="icon-button" aria-label=${t("dismiss")} title=${t("dismiss")} onClick=${onDismiss}><${Icon} name="close" /></button>
        </div>
      `}
    </div>
  `;
}
