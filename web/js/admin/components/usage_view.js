/**
 * What answers have cost, summed up by day, user, key, persona or model; as a file too.
 *
 * @import { UsageItem } from "../wire.d.ts"
 */

import { useState } from "../../../vendor/preact/hooks.js";
import { useTexts } from "../../components/language.js";
import { html } from "../../html.js";
import * as adminTexts from "../../texts/admin.js";
import * as texts from "../../texts/admin_people.js";
import { number } from "../format.js";
import { DataTable } from "./data_table.js";
import { useDesk, useListing } from "./desk.js";

const GROUPS = /** @type {const} */ (["day,user", "day", "user", "day,key", "key", "persona", "model", "purpose"]);

export function UsageView() {
  const { t, language } = useTexts(texts);
  const { t: general } = useTexts(adminTexts);
  const { api } = useDesk();
  const [groups, setGroups] = useState(/** @type {typeof GROUPS[number]} */ ("day,user"));
  const [since, setSince] = useState("");
  const [until, setUntil] = useState("");
  const wanted = { group_by: groups, since, until };
  const listing = useListing((cursor) => api.usage(cursor, wanted), [groups, since, until]);
  const count = (/** @type {number} */ value) => number(value, language);
  /** @type {Record<string, {head: string, cell: (item: UsageItem) => any}>} */
  const ofGroup = {
    day: { head: t("column.day"), cell: (item) => item.day ?? "" },
    user: { head: t("column.user"), cell: (item) => html`<span class="cell-name" dir="auto">${item.username ?? general("gone")}</span>` },
    key: { head: t("column.key"), cell: (item) => html`<span class="cell-code">${item.key_id?.slice(0, 8) ?? t("none")}</span>` },
    persona: { head: t("column.persona"), cell: (item) => item.persona ?? t("none") },
    purpose: { head: t("column.purpose"), cell: (item) => item.purpose ?? t("none") },
    model: { head: t("column.model"), cell: (item) => item.model ?? t("none") },
  };
  const totals = listing.page?.totals;
  const shownGroups = listing.page === null ? [] : groups.split(",");
  return html`
    <div class="toolbar">
      <label class="filter"><span>${t("groupBy")}</span>
        <select value=${groups} onChange=${(/** @type {any} */ event) => setGroups(event.target.value)}>
          ${GROUPS.map((group) => html`<option value=${group}>${t(`group.${group}`)}</option>`)}
        </select>
      </label>
      <label class="filter"><span>${t("since")}</span><input type="date" value=${since} onChange=${(/** @type {any} */ event) => setSince(event.target.value)} /></label>
      <label class="filter"><span>${t("until")}</span><input type="date" value=${until} onChange=${(/** @type {any} */ event) => setUntil(event.target.value)} /></label>
      <a class="button push" href=${api.usageFile(wanted)} download="kvasir-usage.csv">${t("download")}</a>
    </div>
    ${totals !== undefined &&
    totals.answers > 0 &&
    html`<p class="section-note">${t("totals", { count: totals.answers, input: totals.input_tokens, cached: totals.cached_tokens, output: totals.output_tokens })}</p>`}
    <${DataTable}
      label=${t("usage")}
      items=${listing.items}
      listing=${listing}
      whenEmpty=${t("noUsage")}
      keyOf=${(/** @type {UsageItem} */ item) => [item.day, item.user_id, item.key_id, item.persona, item.model, item.purpose].join()}
      columns=${[
        ...shownGroups.map((group) => /** @type {{head: string, cell: (item: UsageItem) => any}} */ (ofGroup[group])),
        { head: t("column.answers"), isNumber: true, cell: (/** @type {UsageItem} */ { usage }) => count(usage.answers) },
        { head: t("column.failed"), isNumber: true, cell: (/** @type {UsageItem} */ { usage }) => count(usage.failed + usage.interrupted) },
        { head: t("column.input"), isNumber: true, cell: (/** @type {UsageItem} */ { usage }) => count(usage.input_tokens) },
        { head: t("column.cached"), isNumber: true, cell: (/** @type {UsageItem} */ { usage }) => count(usage.cached_tokens) },
        { head: t("column.output"), isNumber: true, cell: (/** @type {UsageItem} */ { usage }) => count(usage.output_tokens) },
      ]}
    />
  `;
}
