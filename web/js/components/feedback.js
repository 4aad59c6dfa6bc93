/**
 * Thumbs up or down for an answer, and after a thumb down what was wrong, for those who want to say.
 *
 * @import { Commands } from "../commands.js"
 * @import { Message } from "../wire.d.ts"
 */

import { useRef, useState } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import * as chat from "../texts/chat.js";
import { Icon } from "./icon.js";
import { useTexts } from "./language.js";

const COMMENT_CHARS_MAX = 2000;

/** @param {{message: Message, commands: Commands, onAsk: (isAsked: boolean) => void}} props */
export function Thumbs({ message, commands, onAsk }) {
  const { t } = useTexts(chat);
  const rating = message.feedback?.scale === "thumbs" ? message.feedback.rating : 0;
  const press = (/** @type {1 | -1} */ wanted) => {
    const isTakenBack = rating === wanted;
    void commands.rate(message, isTakenBack ? null : { rating: wanted, scale: "thumbs" });
    onAsk(wanted === -1 && !isTakenBack);
  };
  return html`
    <button
      type="button"
      class="icon-button ${rating === 1 ? "is-on" : ""}"
      aria-label=${t("goodAnswer")}
      title=${t("goodAnswer")}
      aria-pressed=${String(rating === 1)}
      onClick=${() => press(1)}
    >
      <${Icon} name="liked" />
    </button>
    <button
      type="button"
      class="icon-button ${rating === -1 ? "is-on" : ""}"
      aria-label=${t("badAnswer")}
      title=${t("badAnswer")}
      aria-pressed=${String(rating === -1)}
      onClick=${() => press(-1)}
    >
      <${Icon} name="disliked" />
    </button>
  `;
}

/** @param {{message: Message, commands: Commands, onDone: () => void}} props */
export function WhatWasWrong({ message, commands, onDone }) {
  const { t } = useTexts(chat);
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [isSent, setSent] = useState(false);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const comment = field.current?.value.trim() ?? "";
    if (comment === "") {
      onDone();
      return;
    }
    void commands.rate(message, { rating: -1, scale: "thumbs", comment });
    setSent(true);
  };
  if (isSent) return html`<p class="answer-state" role="status">${t("thanks")}</p>`;
  return html`
    <form class="field-line what-was-wrong" onSubmit=${submit}>
      <label class="field">
        <span class="visually-hidden">${t("whatWasWrong")}</span>
        <input ref=${field} dir="auto" autocomplete="off" maxlength=${COMMENT_CHARS_MAX} placeholder=${t("whatWasWrong")} />
      </label>
      <button type="submit" class="button">${t("sendEdit")}</button>
      <button type="button" class="icon-button" aria-label=${t("close")} title=${t("close")} onClick=${onDone}><${Icon} name="close" /></button>
    </form>
  `;
}
