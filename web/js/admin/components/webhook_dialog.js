/**
 * A webhook, new or changed.
 *
 * @import { Webhook } from "../wire.d.ts"
 */

import { useTexts } from "../../components/language.js";
import { html } from "../../html.js";
import * as adminTexts from "../../texts/admin.js";
import * as texts from "../../texts/admin_webhooks.js";
import { useDesk, useNotice } from "./desk.js";
import { Dialog, Field } from "./dialog.js";

/** What there is to be told, by the server's own names. */
const EVENTS = [
  "conversation.created",
  "conversation.status_changed",
  "message.created",
  "response.completed",
  "response.incomplete",
  "response.cancelled",
  "response.failed",
  "response.interrupted",
  "handoff.requested",
  "feedback.created",
];

/** @param {{webhook: Webhook | null, onClose: () => void, onSaved: () => unknown, onSecret: (secret: string) => void}} props */
export function WebhookDialog({ webhook, onClose, onSaved, onSecret }) {
  const { t } = useTexts(texts);
  const { t: general } = useTexts(adminTexts);
  const { api } = useDesk();
  const notice = useNotice();
  const save = async (/** @type {FormData} */ fields) => {
    const wanted = {
      url: String(fields.get("url")).trim(),
      description: String(fields.get("description")).trim(),
      events: fields.getAll("events").map(String),
    };
    const made = webhook === null ? await api.createWebhook(wanted) : null;
    if (webhook !== null) await api.changeWebhook(webhook.id, { ...wanted, enabled: fields.has("enabled") });
    notice(t("saved"));
    onSaved();
    // After the dialog has closed itself.
    if (made !== null) setTimeout(() => onSecret(made.secret));
  };
  return html`
    <${Dialog} title=${webhook === null ? t("newWebhook") : webhook.url} action=${webhook === null ? t("create") : general("save")} isWide onSubmit=${save} onClose=${onClose}>
      <${Field} label=${t("urlField")} hint=${t("urlHint")}><input name="url" type="url" required maxlength="2000" defaultValue=${webhook?.url ?? ""} autocomplete="off" autofocus /><//>
      <${Field} label=${t("descriptionField")}><input name="description" maxlength="200" defaultValue=${webhook?.description ?? ""} /><//>
      <fieldset class="checks">
        <legend>${t("eventsField")}</legend>
        ${EVENTS.map((event) => html`<label class="check" key=${event}><input type="checkbox" name="events" value=${event} defaultChecked=${webhook?.events.includes(event) ?? false} /><span class="cell-code">${event}</span></label>`)}
      </fieldset>
      ${webhook !== null && html`<label class="check"><input type="checkbox" name="enabled" defaultChecked=${webhook.enabled} />${t("enabledField")}</label>`}
    <//>
  `;
}
