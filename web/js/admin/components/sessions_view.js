/**
 * Everybody's live sessions: sorted, filtered, counting down; evict one, or end it.
 *
 * @import { LiveSession } from "../wire.d.ts"
 * @import { SessionList } from "../sessions_feed.js"
 * @import { Saying } from "../../texts.js"
 */

import { useEffect, useMemo, useState } from "../../../vendor/preact/hooks.js";
import { messageOf } from "../../api.js";
import { useTexts } from "../../components/language.js";
import { html } from "../../html.js";
import * as texts from "../../texts/admin_live.js";
import { NOTHING, duration, milliseconds, number } from "../format.js";
import { matching, pressed, sorted } from "../rows.js";
import { SessionsFeed } from "../sessions_feed.js";
import { useDesk, useNotice } from "./desk.js";
import { Dialog } from "./dialog.js";
import { VirtualTable } from "./virtual_table.js";

const STATES = /** @type {const} */ (["active", "device", "host", "disk"]);
const TICK_MS = 1000;

/** @param {LiveSession} session @param {string} key */
function valueOf(session, key) {
  switch (key) {
    case "user":
      return session.user.username;
    case "pages":
      return session.pages.device + session.pages.host + session.pages.disk;
    case "cached":
      return session.cached_tokens;
    case "ttft":
      return session.ttft_ms;
    case "timeout":
      return session.seconds_to_timeout;
    case "state":
      return STATES.length - STATES.indexOf(session.state);
    case "used":
      return -session.idle_s;
    default:
      return /** @type {Record<string, any>} */ (session)[key] ?? null;
  }
}

export function SessionsView() {
  const { t, say, language } = useTexts(texts);
  const { api } = useDesk();
  const notice = useNotice();
  const [list, setList] = useState(/** @type {SessionList} */ ({ items: [], read_at_ms: 0 }));
  const [problem, setProblem] = useState(/** @type {Saying | null} */ (null));
  const [query, setQuery] = useState("");
  const [state, setState] = useState("");
  const [order, setOrder] = useState({ key: "used", isDescending: true });
  const [asked, setAsked] = useState(/** @type {{act: "evict" | "kick", session: LiveSession} | null} */ (null));
  const now_ms = useClock();
  const feed = useFeed(setList, setProblem);
  const nameOf = (/** @type {LiveSession} */ { user }) => {
    const username = user.username ?? t("deletedUser");
    return user.part === null ? username : t("endCustomer", { user: username, part: user.part });
  };
  const items = useMemo(() => {
    const wanted = state === "" ? list.items : list.items.filter((session) => session.state === state);
    return sorted(matching(wanted, query, (session) => `${nameOf(session)} ${session.name} ${session.priority}`), order, valueOf);
  }, [list, query, state, order, language]);
  const isShared = useMemo(() => new Set(list.items.map((session) => session.server)).size > 1, [list]);
  const elapsed_s = (now_ms - list.read_at_ms) / 1000;
  const act = async () => {
    if (asked === null) return;
    await (asked.act === "evict" ? api.evict(asked.session.id) : api.kick(asked.session.id));
    notice(t(asked.act === "evict" ? "evicted" : "kicked"));
    feed.start();
  };
  return html`
    <div class="toolbar">
      <div class="filter">
        <input aria-label=${t("filterSessions")} type="search" placeholder=${t("filterSessions")} value=${query} onInput=${(/** @type {any} */ event) => setQuery(event.target.value)} />
      </div>
      <div class="filter">
        <select aria-label=${t("stateFilter")} value=${state} onChange=${(/** @type {any} */ event) => setState(event.target.value)}>
          <option value="">${t("state.all")}</option>
          ${STATES.map((name) => html`<option value=${name}>${t(`session.${name}`)}</option>`)}
        </select>
      </div>
      <span class="toolbar-note">${items.length === list.items.length ? t("sessionCount", { count: items.length }) : t("sessionShown", { shown: items.length, total: list.items.length })}</span>
    </div>
    ${problem !== null && html`<p class="fault-line" role="alert">${say(problem)}</p>`}
    ${list.read_at_ms > 0 && list.items.length === 0 && html`<p class="empty">${t("noSessions")}</p>`}
    ${list.items.length > 0 &&
    html`
      <${VirtualTable}
        label=${t("tableOf", { title: t("sessionCount", { count: items.length }) })}
        items=${items}
        keyOf=${(/** @type {LiveSession} */ session) => `${session.id} ${session.server}`}
        order=${order}
        onOrder=${(/** @type {string} */ key) => setOrder(pressed(order, key))}
        columns=${columnsOf(t, language, nameOf, elapsed_s, setAsked).filter((column) => column.key !== "server" || isShared)}
      />
    `}
    ${asked !== null &&
    html`
      <${Dialog} title=${t(asked.act === "evict" ? "evictTitle" : "kickTitle")} action=${t(asked.act)} isDanger onSubmit=${act} onClose=${() => setAsked(null)}>
        <p>${t(asked.act === "evict" ? "evictText" : "kickText", { user: nameOf(asked.session), tokens: asked.session.tokens })}</p>
      <//>
    `}
  `;
}

/**
 * @param {(key: any, values?: any) => string} t
 * @param {string} language
 * @param {(session: LiveSession) => string} nameOf
 * @param {number} elapsed_s
 * @param {(asked: {act: "evict" | "kick", session: LiveSession}) => void} ask
 */
function columnsOf(t, language, nameOf, elapsed_s, ask) {
  const count = (/** @type {number} */ value) => number(value, language);
  return [
    { key: "user", head: t("column.user"), cell: (/** @type {LiveSession} */ session) => html`<span class="cell-name" title=${session.name}>${nameOf(session)}</span>` },
    { key: "state", head: t("column.state"), cell: (/** @type {LiveSession} */ session) => html`<span class="state-mark state-${session.state}">${t(`session.${session.state}`)}</span>` },
    { key: "tokens", head: t("column.tokens"), isNumber: true, cell: (/** @type {LiveSession} */ session) => count(session.tokens) },
    { key: "pages", head: t("column.pages"), isNumber: true, cell: (/** @type {LiveSession} */ { pages }) => `${count(pages.device)} / ${count(pages.host)} / ${count(pages.disk)}` },
    { key: "cached", head: t("column.cached"), isNumber: true, cell: (/** @type {LiveSession} */ session) => count(session.cached_tokens) },
    { key: "ttft", head: t("column.ttft"), isNumber: true, cell: (/** @type {LiveSession} */ session) => milliseconds(session.ttft_ms, language) },
    {
      key: "timeout",
      head: t("column.timeout"),
      isNumber: true,
      cell: (/** @type {LiveSession} */ session) => (session.seconds_to_timeout === null ? (session.state === "active" ? NOTHING : t("held")) : duration(session.seconds_to_timeout - elapsed_s)),
    },
    { key: "server", head: t("column.server"), cell: (/** @type {LiveSession} */ session) => html`<span class="cell-code">${session.server.slice(0, 8)}</span>` },
    {
      key: "actions",
      head: t("column.actions"),
      isFixed: true,
      cell: (/** @type {LiveSession} */ session) => html`
        <span class="cell-buttons">
          <button type="button" class="button button-small" aria-label=${t("evictOf", { user: nameOf(session) })} disabled=${session.state === "active"} onClick=${() => ask({ act: "evict", session })}>${t("evict")}</button>
          <button type="button" class="button button-small button-danger" aria-label=${t("kickOf", { user: nameOf(session) })} onClick=${() => ask({ act: "kick", session })}>${t("kick")}</button>
        </span>
      `,
    },
  ];
}

/** @param {(list: SessionList) => void} onList @param {(problem: Saying | null) => void} setProblem */
function useFeed(onList, setProblem) {
  const { api, session } = useDesk();
  const feed = useMemo(
    () =>
      new SessionsFeed(api, {
        onList: (list) => {
          setProblem(null);
          onList(list);
        },
        onProblem: (problem) => {
          setProblem(messageOf(problem));
          void session.check();
        },
        setTimer: (callback, ms) => window.setTimeout(callback, ms),
        clearTimer: (timer) => window.clearTimeout(timer),
        nowMs: () => performance.now(),
      }),
    [api],
  );
  useEffect(() => {
    const look = () => (document.hidden ? feed.stop() : feed.start());
    look();
    document.addEventListener("visibilitychange", look);
    return () => {
      document.removeEventListener("visibilitychange", look);
      feed.stop();
    };
  }, [feed]);
  return feed;
}

/** Ticks once a second, for what counts down. */
function useClock() {
  const [now_ms, setNow] = useState(() => performance.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(performance.now()), TICK_MS);
    return () => clearInterval(timer);
  }, []);
  return now_ms;
}
