/**
 * A message that has not reached the server: it waits and is sent by itself, or it was refused and the person decides.
 *
 * @import { Unsent } from "../wire.d.ts"
 */

import { html } from "../html.js";

/** @param {{unsent: Unsent, isConnected: boolean, onResend: () => void, onTakeBack: () => void}} props */
export function UnsentMessage({ unsent, isConnected, onResend, onTakeBack }) {
  const isRefused = unsent.refused !== null;
  const isDelayed = !isConnected || unsent.delayed !== undefined;
  return html`
    <article class="message from-user is-unsent" data-unsent=${unsent.client_message_id} aria-label="You wrote, not sent yet">
      <div class="bubble" dir="auto">${unsent.content}</div>
      <p class="answer-state ${isRefused ? "is-fault" : ""}">
        <span class="answer-state-words">${wordsFor(unsent, isConnected)}</span>
        ${isRefused && html`<button type="button" class="button" onClick=${onResend}>Try again</button>`}
        ${(isRefused || isDelayed) && html`<button type="button" class="button" onClick=${onTakeBack}>Take back</button>`}
      </p>
    </article>
  `;
}

/**
 * @param {Unsent} unsent
 * @param {boolean} isConnected
 */
function wordsFor({ refused, delayed }, isConnected) {
  if (refused !== null) return `Not sent. ${refused}`;
  if (!isConnected) return "Will be sent when the connection is back";
  return delayed === undefined ? "Sending" : `Not sent yet. ${delayed} Trying again by itself.`;
}
