/**
 * Where an answer stands, in words: waiting, reading, writing, or how it ended. Says nothing about one that ended well.
 *
 * @import { Message } from "../wire.d.ts"
 */

import { html } from "../html.js";
import { isFinal } from "../message.js";
import { Icon } from "./icon.js";

/** A prompt shorter than this is read before anybody could read a number. */
const PROGRESS_TOKENS_MIN = 64;

/** @param {{message: Message, isConnected: boolean, onRegenerate: () => void}} props */
export function AnswerState({ message, isConnected, onRegenerate }) {
  if (!isFinal(message)) return html`<${Running} message=${message} isConnected=${isConnected} />`;
  const ending = endingOf(message);
  if (ending === null) return null;
  return html`
    <p class="answer-state ${ending.isFault ? "is-fault" : ""}">
      ${ending.isFault && html`<${Icon} name="alert" />`}
      <span class="answer-state-words" dir="auto">${ending.words}</span>
      ${ending.isFault && html`<button type="button" class="button" onClick=${onRegenerate}>Regenerate</button>`}
    </p>
  `;
}

/** @param {{message: Message, isConnected: boolean}} props */
function Running({ message, isConnected }) {
  if (!isConnected) {
    const words = "Connection lost. The answer goes on at the server; the rest will appear here.";
    return html`<p class="answer-state">${words}</p>`;
  }
  if (message.content !== "") return null;
  const { progress } = message;
  if (progress?.phase === "prefill" && progress.total >= PROGRESS_TOKENS_MIN) {
    return html`
      <div class="answer-state">
        <span class="answer-state-words">Reading ${count(progress.done)} of ${count(progress.total)} tokens</span>
        <progress max=${progress.total} value=${progress.done} aria-label="Reading the conversation"></progress>
      </div>
    `;
  }
  return html`<p class="answer-state is-waiting"><span class="answer-state-words">${waitingWords(message)}</span></p>`;
}

/** @param {number} tokens */
function count(tokens) {
  return tokens.toLocaleString("en");
}

/** @param {Message} message */
function waitingWords({ status, position, progress }) {
  if (progress) return progress.phase === "prefill" ? "Reading" : "Writing";
  if (status === "in_progress") return "Working";
  if (!position) return "Waiting";
  return position === 1 ? "Waiting, next in line" : `Waiting, number ${position} in line`;
}

/** Whether the person should be led to try again. @param {Message} message */
export function endedBadly({ status }) {
  return status === "failed" || status === "interrupted";
}

/** @param {Message} message */
function endingOf({ status, error, content }) {
  switch (status) {
    case "cancelled":
      return { words: content === "" ? "Stopped before the first word." : "Stopped.", isFault: false };
    case "incomplete":
      return { words: "Cut here: the answer reached its longest length.", isFault: false };
    case "interrupted":
      return { words: "Interrupted: the server stopped in the middle of this answer.", isFault: true };
    case "failed":
      return { words: error ? `The answer failed. ${error.message}` : "The answer failed.", isFault: true };
    default:
      return content === "" ? { words: "The answer is empty.", isFault: false } : null;
  }
}
