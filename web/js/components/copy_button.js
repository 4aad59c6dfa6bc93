/**
 * Puts a text on the clipboard. Browsers offer the clipboard to secure pages only; elsewhere there is no button.
 */

import { useEffect, useState } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import * as chat from "../texts/chat.js";
import { Icon } from "./icon.js";
import { useTexts } from "./language.js";

const SHOWN_MS = 1600;

/** @param {{text: string, label: string}} props */
export function CopyButton({ text, label }) {
  const { t } = useTexts(chat);
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return undefined;
    const timer = setTimeout(() => setCopied(false), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [isCopied]);
  if (!navigator.clipboard) return null;
  const copy = () => navigator.clipboard.writeText(text).then(() => setCopied(true), () => setCopied(false));
  const words = isCopied ? t("copied") : label;
  return html`
    <button type="button" class="icon-button" aria-label=${words} title=${words} onClick=${copy}>
      <${Icon} name=${isCopied ? "check" : "copy"} />
    </button>
  `;
}
