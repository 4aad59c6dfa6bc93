/**
 * Where an agent writes. A stroke as the first character opens the canned answers: arrow keys choose, Enter or Tab inserts, Esc leaves.
 *
 * @import { Desk } from "../desk.js"
 * @import { DeskState } from "../state.js"
 * @import { Canned } from "../wire.d.ts"
 */

import { useEffect, useLayoutEffect, useRef, useState } from "../../../vendor/preact/hooks.js";
import { Icon } from "../../components/icon.js";
import { useChoices, useTexts } from "../../components/language.js";
import { fitHeight, isSendKey } from "../../components/textarea.js";
import { html } from "../../html.js";
import * as texts from "../../texts/inbox.js";
import { matching } from "../people.js";

const SHOWN_MAX = 8;

/** @param {{state: DeskState, desk: Desk}} props */
export function AnswerForm({ state, desk }) {
  const { t } = useTexts(texts);
  const { sendKey } = useChoices();
  const id = state.openedId ?? "";
  const [text, setText] = useState(() => desk.drafts.get(id) ?? "");
  const [chosen, setChosen] = useState(0);
  const [isSending, setSending] = useState(false);
  const area = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  useLayoutEffect(() => fitHeight(area.current), [text]);
  const conversation = state.opened?.conversation;
  const isMine = state.opened !== null && desk.isMine(state.opened);
  useEffect(() => {
    // Whoever has just taken a conversation goes on writing.
    if (isMine && matchMedia("(pointer: fine)").matches) area.current?.focus();
  }, [isMine]);
  if (!conversation) return null;
  if (conversation.state === "human" && !isMine) {
    return html`<p class="answer-closed">${t("closedFor", { name: conversation.agent?.name ?? "" })}</p>`;
  }
  const word = /^\/(\S*)$/.exec(text)?.[1];
  const found = word === undefined ? [] : matching(state.canned, word).slice(0, SHOWN_MAX);
  const at = Math.min(chosen, found.length - 1);

  const change = (/** @type {string} */ next) => {
    setText(next);
    setChosen(0);
    desk.drafts.set(id, next);
    if (next.trim() && !next.startsWith("/")) desk.type();
  };
  const insert = (/** @type {Canned} */ canned) => {
    change(canned.content);
    area.current?.focus();
  };
  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const content = text.trim();
    if (content === "" || isSending) return;
    setSending(true);
    if (await desk.answer(content)) change("");
    setSending(false);
    area.current?.focus();
  };
  const keyDown = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const canned = found[at];
    if (word !== undefined && step !== undefined && found.length) {
      event.preventDefault();
      setChosen((at + step + found.length) % found.length);
    } else if (canned && (isSendKey(event, "enter") || (event.key === "Tab" && !event.shiftKey))) {
      event.preventDefault();
      insert(canned);
    } else if (word !== undefined && event.key === "Escape") {
      event.preventDefault();
      change("");
    } else if (isSendKey(event, sendKey)) void send(event);
  };
  return html`
    <form class="answer" onSubmit=${send}>
      ${word !== undefined &&
      html`
        <div class="canned-picker">
          <ul id="canned-list" role="listbox" aria-label=${t("canned")}>
            ${found.map(
              (canned, index) => html`
                <li key=${canned.id} id="canned-${index}" role="option" aria-selected=${index === at} onMouseDown=${(/** @type {Event} */ event) => event.preventDefault()} onClick=${() => insert(canned)}>
                  <strong dir="auto">${canned.title}</strong> <span dir="auto">${canned.content}</span>
                </li>
              `,
            )}
          </ul>
          ${found.length === 0 && html`<p class="canned-none" role="status">${state.canned.length ? t("cannedNoMatch", { word }) : t("cannedNone")}</p>`}
        </div>
      `}
      <textarea
        ref=${area}
        id="answer"
        dir="auto"
        rows="1"
        aria-label=${t("answer")}
        aria-autocomplete="list"
        aria-haspopup="listbox"
        aria-controls=${word === undefined ? undefined : "canned-list"}
        aria-activedescendant=${found.length ? `canned-${at}` : undefined}
        placeholder=${t(isMine ? "placeholder" : "placeholderTake")}
        title=${sendKey === "enter" ? t("keys") : undefined}
        value=${text}
        onInput=${(/** @type {any} */ event) => change(event.target.value)}
        onKeyDown=${keyDown}
      ></textarea>
      <button type="submit" class="round-button is-primary" aria-label=${t("send")} title=${t("send")} disabled=${text.trim() === "" || word !== undefined || isSending}>
        <${Icon} name="send" />
      </button>
    </form>
  `;
}
