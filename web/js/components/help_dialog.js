/** Every key there is. */

import { html } from "../html.js";
import * as chat from "../texts/chat.js";
import { Dialog } from "./dialog.js";
import { useChoices, useTexts } from "./language.js";

/** @param {{onClose: () => void}} props */
export function HelpDialog({ onClose }) {
  const { t } = useTexts(chat);
  const { sendKey } = useChoices();
  const control = /mac|iphone|ipad/i.test(navigator.userAgent) ? "⌘" : "Ctrl";
  const isEnter = sendKey === "enter";
  /** @type {[string[], string][]} */
  const keys = [
    [isEnter ? ["Enter"] : [control, "Enter"], t("keySend")],
    [isEnter ? ["Shift", "Enter"] : ["Enter"], t("keyLine")],
    [["Esc"], t("keyStop")],
    [[control, "K"], t("keyNew")],
    [["/"], t("keySearch")],
    [[control, "F"], t("keyFind")],
    [["Alt", "↑"], t("keyUp")],
    [["Alt", "↓"], t("keyDown")],
    [["?"], t("keyHelp")],
  ];
  return html`
    <${Dialog} title=${t("help")} description=${t("helpText")} class="is-wide" onClose=${onClose}>
      <dl class="keys">
        ${keys.map(
          ([names, meaning]) => html`
            <div>
              <dt>${meaning}</dt>
              <dd>${names.map((name, index) => html`${index > 0 && " + "}<kbd>${name}</kbd>`)}</dd>
            </div>
          `,
        )}
      </dl>
      <div class="dialog-buttons"><button type="button" class="button" autofocus onClick=${onClose}>${t("close")}</button></div>
    <//>
  `;
}
