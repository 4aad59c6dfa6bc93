/**
 * How satisfied people are with answers: sums by day and persona.
 *
 * @import { FeedbackSums } from "../wire.d.ts"
 */

import { useState } from "../../../vendor/preact/hooks.js";
import { useTexts } from "../../components/language.js";
import { html } from "../../html.js";
import * as texts from "../../texts/admin_feedback.js";
import { number, percent } from "../format.js";
import { DataTable } from "./data_table.js";
import { useDesk, useListing } from "./desk.js";

export function FeedbackView() {
  const { t, language } = useTexts(texts);
  const { api } = useDesk();
  const [since, setSince] = useState("");
  const [until, setUntil] = useState("");
  const listing = useListing((cursor) => api.feedback(cursor, { since, until }), [since, until]);
  const count = (/** @type {number} */ value) => number(value, language);
  return html`
    <p class="section-note">${t("hint")}</p>
    <div class="toolbar">
      <label class="filter"><span>${t("since")}</span><input type="date" value=${since} onChange=${(/** @type {any} */ event) => setSince(event.target.value)} /></label>
      <label class="filter"><span>${t("until")}</span><input type="date" value=${until} onChange=${(/** @type {any} */ event) => setUntil(event.target.value)} /></label>
    </div>
    <${DataTable}
      label=${t("feedback")}
      items=${listing.items}
      listing=${listing}
      whenEmpty=${t("none")}
      keyOf=${(/** @type {FeedbackSums} */ sums) => `${sums.day} ${sums.persona}`}
      columns=${[
        { head: t("column.day"), cell: (/** @type {FeedbackSums} */ sums) => sums.day },
        { head: t("column.persona"), cell: (/** @type {FeedbackSums} */ sums) => sums.persona ?? html`<span class="cell-soft">${t("noPersona")}</span>` },
        { head: t("column.satisfied"), isNumber: true, cell: (/** @type {FeedbackSums} */ sums) => percent(sums.satisfied, language) },
        { head: t("column.up"), isNumber: true, cell: (/** @type {FeedbackSums} */ sums) => count(sums.thumbs_up) },
        { head: t("column.down"), isNumber: true, cell: (/** @type {FeedbackSums} */ sums) => count(sums.thumbs_down) },
        { head: t("column.stars"), isNumber: true, cell: (/** @type {FeedbackSums} */ sums) => count(sums.stars) },
        { head: t("column.average"), isNumber: true, cell: (/** @type {FeedbackSums} */ sums) => number(sums.stars_average, language, 2) },
      ]}
    />
  `;
}
