/**
 * What this process is, and the switch that takes it out of service.
 *
 * @import { Drain, Server } from "../wire.d.ts"
 */

import { useState } from "../../../vendor/preact/hooks.js";
import { useTexts } from "../../components/language.js";
import { html } from "../../html.js";
import * as texts from "../../texts/admin_server.js";
import { dateTime, duration, number } from "../format.js";
import { matching } from "../rows.js";
import { DataTable } from "./data_table.js";
import { useDesk, useLoaded, useNotice, useRepeated } from "./desk.js";
import { Dialog } from "./dialog.js";

const DRAIN_EVERY_MS = 2000;

/** @param {{uptime_s: number | null, state: string | null}} props */
export function ServerView({ uptime_s, state }) {
  const { t, say, language } = useTexts(texts);
  const { api } = useDesk();
  const { value: server, problem } = useLoaded(() => api.server(), [state]);
  const yesNo = (/** @type {boolean} */ is) => t(is ? "yes" : "no");
  return html`
    <${DrainCard} />
    ${problem !== null && html`<p class="fault-line" role="alert">${say(problem)}</p>`}
    ${server !== null &&
    html`
      <div class="cards">
        <section class="card" aria-labelledby="process-title">
          <h2 id="process-title">${t("process")}</h2>
          <${Facts}
            facts=${[
              [t("fact.version"), server.version],
              [t("fact.state"), server.failure ?? server.state],
              [t("fact.started"), dateTime(server.started_at, language)],
              [t("fact.uptime"), duration(uptime_s)],
              [t("fact.threads"), number(server.threads, language)],
              [t("fact.reuse"), yesNo(server.reuse)],
              [t("fact.database"), server.database],
              [t("fact.redis"), yesNo(server.redis)],
              [t("fact.replica"), server.replica_id],
              [t("fact.platform"), `${server.platform}, Python ${server.python}`],
            ]}
          />
        </section>
        <section class="card" aria-labelledby="model-title">
          <h2 id="model-title">${t("model")}</h2>
          ${server.model === null
            ? html`<p class="empty">${t("noModel")}</p>`
            : html`
                <${Facts}
                  facts=${[
                    [t("fact.name"), server.model.name],
                    [t("fact.architecture"), server.model.architecture],
                    [t("fact.parameters"), number(server.model.parameters, language)],
                    [t("fact.context"), t("tokens", { count: server.model.context_tokens })],
                    [t("fact.vocabulary"), t("tokens", { count: server.model.vocabulary_size })],
                    [t("fact.weights"), server.model.weights],
                    [t("fact.kernels"), server.model.kernels],
                    [t("fact.fingerprint"), html`<span class="cell-code">${server.model.fingerprint}</span>`],
                  ]}
                />
              `}
        </section>
      </div>
      <${Settings} settings=${server.settings} />
    `}
  `;
}

/** @param {{facts: [string, any][]}} props */
function Facts({ facts }) {
  return html`<dl class="facts">${facts.map(([name, value]) => html`<dt key=${name}>${name}</dt><dd>${value}</dd>`)}</dl>`;
}

function DrainCard() {
  const { t, say, language } = useTexts(texts);
  const { api } = useDesk();
  const notice = useNotice();
  const { value: drain, problem, reload, replace } = useLoaded(() => api.drain(), []);
  const [isAsking, setAsking] = useState(false);
  useRepeated(reload, DRAIN_EVERY_MS);
  const begin = async () => {
    replace(await api.setDrain(true));
    notice(t("nowDrained"));
  };
  const end = async () => {
    try {
      replace(await api.setDrain(false));
      notice(t("nowBack"));
    } finally {
      void reload();
    }
  };
  if (drain === null) return problem === null ? null : html`<p class="fault-line" role="alert">${say(problem)}</p>`;
  const title = t(drain.is_ending ? "ending" : drain.is_drained ? "drained" : "drain");
  return html`
    <section class="card ${drain.is_drained || drain.is_ending ? "card-warned" : ""}" aria-labelledby="drain-title">
      <header class="card-head">
        <div class="card-words">
          <h2 id="drain-title">${title}</h2>
          <p class="section-note">${textOf(drain, t, dateTime(drain.since, language))} ${(drain.is_drained || drain.is_ending) && t("drainAnswers", { count: drain.answers })}</p>
        </div>
        ${!drain.is_ending &&
        (drain.is_drained
          ? html`<button type="button" class="button button-primary" onClick=${end}>${t("drainEnd")}</button>`
          : html`<button type="button" class="button button-danger" onClick=${() => setAsking(true)}>${t("drainStart")}</button>`)}
      </header>
    </section>
    ${isAsking &&
    html`<${Dialog} title=${t("drainTitle")} action=${t("drainStart")} isDanger onSubmit=${begin} onClose=${() => setAsking(false)}><p>${t("drainQuestion")}</p><//>`}
  `;
}

/** @param {Drain} drain @param {(key: any, values?: any) => string} t @param {string} time */
function textOf(drain, t, time) {
  if (drain.is_ending) return t("endingText");
  return drain.is_drained ? t("drainedText", { time, by: drain.by ?? "" }) : t("drainText");
}

/** @param {{settings: Server["settings"]}} props */
function Settings({ settings }) {
  const { t } = useTexts(texts);
  const [query, setQuery] = useState("");
  const [isChangedOnly, setChangedOnly] = useState(false);
  const wanted = isChangedOnly ? settings.filter((setting) => setting.origin !== "default") : settings;
  const shown = matching(wanted, query, (setting) => `${setting.name} ${setting.description} ${setting.value}`);
  // A closed set of the server's.
  const originOf = (/** @type {string} */ origin) => t(/** @type {any} */ (`origin.${origin}`));
  return html`
    <div class="card-words"><h2 class="section-title">${t("settings")}</h2><p class="section-note">${t("settingsText")}</p></div>
    <div class="toolbar">
      <div class="filter">
        <input aria-label=${t("filterSettings")} type="search" placeholder=${t("filterSettings")} value=${query} onInput=${(/** @type {any} */ event) => setQuery(event.target.value)} />
      </div>
      <label class="check"><input type="checkbox" checked=${isChangedOnly} onChange=${(/** @type {any} */ event) => setChangedOnly(event.target.checked)} />${t("onlyChanged")}</label>
    </div>
    <${DataTable}
      label=${t("settings")}
      items=${shown}
      whenEmpty=${t("noSetting")}
      keyOf=${(/** @type {Server["settings"][number]} */ setting) => setting.name}
      columns=${[
        { head: t("column.setting"), cell: (/** @type {Server["settings"][number]} */ setting) => html`<span class="cell-code">${setting.name}</span>` },
        { head: t("column.value"), cell: (/** @type {Server["settings"][number]} */ setting) => (setting.value === "" ? html`<span class="cell-soft">${t("emptyValue")}</span>` : html`<span class="cell-code cell-value">${setting.value}</span>`) },
        { head: t("column.origin"), cell: (/** @type {Server["settings"][number]} */ setting) => originOf(setting.origin) },
        { head: t("column.what"), cell: (/** @type {Server["settings"][number]} */ setting) => html`<div class="wrap cell-soft" lang="en">${setting.description}</div>` },
      ]}
    />
  `;
}
