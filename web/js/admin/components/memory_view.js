/**
 * The memory of keys and values, page by page and tier by tier: as a picture, or as a table that says the same.
 *
 * @import { Kind, Run } from "../page_map.js"
 * @import { Stats } from "../wire.d.ts"
 */

import { useMemo, useState } from "../../../vendor/preact/hooks.js";
import { useTexts } from "../../components/language.js";
import { html } from "../../html.js";
import * as texts from "../../texts/admin_live.js";
import { number, percent, size } from "../format.js";
import { KINDS, countsOf, runsOf, runsOfTier, totalOf } from "../page_map.js";
import { PageCanvas } from "./page_canvas.js";

const TIERS = /** @type {const} */ (["device", "host", "disk"]);

/** @param {{stats: Stats | null}} props */
export function MemoryView({ stats }) {
  const { t } = useTexts(texts);
  const [isTable, setTable] = useState(false);
  if (stats === null) return null;
  return html`
    <div class="toolbar">
      <button type="button" class="button" aria-pressed=${String(isTable)} onClick=${() => setTable(!isTable)}>${t(isTable ? "asChart" : "asTable")}</button>
      <span class="toolbar-note">${t("mapPrivate")}</span>
    </div>
    <ul class="legend" aria-label=${t("legend")}>
      ${KINDS.map((kind) => html`<li key=${kind}><span class="swatch swatch-${kind}"></span>${t(`kind.${kind}`)}</li>`)}
    </ul>
    ${TIERS.map((tier) => html`<${Tier} key=${tier} tier=${tier} stats=${stats} isTable=${isTable} />`)}
  `;
}

/** @param {{tier: typeof TIERS[number], stats: Stats, isTable: boolean}} props */
function Tier({ tier, stats, isTable }) {
  const { t, language } = useTexts(texts);
  const marks = tier === "device" ? stats.page_map : JSON.stringify(stats.pages.filter((count) => count.tier === tier));
  const runs = useMemo(() => (tier === "device" ? runsOf(stats.page_map) : runsOfTier(stats, tier)), [marks]);
  const bytes = stats.tiers[tier];
  const total = totalOf(runs);
  const title = t(`tier.${tier}`);
  const isOff = bytes === undefined || bytes.limit_bytes === 0;
  const used = total - countsOf(runs).free;
  const use = isOff ? "" : t("tierUse", { pages: used, used: size(bytes.used_bytes, language), limit: size(bytes.limit_bytes, language) });
  return html`
    <section class="card" aria-label=${title}>
      <header class="card-head">
        <div><h2>${title}</h2><p class="card-unit">${t(`tier.${tier}Text`)}</p></div>
        <p class="card-note">${use}</p>
      </header>
      ${total === 0
        ? html`<p class="empty">${t(tier === "device" ? "noMap" : isOff ? "tierOff" : "tierEmpty")}</p>`
        : isTable
          ? html`<${KindTable} title=${title} runs=${runs} />`
          : html`
              <${PageCanvas}
                runs=${runs}
                label=${t("mapOf", { tier: title })}
                help=${t("mapHelp")}
                empty=${t("cellEmpty")}
                says=${(/** @type {number} */ page, /** @type {Kind} */ kind) => t("cell", { page: page + 1, total, kind: t(`kind.${kind}`), whose: t(`whose.${kind}`) })}
              />
            `}
    </section>
  `;
}

/** @param {{title: string, runs: readonly Run[]}} props */
function KindTable({ title, runs }) {
  const { t, language } = useTexts(texts);
  const counts = countsOf(runs);
  const total = totalOf(runs);
  return html`
    <div class="table-frame" role="region" aria-label=${t("tableOf", { title })} tabindex="0">
      <table class="table">
        <thead><tr><th scope="col">${t("column_kind")}</th><th scope="col">${t("column_whose")}</th><th scope="col" class="is-number">${t("column_pages")}</th><th scope="col" class="is-number">${t("column_share")}</th></tr></thead>
        <tbody>
          ${KINDS.map(
            (kind) => html`
              <tr key=${kind}>
                <td><span class="swatch swatch-${kind}"></span>${t(`kind.${kind}`)}</td><td>${t(`whose.${kind}`)}</td>
                <td class="is-number">${number(counts[kind], language)}</td><td class="is-number">${percent(total === 0 ? null : counts[kind] / total, language)}</td>
              </tr>
            `,
          )}
        </tbody>
      </table>
    </div>
  `;
}
