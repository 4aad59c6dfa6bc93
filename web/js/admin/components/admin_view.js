/**
 * The whole dashboard: sign-in, a friendly no for those who do not administer, or the sections beside the one that is shown.
 *
 * @import { Preferences } from "../../preferences.js"
 * @import { PageSession } from "../../page_session.js"
 * @import { Store } from "../../store.js"
 * @import { AdminApi } from "../api.js"
 * @import { History } from "../history.js"
 * @import { AdminState } from "../state.js"
 */

import { useEffect, useMemo, useState } from "../../../vendor/preact/hooks.js";
import { Icon, Mark } from "../../components/icon.js";
import { useTexts } from "../../components/language.js";
import { SignIn } from "../../components/sign_in.js";
import { Unreachable } from "../../components/unreachable.js";
import { html } from "../../html.js";
import * as texts from "../../texts/admin.js";
import { timeOfDay } from "../format.js";
import { SECTIONS, hashOf } from "../route.js";
import { AuditView } from "./audit_view.js";
import { DeskContext, useDesk } from "./desk.js";
import { FeedbackView } from "./feedback_view.js";
import { KeysView } from "./keys_view.js";
import { MemoryView } from "./memory_view.js";
import { Overview } from "./overview.js";
import { PersonasView } from "./personas_view.js";
import { ServerView } from "./server_view.js";
import { SessionsView } from "./sessions_view.js";
import { UsageView } from "./usage_view.js";
import { UsersView } from "./users_view.js";
import { WebhooksView } from "./webhooks_view.js";
import { WidgetsView } from "./widgets_view.js";

const NOTICE_MS = 8000;

/** @param {{store: Store<AdminState>, session: PageSession<AdminState>, api: AdminApi, history: History, preferences: Preferences}} props */
export function AdminView({ store, session, api, history }) {
  const [, redraw] = useState(0);
  useEffect(() => store.subscribe(() => redraw((count) => count + 1)), [store]);
  const { t } = useTexts(texts);
  const desk = useMemo(() => ({ store, session, api, history }), [store, session, api, history]);
  const state = store.state;
  switch (state.phase) {
    case "starting":
      return html`<main class="blank" aria-busy="true"><span class="visually-hidden">${t("loading")}</span></main>`;
    case "unreachable":
      return html`<${Unreachable} onRetry=${() => session.start()} />`;
    case "signed_out":
      return html`<${SignIn} session=${session} notice=${state.signInNotice} />`;
    case "forbidden":
      return html`<${ForOthers} username=${state.user?.username ?? ""} onSignOut=${() => session.signOut()} />`;
    case "signed_in":
      return html`<${DeskContext.Provider} value=${desk}><${Dashboard} store=${store} session=${session} /><//>`;
  }
}

/** @param {{username: string, onSignOut: () => void}} props */
function ForOthers({ username, onSignOut }) {
  const { t } = useTexts(texts);
  return html`
    <main class="sign-in">
      <div class="sign-in-form">
        <div class="sign-in-head"><${Mark} /><h1>${t("forbiddenTitle")}</h1></div>
        <p>${t("forbiddenText", { username })}</p>
        <p class="sign-in-help">${t("forbiddenHelp")}</p>
        <a class="button button-primary" href="/">${t("openChat")}</a>
        <button type="button" class="button" onClick=${onSignOut}>${t("signInAsOther")}</button>
      </div>
    </main>
  `;
}

/** @param {{store: Store<AdminState>, session: PageSession<AdminState>}} props */
function Dashboard({ store, session }) {
  const { state } = store;
  const { t, say } = useTexts(texts);
  const title = t(`section.${state.section}`);
  useEffect(() => {
    document.title = `${title} · Kvasir`;
    // On a phone the sections are one line that scrolls.
    document.querySelector(".admin-nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [title]);
  const skip = (/** @type {Event} */ event) => {
    event.preventDefault();
    document.getElementById("content")?.focus();
  };
  const signOut = async () => {
    const problem = await session.signOut();
    if (problem !== null) store.set({ notice: problem });
  };
  return html`
    <div class="admin">
      <a class="skip" href="#content" onClick=${skip}>${t("skipToContent")}</a>
      <header class="admin-side">
        <div class="admin-brand"><${Mark} /><b>Kvasir</b> <span>${t("dashboard")}</span></div>
        <nav class="admin-nav" aria-label=${t("sections")}>
          <ul>
            ${SECTIONS.map(
              (section) => html`<li key=${section}><a href=${hashOf(section)} aria-current=${section === state.section ? "page" : undefined}>${t(`section.${section}`)}</a></li>`,
            )}
          </ul>
        </nav>
        <div class="admin-account">
          <a href="/">${t("toChat")}</a>
          <a href="/inbox">${t("toInbox")}</a>
          <span class="account-name" dir="auto">${state.user?.username ?? ""}</span>
          <button type="button" class="icon-button" aria-label=${t("signOut")} title=${t("signOut")} onClick=${signOut}><${Icon} name="leave" /></button>
        </div>
      </header>
      <main class="admin-main" id="content" tabindex="-1">
        <div class="admin-bar"><h1>${title}</h1>${state.stats?.is_drained && html`<a class="drained-mark" href=${hashOf("server")}>${t("drainedBadge")}</a>`}<${LiveMark} state=${state} /></div>
        <${Section} key=${state.section} state=${state} />
      </main>
      <${Notice} text=${state.notice === null ? null : say(state.notice)} />
    </div>
  `;
}

/** @param {{state: AdminState}} props */
function Section({ state }) {
  switch (state.section) {
    case "sessions":
      return html`<${SessionsView} />`;
    case "memory":
      return html`<${MemoryView} stats=${state.stats} />`;
    case "personas":
      return html`<${PersonasView} />`;
    case "widgets":
      return html`<${WidgetsView} />`;
    case "webhooks":
      return html`<${WebhooksView} />`;
    case "feedback":
      return html`<${FeedbackView} />`;
    case "users":
      return html`<${UsersView} />`;
    case "keys":
      return html`<${KeysView} />`;
    case "usage":
      return html`<${UsageView} />`;
    case "audit":
      return html`<${AuditView} />`;
    case "server":
      return html`<${ServerView} uptime_s=${state.stats?.uptime_s ?? null} state=${state.stats?.state ?? null} />`;
    case "overview":
      return html`<${Overview} stats=${state.stats} beats=${state.beats} />`;
  }
}

/** @param {{state: AdminState}} props */
function LiveMark({ state }) {
  const { t, language } = useTexts(texts);
  const time = state.stats === null ? "" : timeOfDay(Date.parse(state.stats.taken_at) / 1000, language);
  const words = state.liveness !== "stale" ? t(`live.${state.liveness}`) : time === "" ? t("live.staleNothing") : t("live.stale", { time });
  return html`<p class="live-mark is-${state.liveness}" role="status"><span class="live-dot" aria-hidden="true"></span>${words}</p>`;
}

/** @param {{text: string | null}} props */
function Notice({ text }) {
  const { t } = useTexts(texts);
  const { store } = useDesk();
  const dismiss = () => store.set({ notice: null });
  useEffect(() => {
    if (text === null) return undefined;
    const timer = setTimeout(dismiss, NOTICE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return html`
    <div class="notice-place" role="alert">
      ${text !== null &&
      html`<div class="notice"><span dir="auto">${text}</span><button type="button" class="icon-button" aria-label=${t("dismiss")} onClick=${dismiss}><${Icon} name="close" /></button></div>`}
    </div>
  `;
}
