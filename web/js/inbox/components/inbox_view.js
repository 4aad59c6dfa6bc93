/**
 * The whole inbox: sign-in, a friendly no for those who do not answer people, or the lists beside the conversation that is open.
 *
 * @import { PageSession } from "../../page_session.js"
 * @import { Store } from "../../store.js"
 * @import { Desk } from "../desk.js"
 * @import { DeskState } from "../state.js"
 */

import { useEffect, useState } from "../../../vendor/preact/hooks.js";
import { Icon, Mark } from "../../components/icon.js";
import { useTexts } from "../../components/language.js";
import { SignIn } from "../../components/sign_in.js";
import { Unreachable } from "../../components/unreachable.js";
import { html } from "../../html.js";
import * as texts from "../../texts/inbox.js";
import { CannedDialog } from "./canned_dialog.js";
import { CaseView } from "./case_view.js";
import { Queue } from "./queue.js";
import { Toasts } from "./toasts.js";

/** @param {{store: Store<DeskState>, session: PageSession<DeskState>, desk: Desk}} props */
export function InboxView({ store, session, desk }) {
  const [, redraw] = useState(0);
  useEffect(() => store.subscribe(() => redraw((count) => count + 1)), [store]);
  const { t } = useTexts(texts);
  const { state } = store;
  useEffect(() => {
    document.title = state.queued.length ? `(${state.queued.length}) ${t("title")} · Kvasir` : `${t("title")} · Kvasir`;
  }, [state.queued.length, t]);
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
      return html`<${Rooms} state=${state} session=${session} desk=${desk} />`;
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
        <a class="button button-primary" href="/">${t("openChat")}</a>
        <button type="button" class="button" onClick=${onSignOut}>${t("signOut")}</button>
      </div>
    </main>
  `;
}

/** @param {{state: DeskState, session: PageSession<DeskState>, desk: Desk}} props */
function Rooms({ state, session, desk }) {
  const { t } = useTexts(texts);
  const skip = (/** @type {Event} */ event) => {
    event.preventDefault();
    document.getElementById("case")?.focus();
  };
  const signOut = async () => {
    const problem = await session.signOut();
    if (problem !== null) desk.toast(problem, true);
  };
  return html`
    <main class="inbox ${state.openedId === null ? "" : "has-case"}">
      <h1 class="visually-hidden">${t("title")}</h1>
      <a class="skip" href="#case" onClick=${skip}>${t("skip")}</a>
      <div class="inbox-side">
        <header class="inbox-head">
          <p class="inbox-title"><${Mark} /><span>Kvasir <span class="inbox-title-soft">${t("title")}</span></span></p>
          <button type="button" class="icon-button" aria-label=${t("cannedManage")} title=${t("cannedManage")} onClick=${() => desk.store.set({ isCannedOpen: true })}>
            <${Icon} name="pencil" />
          </button>
        </header>
        <${Queue} state=${state} desk=${desk} />
        <footer class="inbox-foot">
          <a href="/">${t("toChat")}</a>
          ${state.user?.role === "admin" && html`<a href="/admin">${t("toAdmin")}</a>`}
          <span class="account-name" dir="auto">${state.user?.username ?? ""}</span>
          <button type="button" class="icon-button" aria-label=${t("signOut")} title=${t("signOut")} onClick=${signOut}><${Icon} name="leave" /></button>
        </footer>
      </div>
      <section class="inbox-main" id="case" tabindex="-1">
        ${!state.isLive && state.isRead && html`<div class="banner" role="status"><span>${t("offline")}</span></div>`}
        <${CaseView} key=${state.openedId ?? ""} state=${state} desk=${desk} />
      </section>
      <${Toasts} toasts=${state.toasts} onDismiss=${(/** @type {string} */ id) => desk.dismiss(id)} />
      ${state.isCannedOpen && html`<${CannedDialog} canned=${state.canned} desk=${desk} onClose=${() => desk.store.set({ isCannedOpen: false })} />`}
    </main>
  `;
}
