/**
 * The shown conversation: its messages from the oldest that is loaded to the newest, and what waits to be sent.
 *
 * @import { Commands } from "../commands.js"
 * @import { State } from "../state.js"
 * @import { Message, Unsent } from "../wire.d.ts"
 */

import { useEffect, useLayoutEffect, useRef, useState } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import { unsentHere } from "../state.js";
import * as chat from "../texts/chat.js";
import { emptyTranscript } from "../transcript.js";
import { runningAnswer, shownPath, siblingsOf } from "../tree.js";
import { Answer } from "./answer.js";
import { Composer } from "./composer.js";
import { Icon } from "./icon.js";
import { useKeepPlace } from "./keep_place.js";
import { useChoices, useTexts } from "./language.js";
import { useStickToBottom } from "./stick_to_bottom.js";
import { UnsentMessage } from "./unsent_message.js";
import { UserMessage } from "./user_message.js";
import { Welcome } from "./welcome.js";

/** @param {{state: State, commands: Commands, isFinding: boolean, onFound: () => void}} props */
export function Thread({ state, commands }) {
  const { t, say } = useTexts(chat);
  const { sendKey } = useChoices();
  const { currentId, problem } = state;
  const transcript = state.transcripts.get(currentId ?? "") ?? emptyTranscript(currentId ?? "");
  const waiting = unsentHere(state);
  // An edit that waits stands where it will be: after the message it follows, in place of the branch it leaves.
  const branch = waiting.find((unsent) => unsent.parent_id !== undefined);
  const path = shownPath(transcript, branch ? branch.parent_id ?? null : transcript.leafId);
  const running = runningAnswer(path);
  const [takenBack, setTakenBack] = useState(/** @type {{text: string} | null} */ (null));
  const { frame, onScroll, toBottom, isAway } = useStickToBottom(state, currentId);
  useKeepPlace(frame, path[0]?.id ?? null);
  useStopKey(running, commands);

  const takeBack = (/** @type {Unsent} */ unsent) => {
    commands.discard(unsent);
    setTakenBack({ text: unsent.content });
  };
  const isEmpty = path.length === 0 && waiting.length === 0;
  const isLoading = isEmpty && currentId !== null && !transcript.isLoaded && problem === null;
  const isConnected = state.connection === "open";
  return html`
    <div class="thread" ref=${frame} onScroll=${onScroll} tabindex="0" role="region" aria-label=${t("conversation")}>
      ${problem !== null && path.length === 0 && html`<p class="thread-problem">${say(problem)}</p>`}
      ${isLoading && html`<div class="thread-loading" role="status"><span class="visually-hidden">${t("loading")}</span></div>`}
      ${isEmpty && !isLoading && problem === null && html`<${Welcome} personas=${state.personas} beginning=${state.beginning} commands=${commands} />`}
      <div class="messages" role="log" aria-live="off" aria-label=${t("messages")}>
        ${transcript.earlierCursor !== null && path.length > 0 && html`<${Earlier} commands=${commands} />`}
        ${path.map((message) => {
          const siblings = siblingsOf(transcript, message);
          // Versions of one message take each other's place, so that the focus stays on the arrow between them.
          const view = message.role === "user" ? UserMessage : Answer;
          return html`<${view}
            key=${`under ${message.parent_id}`}
            message=${message}
            commands=${commands}
            isConnected=${message.role === "user" || isConnected}
            siblingIndex=${siblings?.index ?? 0}
            siblingCount=${siblings?.count ?? 1}
            previousId=${siblings?.previousId ?? null}
            nextId=${siblings?.nextId ?? null}
          />`;
        })}
        ${waiting.map(
          (unsent) => html`<${UnsentMessage}
            key=${unsent.client_message_id}
            unsent=${unsent}
            isConnected=${isConnected}
            onResend=${() => commands.resend(unsent)}
            onTakeBack=${() => takeBack(unsent)}
          />`,
        )}
      </div>
    </div>
    <div class="foot">
      ${isAway &&
      html`
        <button type="button" class="round-button to-newest" aria-label=${t("jumpToNewest")} title=${t("jumpToNewest")} onClick=${toBottom}>
          <${Icon} name="down" />
        </button>
      `}
      <${Composer}
        conversationId=${currentId}
        commands=${commands}
        running=${running}
        takenBack=${takenBack}
        onSent=${toBottom}
      />
      <p class="hint" id="composer-hint">
        <span class="hint-keys">${t(sendKey === "enter" ? "keysHint" : "keysHintMod")}</span>${t("canBeWrong")}
      </p>
    </div>
  `;
}

/** Loads what came before, when it is scrolled to or pressed. @param {{commands: Commands}} props */
function Earlier({ commands }) {
  const { t } = useTexts(chat);
  const button = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const isBusy = useRef(false);
  const [isLoading, setLoading] = useState(false);
  const load = async () => {
    if (isBusy.current) return;
    isBusy.current = true;
    setLoading(true);
    await commands.loadEarlier();
    isBusy.current = false;
    setLoading(false);
  };
  useEffect(() => {
    const observer = new IntersectionObserver(([entry]) => entry?.isIntersecting && void load());
    if (button.current) observer.observe(button.current);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(
    () => () => {
      // When all is there the button goes; a focus on it stays in the conversation.
      if (document.activeElement !== button.current) return;
      /** @type {HTMLElement | null | undefined} */ (button.current?.closest(".thread"))?.focus();
    },
    [],
  );
  return html`
    <button type="button" class="button earlier" ref=${button} aria-disabled=${isLoading ? "true" : null} onClick=${load}>
      ${t(isLoading ? "loading" : "showEarlier")}
    </button>
  `;
}

/**
 * Esc stops the answer, unless it has something nearer to close: a dialog, an editor, the drawer.
 *
 * @param {Message | null} running
 * @param {Commands} commands
 */
function useStopKey(running, commands) {
  useEffect(() => {
    const keyDown = (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Escape" || event.defaultPrevented || event.isComposing || !running) return;
      if (!document.querySelector("dialog[open], .is-drawer-open")) void commands.stop(running);
    };
    document.addEventListener("keydown", keyDown);
    return () => document.removeEventListener("keydown", keyDown);
  }, [running, commands]);
}
