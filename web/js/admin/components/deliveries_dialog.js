/**
 * What was sent to one webhook, how it went, and the button that sends it again.
 *
 * @import { Delivery, Webhook } from "../wire.d.ts"
 */

import { useState } from "../../../vendor/preact/hooks.js";
import { useTexts } from "../../components/language.js";
import { html } from "../../html.js";
import * as texts from "../../texts/admin_webhooks.js";
import { NOTHING, dateTime } from "../format.js";
import { DataTable } from "./data_table.js";
import { useDesk, useListing, useNotice, useRepeated } from "./desk.js";
import { Dialog } from "./dialog.js";

const PAUSE_MS = 3000;
const STATUSES = /** @type {const} */ (["pending", "delivered", "dead"]);

/** @param {{webhook: Webhook, onClose: () => void}} props */
export function DeliveriesDialog({ webhook, onClose }) {
  const { t, language } = useTexts(texts);
  const { api } = useDesk();
  const notice = useNotice();
  const [status, setStatus] = useState("");
  const listing = useListing((cursor) => api.deliveries(webhook.id, cursor, status), [webhook.id, status]);
  // What has just been asked for elsewhere on the page, or happens in a chat, comes in while this is open.
  useRepeated(listing.reload, PAUSE_MS);
  const replay = async (/** @type {Delivery} */ delivery) => {
    try {
      await api.replayDelivery(webhook.id, delivery.id);
      notice(t("replayed"));
    } catch (problem) {
      listing.fail(problem);
      return;
    }
    void listing.reload();
  };
  const resultOf = (/** @type {Delivery} */ delivery) => [delivery.last_status_code, delivery.last_error].filter(Boolean).join(" ") || NOTHING;
  return html`
    <${Dialog} title=${t("deliveriesOf", { url: webhook.url })} isWide onClose=${onClose}>
      <div class="filter">
        <select aria-label=${t("statusFilter")} value=${status} onChange=${(/** @type {any} */ event) => setStatus(event.target.value)}>
          <option value="">${t("everyStatus")}</option>
          ${STATUSES.map((name) => html`<option value=${name}>${t(`delivery.${name}`)}</option>`)}
        </select>
      </div>
      <${DataTable}
        label=${t("deliveries")}
        items=${listing.items}
        listing=${listing}
        whenEmpty=${t("noDeliveries")}
        keyOf=${(/** @type {Delivery} */ delivery) => delivery.id}
        columns=${[
          { head: t("column.created"), cell: (/** @type {Delivery} */ delivery) => dateTime(delivery.created_at, language) },
          { head: t("column.event"), cell: (/** @type {Delivery} */ delivery) => html`<span class="cell-code">${delivery.event_type}</span>` },
          { head: t("column.status"), cell: (/** @type {Delivery} */ delivery) => html`<span class="state-mark state-${delivery.status}">${t(`delivery.${delivery.status}`)}</span>` },
          { head: t("column.attempts"), isNumber: true, cell: (/** @type {Delivery} */ delivery) => delivery.attempts },
          { head: t("column.result"), cell: (/** @type {Delivery} */ delivery) => html`<div class="cell-result cell-soft">${resultOf(delivery)}</div>` },
          {
            head: t("column.actions"),
            isHeadHidden: true,
            isNumber: true,
            cell: (/** @type {Delivery} */ delivery) =>
              delivery.status !== "pending" &&
              html`<button type="button" class="button button-small" aria-label=${t("replayOf", { event: delivery.event_type, time: dateTime(delivery.created_at, language) })} onClick=${() => replay(delivery)}>${t("replay")}</button>`,
          },
        ]}
      />
    <//>
  `;
}
