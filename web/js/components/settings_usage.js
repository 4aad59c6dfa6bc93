/**
 * What one has used, and how much of one's limits.
 *
 * @import { AccountApi } from "../account_api.js"
 * @import { Limit } from "../wire.d.ts"
 */

import { html } from "../html.js";
import * as texts from "../texts/settings.js";
import { useTexts } from "./language.js";
import { Loading, useLoaded } from "./loaded.js";

/** @param {{account: AccountApi}} props */
export function UsagePage({ account }) {
  const { t, language } = useTexts(texts);
  const usage = useLoaded(() => account.usage());
  const limits = useLoaded(() => account.limits());
  const days = usage.value?.items ?? [];
  return html`
    <section aria-labelledby="settings-heading">
      <h2 id="settings-heading">${t("limits")}</h2>
      <p class="settings-text">${t("limitsText")}</p>
      <${Loading} loaded=${limits} />
      ${limits.value?.items.length === 0 && html`<p class="settings-empty">${t("noLimits")}</p>`}
      <ul class="cards">
        ${(limits.value?.items ?? []).map(
          (limit) => html`
            <li key=${`${limit.unit} ${limit.per}`} class="card">
              <div class="card-words">
                <span>${nameOf(limit)}</span>
                <small>
                  <span>${t("usedOf", { used: limit.used, limit: limit.limit })}</span>
                  ${limit.resets_at !== null &&
                  html`<span>${t("beginsAnew", { time: new Date(limit.resets_at).toLocaleTimeString(language, { timeStyle: "short" }) })}</span>`}
                </small>
                <meter min="0" max=${Math.max(1, limit.limit)} value=${limit.used} aria-label=${nameOf(limit)}></meter>
              </div>
            </li>
          `,
        )}
      </ul>
    </section>
    <section aria-labelledby="usage-heading">
      <h2 id="usage-heading">${t("usage")}</h2>
      <p class="settings-text">${t("usageText")}</p>
      <${Loading} loaded=${usage} />
      ${usage.value !== null && days.length === 0 && html`<p class="settings-empty">${t("noUsage")}</p>`}
      ${days.length > 0 &&
      html`
        <div class="table-frame" role="region" aria-label=${t("usageTable")} tabindex="0">
          <table class="usage-table">
            <thead>
              <tr>
                <th scope="col">${t("day")}</th>
                <th scope="col">${t("answers")}</th>
                <th scope="col">${t("inputTokens")}</th>
                <th scope="col">${t("cachedTokens")}</th>
                <th scope="col">${t("outputTokens")}</th>
              </tr>
            </thead>
            <tbody>
              ${days.map(
                ({ day, usage: one }) => html`
                  <tr key=${day}>
                    <th scope="row">${new Date(`${day}T00:00:00Z`).toLocaleDateString(language, { dateStyle: "medium", timeZone: "UTC" })}</th>
                    ${[one.answers, one.input_tokens, one.cached_tokens, one.output_tokens].map((count) => html`<td>${count.toLocaleString(language)}</td>`)}
                  </tr>
                `,
              )}
            </tbody>
          </table>
        </div>
      `}
    </section>
  `;

  /** @param {Limit} limit */
  function nameOf({ unit, per }) {
    return t(/** @type {keyof typeof texts.en} */ (per === null ? `limit_${unit}` : `limit_${unit}_${per}`));
  }
}
