/**
 * What an answer cost, for those who want to know: how soon it began, how quick it was, and how much of what the model had to read
 * was in the cache already, and where.
 *
 * @import { Usage } from "../wire.d.ts"
 */

import { html } from "../html.js";
import * as chat from "../texts/chat.js";
import { useChoices, useTexts } from "./language.js";

const PLACES = /** @type {const} */ (["device", "host", "disk", "prefix"]);

/** @param {{usage: Usage | null}} props */
export function CostLine({ usage }) {
  const { t, language } = useTexts(chat);
  const { costLine } = useChoices();
  if (!usage || costLine === "hidden" || !usage.output_tokens) return null;
  const { input_tokens: input, cached_tokens: cached, output_tokens: output, ttft_ms: ttftMs, decode_ms: decodeMs } = usage;
  const perSecond = output > 1 && decodeMs ? ((output - 1) * 1000) / decodeMs : null;
  const places = PLACES.filter((place) => (usage.cached_from?.[place] ?? 0) > 0);
  const where = places.map((place) => t(`cache_${place}`)).join(", ");
  const parts = [
    ttftMs === null ? null : t("costFirst", { time: duration(ttftMs) }),
    perSecond === null ? null : t("costRate", { count: perSecond < 10 ? perSecond.toFixed(1) : Math.round(perSecond) }),
    cached > 0 ? t("costWarm", { cached, total: input, where }) : t("costCold"),
    usage.dropped_turns ? t("costDropped", { count: usage.dropped_turns }) : null,
  ];
  const details = [
    t("costRead", { count: input }),
    t("costWritten", { count: output }),
    ...places.map((place) => `${t(`cache_${place}`)}: ${(usage.cached_from?.[place] ?? 0).toLocaleString(language)}`),
  ];
  return html`<span class="cost" title=${details.join(", ")}>${parts.filter((part) => part !== null).join(" · ")}</span>`;

  /** @param {number} ms */
  function duration(ms) {
    return ms < 995 ? t("milliseconds", { count: Math.max(1, Math.round(ms)) }) : t("seconds", { count: (ms / 1000).toFixed(1) });
  }
}
