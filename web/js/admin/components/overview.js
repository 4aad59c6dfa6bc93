/**
 * The server at a glance: its numbers now, and their last fifteen minutes.
 *
 * @import { Stats } from "../wire.d.ts"
 */

import { useTexts } from "../../components/language.js";
import { html } from "../../html.js";
import * as texts from "../../texts/admin_live.js";
import { milliseconds, number, percent } from "../format.js";
import { CHARTS, ChartCard } from "./chart_card.js";

/** @param {{stats: Stats | null, beats: number}} props */
export function Overview({ stats, beats }) {
  const { t, language } = useTexts(texts);
  const sessions = Object.values(stats?.sessions ?? {}).reduce((sum, count) => sum + count, 0);
  /** @type {[string, string, string][]} */
  const tiles =
    stats === null
      ? []
      : [
          [t("tile.state"), t(`state.${stats.state}`), stats.model ?? ""],
          [t("tile.running"), number(stats.running, language), ""],
          [t("tile.waiting"), number(stats.queue.waiting, language), t("waitingTokens", { tokens: stats.queue.waiting_tokens })],
          [t("tile.tokens"), number(stats.tokens_per_s.decode, language, 1), `${t("line.prefill")} ${number(stats.tokens_per_s.prefill, language, 1)}`],
          [t("tile.hit"), percent(stats.hits.rate, language), t("lastMinute")],
          [t("tile.sessions"), number(sessions, language), ""],
          [t("tile.connections"), number(stats.sockets + stats.event_streams, language), t("streams", { sockets: stats.sockets, count: stats.event_streams })],
          [t("tile.lag"), milliseconds(stats.event_loop_lag_ms.p99, language), t("lastMinute")],
        ];
  return html`
    <dl class="tiles">
      ${tiles.map(([name, value, note]) => html`<div class="tile" key=${name}><dt>${name}</dt><dd>${value}${note !== "" && html`<small>${note}</small>`}</dd></div>`)}
    </dl>
    <p class="section-note">${t("fifteenMinutes")}</p>
    <div class="cards">${CHARTS.map((chart) => html`<${ChartCard} key=${chart.id} chart=${chart} beats=${beats} />`)}</div>
  `;
}
