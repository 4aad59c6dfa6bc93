/**
 * Where an answer stands, in words: waiting, reading, writing, or how it ended. Says nothing about one that ended well.
 *
 * @import { Message } from "../wire.d.ts"
 */

import { html } from "../html.js";
import { isFinal } from "../message.js";
import * as chat from "../texts/chat.js";
import { Icon } from "./icon.js";
import { useTexts } from "./language.js";

/** @typedef {import("../texts.js").Texts<keyof typeof chat.en>["t"]} Say */

/** A prompt shorter than this is read before anybody could read a number. */
const PROGRESS_TOKENS_MIN = 64;

/** @param {{message: Message, isConnected: boolean, onRegenerate: () => void}} props */
export function AnswerState({ message, isConnected, onRegenerate }) {
  const { t } = useTexts(chat);
  if (!isFinal(message)) return html`<${Running} message=${message} isConnected=${isConnected} />`;
  const ending = endingOf(message, t);
  if (ending === null) return null;
  return html`
    <p class="answer-state ${ending.isFault ? "is-fault" : ""}">
      ${ending.isFault && html`<${Icon} name="alert" />`}
      <span class="answer-state-words" dir="auto">${ending.words}</span>
      ${ending.isFault && html`<button type="button" class="button" onClick=${onRegenerate}>${t("regenerate")}</button>`}
    </p>
  `;
}

/** @param {{message: Message, isConnected: boolean}} props */
function Running({ message, isConnected }) {
  const { t } = useTexts(chat);
  if (!isConnected) {
    return html`<p class="answer-state">${t("answerGoesOn")}</p>`;
  }
  if (message.content !== "") return null;
  const { progress } = message;
  if (progress?.phase === "prefill" && progress.total >= PROGRESS_TOKENS_MIN) {
    return html`
      <div class="answer-state">
        <span class="answer-state-words">${t("readingTokens", { done: progress.done, total: progress.total })}</span>
        <progress max=${progress.total} value=${progress.done} aria-label=${t("readingConversation")}></progress>
      </div>
    `;
  }
  return html`<p class="answer-state is-waiting"><span class="answer-state-words">${waitingWords(message, t)}</span></p>`;
}

/**
 * @param {Message} message
 * @param {Say} t
 */
function waitingWords({ status, position, progress }, t) {
  if (progress) return t(progress.phase === "prefill" ? "reading" : "writing");
  if (status === "in_progress") return t("working");
  if (!position) return t("waiting");
  return position === 1 ? t("waitingNext") : t("waitingInLine", { position });
}

/** Whether the person should be led to try again. @param {Message} message */
export function endedBadly({ status }) {
  return status === "failed" || status === "interrupted";
}

/**
 * @param {Message} message
 * @param {Say} t
 */
function endingOf({ status, error, content }, t) {
  switch (status) {
    case "cancelled":
      return { words: t(content === "" ? "stoppedEmpty" : "stopped"), isFault: false };
    case "incomplete":
      return { words: t("cutAtLimit"), isFault: false };
    case "interrupted":
      return { words: t("interrupted"), isFault: true };
    case "failed":
      return { words: error ? t("failedBecause", { reason: error.message }) : t("failed"), isFault: true };
    default:
      return content === "" ? { words: t("empty"), isFault: false } : null;
  }
}
