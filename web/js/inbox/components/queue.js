/**
 * Who waits, whom the agent answers, whom others do: one list of buttons in which arrow keys move.
 *
 * @import { Desk } from "../desk.js"
 * @import { DeskState } from "../state.js"
 * @import { InboxItem } from "../wire.d.ts"
 */

import { useTexts } from "../../components/language.js";
import { html } from "../../html.js";
import * as texts from "../../texts/inbox.js";
import { personOf, waitOf } from "../people.js";

const SHOWN_MAX = 100;

/** @param {{state: DeskState, desk: Desk}} props */
export function Queue({ state, desk }) {
  const { t } = useTexts(texts);
  const mine = state.human.filter((item) => desk.isMine(item));
  const others = state.human.filter((item) => !desk.isMine(item));
  return html`
    <nav class="queue" aria-label=${t("lists")} aria-busy=${!state.isRead} onKeyDown=${moveFocus}>
      <${Group} title=${t("waiting")} items=${state.queued} empty=${t("nobodyWaits")} state=${state} desk=${desk} />
      <${Group} title=${t("mine")} items=${mine} empty=${t("noneMine")} state=${state} desk=${desk} />
      ${others.length > 0 && html`<${Group} title=${t("others")} items=${others} empty="" state=${state} desk=${desk} />`}
      ${state.hasMore && html`<p class="queue-empty">${t("more", { count: SHOWN_MAX })}</p>`}
    </nav>
  `;
}

/** @param {{title: string, items: readonly InboxItem[], empty: string, state: DeskState, desk: Desk}} props */
function Group({ title, items, empty, state, desk }) {
  return html`
    <section>
      <h2 class="queue-title">${title} <span class="queue-count">${items.length}</span></h2>
      ${state.isRead && items.length === 0 && html`<p class="queue-empty">${empty}</p>`}
      <ul class="queue-list">
        ${items.map((item) => html`<li key=${item.conversation.id}><${Row} item=${item} state=${state} desk=${desk} /></li>`)}
      </ul>
    </section>
  `;
}

/** @param {{item: InboxItem, state: DeskState, desk: Desk}} props */
function Row({ item, state, desk }) {
  const { t } = useTexts(texts);
  const { conversation } = item;
  const person = personOf(item);
  const wait = waitOf(conversation.state_since, state.nowMs);
  const time = t(wait.key, { count: wait.count });
  const isWaiting = conversation.state === "queued";
  const side = isWaiting ? t("waits", { time }) : desk.isMine(item) ? "" : t("with", { name: conversation.agent?.name ?? "" });
  const isUnseen = state.unseen.has(conversation.id);
  return html`
    <button
      type="button"
      class="queue-row ${isWaiting ? "is-waiting" : ""}"
      data-conversation-id=${conversation.id}
      aria-current=${state.openedId === conversation.id ? "true" : undefined}
      onClick=${() => desk.open(conversation.id)}
    >
      <span class="queue-who" dir="auto">
        ${person.name ?? t("visitor", { short: person.short })}
        ${isUnseen && html` <span class="queue-new">${t("unseen")}</span>`}
      </span>
      <span class="queue-what" dir="auto">${conversation.title || t("untitled")}</span>
      <span class="queue-time">${side}</span>
    </button>
  `;
}

/** Arrow keys go from row to row, over the titles between them. @param {KeyboardEvent} event */
function moveFocus(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step === undefined || !(event.currentTarget instanceof HTMLElement)) return;
  const rows = [...event.currentTarget.querySelectorAll(".queue-row")];
  const at = rows.findIndex((row) => row === document.activeElement);
  const next = rows[at + step];
  if (at < 0 || !(next instanceof HTMLElement)) return;
  event.preventDefault();
  next.focus();
}
