/**
 * Webhooks: which programs are told what, whether they take it, and every delivery, to be sent again.
 *
 * @import { Webhook } from "../wire.d.ts"
 */

import { useState } from "../../../vendor/preact/hooks.js";
import { messageOf } from "../../api.js";
import { useTexts } from "../../components/language.js";
import { html } from "../../html.js";
import * as texts from "../../texts/admin_webhooks.js";
import { dateTime } from "../format.js";
import { DataTable } from "./data_table.js";
import { useDesk, useListing, useNotice } from "./desk.js";
import { Dialog } from "./dialog.js";
import { DeliveriesDialog } from "./deliveries_dialog.js";
import { WebhookDialog } from "./webhook_dialog.js";

/** @typedef {{what: "edit" | "deliveries" | "rotate" | "delete", webhook: Webhook} | {what: "new"} | {what: "secret", secret: string} | null} Opened */

export function WebhooksView() {
  const { t, say, language } = useTexts(texts);
  const { api } = useDesk();
  const notice = useNotice();
  const [opened, setOpened] = useState(/** @type {Opened} */ (null));
  const listing = useListing((cursor) => api.webhooks(cursor), []);
  const close = () => setOpened(null);
  const open = (/** @type {"edit" | "deliveries" | "rotate" | "delete"} */ what, /** @type {Webhook} */ webhook) => () => setOpened({ what, webhook });
  const test = async (/** @type {Webhook} */ webhook) => {
    try {
      await api.testWebhook(webhook.id);
      notice(t("tested"));
    } catch (problem) {
      notice(say(messageOf(problem)));
    }
  };
  const remove = async () => {
    if (opened?.what !== "delete") return;
    await api.deleteWebhook(opened.webhook.id);
    notice(t("deleted"));
    void listing.reload();
  };
  const rotate = async () => {
    if (opened?.what !== "rotate") return;
    const { secret } = await api.rotateWebhookSecret(opened.webhook.id);
    // After the dialog has closed itself.
    setTimeout(() => setOpened({ what: "secret", secret }));
  };
  const statusOf = (/** @type {Webhook} */ webhook) => {
    if (!webhook.enabled) return webhook.disabled_reason ? `${t("disabled")}: ${webhook.disabled_reason}` : t("disabled");
    return webhook.failing_since ? t("failing", { time: dateTime(webhook.failing_since, language) }) : t("enabled");
  };
  return html`
    <div class="toolbar">
      <p class="section-note card-words">${t("hint")}</p>
      <button type="button" class="button button-primary push" onClick=${() => setOpened({ what: "new" })}>${t("newWebhook")}</button>
    </div>
    <${DataTable}
      label=${t("webhooks")}
      items=${listing.items}
      listing=${listing}
      whenEmpty=${t("none")}
      keyOf=${(/** @type {Webhook} */ webhook) => webhook.id}
      columns=${[
        {
          head: t("column.url"),
          cell: (/** @type {Webhook} */ webhook) => html`<div class="wrap">${webhook.url}${webhook.description && html`<div class="cell-soft" dir="auto">${webhook.description}</div>`}</div>`,
        },
        { head: t("column.events"), cell: (/** @type {Webhook} */ webhook) => html`<div class="wrap cell-soft">${webhook.events.join(", ") || t("allEvents")}</div>` },
        {
          head: t("column.status"),
          cell: (/** @type {Webhook} */ webhook) => html`<span class="state-mark state-${webhook.enabled && !webhook.failing_since ? "enabled" : "disabled"}">${statusOf(webhook)}</span>`,
        },
        {
          head: t("column.actions"),
          isHeadHidden: true,
          isNumber: true,
          cell: (/** @type {Webhook} */ webhook) => html`
            <span class="cell-buttons">
              <button type="button" class="button button-small" aria-label=${t("deliveriesOf", { url: webhook.url })} onClick=${open("deliveries", webhook)}>${t("deliveries")}</button>
              <button type="button" class="button button-small" aria-label=${t("testOf", { url: webhook.url })} onClick=${() => test(webhook)}>${t("test")}</button>
              <button type="button" class="button button-small" aria-label=${t("editOf", { url: webhook.url })} onClick=${open("edit", webhook)}>${t("edit")}</button>
              <button type="button" class="button button-small" aria-label=${t("rotateOf", { url: webhook.url })} onClick=${open("rotate", webhook)}>${t("rotate")}</button>
              <button type="button" class="button button-small button-danger" aria-label=${t("deleteOf", { url: webhook.url })} onClick=${open("delete", webhook)}>${t("delete")}</button>
            </span>
          `,
        },
      ]}
    />
    ${opened?.what === "new" &&
    html`<${WebhookDialog} webhook=${null} onClose=${close} onSaved=${listing.reload} onSecret=${(/** @type {string} */ secret) => setOpened({ what: "secret", secret })} />`}
    ${opened?.what === "edit" && html`<${WebhookDialog} webhook=${opened.webhook} onClose=${close} onSaved=${listing.reload} onSecret=${close} />`}
    ${opened?.what === "deliveries" && html`<${DeliveriesDialog} webhook=${opened.webhook} onClose=${close} />`}
    ${opened?.what === "secret" &&
    html`
      <${Dialog} key="secret" title=${t("secretTitle")} onClose=${close}>
        <p>${t("secretText")}</p>
        <p class="secret">${opened.secret}</p>
      <//>
    `}
    ${opened?.what === "rotate" &&
    html`
      <${Dialog} title=${t("rotateOf", { url: opened.webhook.url })} action=${t("rotate")} isDanger onSubmit=${rotate} onClose=${close}>
        <p>${t("rotateText")}</p>
      <//>
    `}
    ${opened?.what === "delete" &&
    html`
      <${Dialog} title=${t("deleteTitle")} action=${t("delete")} isDanger onSubmit=${remove} onClose=${close}>
        <p>${t("deleteText", { url: opened.webhook.url })}</p>
      <//>
    `}
  `;
}
