/**
 * A message that has not reached the server: it waits and is sent by itself, or it was refused and the person decides.
 *
 * @import { Unsent } from "../wire.d.ts"
 */

import { html } from "../html.js";
import * as chat from "../texts/chat.js";
import { useTexts } from "./language.js";

/** @param {{unsent: Unsent, isConnected: boolean, onResend: () => void, onTakeBack: () => void}} props */
export function UnsentMessage({ unsent, isConnected, onResend, onTakeBack }) {
  const texts = useTexts(chat);
  const { t } = texts;
  const isRefused = unsent.refused !== null;
  const isDelayed = !isConnected || unsent.delayed !== undefined;
  return html`
    <article class="message from-user is-unsent" data-unsent=${unsent.client_message_id} aria-label=${t("notSentYet")}>
      <div class="bubble" dir="auto">${unsent.content}</div>
      <p class="answer-state ${isRefused ? "is-fault" : ""}">
        <span class="answer-state-words">${wordsFor(unsent, isConnected, texts)}</span>
        ${isRefused && html`<button type="button" class="button" onClick=${onResend}>${t("tryAgain")}</button>`}
        ${(isRefused || isDelayed) && html`<button type="button" class="button" onClick=${onTakeBack}>${t("takeBack")}</button>`}
      </p>
    </article>
  `;
}

/**
 * @param {Unsent} unsent
 * @param {boolean} isConnected
 * @param {import("../texts.js").Texts<keyof typeof chat.en>} texts
 */
function wordsFor({ refused, delayed }, isConnected, { t, say }) {
  if (refused !== null) return t("notSent", { reason: say(refused) });
  if (!isConnected) return t("sentWhenBack");
  return delayed === undefined ? t("sending") : t("notSentYetBecause", { reason: say(delayed) });
}
