/** What a page shows while its server does not answer at the start. */

import { html } from "../html.js";
import * as texts from "../texts/sign_in.js";
import { Mark } from "./icon.js";
import { useTexts } from "./language.js";

/** @param {{onRetry: () => void}} props */
export function Unreachable({ onRetry }) {
  const { t } = useTexts(texts);
  return html`
    <main class="sign-in">
      <div class="sign-in-form">
        <div class="sign-in-head"><${Mark} /><h1>${t("unreachableTitle")}</h1></div>
        <p>${t("unreachableText")}</p>
        <button type="button" class="button button-primary" onClick=${onRetry}>${t("tryNow")}</button>
      </div>
    </main>
  `;
}
