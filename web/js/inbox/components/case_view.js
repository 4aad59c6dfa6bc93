/**
 * The conversation that is open: who it is, who answers, what can be done, what was said, and where the agent writes.
 *
 * @import { Desk } from "../desk.js"
 * @import { DeskState } from "../state.js"
 */

import { useEffect } from "../../../vendor/preact/hooks.js";
import { Icon } from "../../components/icon.js";
import { useTexts } from "../../components/language.js";
import { useStickToBottom } from "../../components/stick_to_bottom.js";
import { html } from "../../html.js";
import * as texts from "../../texts/inbox.js";
import { personOf, waitOf } from "../people.js";
import { AnswerForm } from "./answer_form.js";
import { Said } from "./said.js";

/** @param {{state: DeskState, desk: Desk}} props */
export function CaseView({ state, desk }) {
  const { t } = useTexts(texts);
  const { opened, messages } = state;
  const { frame, onScroll } = useStickToBottom(messages, state.openedId);
  useEffect(() => {
    const leave = (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Escape" || event.defaultPrevented || document.querySelector("dialog[open]")) return;
      const row = document.querySelector(`[data-conversation-id="${state.openedId}"]`);
      desk.open(null);
      if (row instanceof HTMLElement) row.focus();
    };
    addEventListener("keydown", leave);
    return () => removeEventListener("keydown", leave);
  }, [state.openedId]);
  if (opened === null) {
    return html`
      <div class="case-nothing">
        <h2>${t("nothingOpen")}</h2>
        <p>${t("nothingOpenText")}</p>
      </div>
    `;
  }
  const { conversation } = opened;
  const person = personOf(opened);
  const name = person.name ?? t("visitor", { short: person.short });
  const details = [person.email, person.widget, conversation.persona].filter((text) => text !== null);
  return html`
    <header class="case-head">
      <button type="button" class="icon-button case-back" aria-label=${t("back")} title=${t("back")} onClick=${() => desk.open(null)}><${Icon} name="left" /></button>
      <div class="case-who">
        <h2 dir="auto">${name}</h2>
        <p dir="auto">${details.join(" · ")}</p>
      </div>
      <a class="icon-button" href="/api/v1/inbox/${conversation.id}/export?format=markdown" download="${name}.md" aria-label=${t("transcript")} title=${t("transcript")}>
        <${Icon} name="download" />
      </a>
      <${Acts} state=${state} desk=${desk} />
    </header>
    <p class="case-state is-${conversation.state}" role="status">
      <${StateWords} state=${state} desk=${desk} />
      ${opened.cause !== null && conversation.state === "queued" && html` <span class="case-cause">${t(/** @type {any} */ (`cause.${opened.cause}`))}</span>`}
      ${opened.reason !== null && conversation.state === "queued" && html` <span class="case-cause" dir="auto">${t("because", { reason: opened.reason })}</span>`}
    </p>
    <div class="case-messages" ref=${frame} onScroll=${onScroll} role="log" aria-label=${t("messages")} aria-live="polite" tabindex="0">
      ${state.earlierCursor !== null && html`<button type="button" class="button case-earlier" onClick=${() => desk.readEarlier()}>${t("earlier")}</button>`}
      ${messages.map((message) => html`<${Said} key=${message.id} message=${message} name=${name} me=${state.user?.id ?? ""} />`)}
      ${state.isTyping && html`<p class="case-typing">${t("typing", { name })}</p>`}
    </div>
    <${AnswerForm} state=${state} desk=${desk} />
  `;
}

/** @param {{state: DeskState, desk: Desk}} props */
function StateWords({ state, desk }) {
  const { t } = useTexts(texts);
  if (state.opened === null) return null;
  const { conversation } = state.opened;
  const wait = waitOf(conversation.state_since, state.nowMs);
  if (conversation.state === "queued") return t("state.queued", { time: t(wait.key, { count: wait.count }) });
  if (desk.isMine(state.opened)) return t("state.mine");
  return t(`state.${conversation.state}`, { name: conversation.agent?.name ?? "" });
}

/** @param {{state: DeskState, desk: Desk}} props */
function Acts({ state, desk }) {
  const { t } = useTexts(texts);
  if (state.opened === null) return null;
  const { conversation } = state.opened;
  const isMine = desk.isMine(state.opened);
  const mayEnd = isMine || state.user?.role === "admin" || conversation.state === "queued";
  // What was pressed goes with what it did, and the focus goes on: to the list, or to where one writes.
  const doAndGoOn = async (/** @type {"take" | "return" | "resolve" | "release"} */ name) => {
    await desk.act(name);
    if (document.activeElement !== document.body) return;
    const next = document.querySelector(desk.state.openedId === null ? ".queue-row" : ".case-messages") ?? document.getElementById("case");
    if (next instanceof HTMLElement) next.focus();
  };
  const act = (/** @type {"take" | "return" | "resolve" | "release"} */ name, isPrimary = false) => html`
    <button type="button" class="button ${isPrimary ? "button-primary" : ""}" aria-disabled=${state.isBusy} onClick=${() => doAndGoOn(name)}>${t(name)}</button>
  `;
  return html`
    <div class="case-acts">
      ${!isMine && conversation.state !== "human" && act("take", true)}
      ${isMine && act("release")}
      ${mayEnd && conversation.state !== "bot" && conversation.state !== "resolved" && act("return")}
      ${mayEnd && conversation.state !== "resolved" && act("resolve", isMine)}
    </div>
  `;
}
