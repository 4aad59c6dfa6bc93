/**
 * What is particular about the conversation that is shown, in one line above its messages: that it is temporary or archived.
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
  const { archived, temporary, expires_at: expiresAt } = conversation;
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
