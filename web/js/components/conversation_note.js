/**
 * What is particular about the conversation that is shown, in one line above its messages: that a person answers in it or is
 * waited for, that it is temporary, that it is archived.
 *
 * @import { Commands } from "../commands.js"
 * @import { Conversation } from "../wire.d.ts"
 */

import { html } from "../html.js";
import * as chat from "../texts/chat.js";
import { Icon } from "./icon.js";
import { useTexts } from "./language.js";

/** @param {{conversation: Conversation, commands: Commands}} props */
export function ConversationNote({ conversation, commands }) {
  const { t, language } = useTexts(chat);
  const { archived, temporary, expires_at: expiresAt, state, agent } = conversation;
  if (state === "queued") {
    return html`
      <div class="note" data-note="queued" role="status">
        <${Icon} name="person" />
        <span>${t("waitsForPerson")}</span>
        <button type="button" class="button" onClick=${() => void commands.conversations.waitNoLonger(conversation)}>${t("waitNoLonger")}</button>
      </div>
    `;
  }
  if (state === "human" || state === "resolved") {
    return html`
      <div class="note" data-note=${state} role="status">
        <${Icon} name=${state === "human" ? "person" : "check"} />
        <span dir="auto">${state === "resolved" ? t("resolved") : agent ? t("personAnswers", { name: agent.name }) : t("somebodyAnswers")}</span>
      </div>
    `;
  }
  if (temporary) {
    const time = expiresAt === null ? "" : new Date(expiresAt).toLocaleString(language, { dateStyle: "medium", timeStyle: "short" });
    return html`
      <div class="note" data-note="temporary">
        <${Icon} name="clock" />
        <span>${t("temporaryUntil", { time })}</span>
        <button type="button" class="button" onClick=${() => void commands.conversations.keep(conversation)}>${t("keep")}</button>
      </div>
    `;
  }
  if (archived) {
    return html`
      <div class="note" data-note="archived">
        <${Icon} name="archive" />
        <span>${t("archivedNote")}</span>
        <button type="button" class="button" onClick=${() => void commands.conversations.archive(conversation, false)}>${t("unarchive")}</button>
      </div>
    `;
  }
  return null;
}
