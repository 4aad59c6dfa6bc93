/**
 * The shown conversation: its messages from the oldest that is loaded to the newest, and what waits to be sent.
 *
 * @import { Commands } from "../commands.js"
 * @import { State } from "../state.js"
 * @import { Message, Unsent } from "../wire.d.ts"
 */

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import { unsentHere } from "../state.js";
import * as chat from "../texts/chat.js";
import { emptyTranscript } from "../transcript.js";
import { runningAnswer, shownPath } from "../tree.js";
import { Composer } from "./composer.js";
import { Earlier } from "./earlier.js";
import { FindBar } from "./find_bar.js";
import { Icon } from "./icon.js";
import { useChoices, useTexts } from "./language.js";
import { MessageList } from "./message_list.js";
import { Scroller } from "./scroller.js";
import { focusComposer } from "./textarea.js";
import { TypingLine } from "./typing_line.js";
import { UnsentMessage } from "./unsent_message.js";
import { Welcome } from "./welcome.js";

/** @param {{state: State, commands: Commands, isFinding: boolean, onFound: () => void}} props */
export function Thread({ state, commands, isFinding, onFound }) {
  const { t, say } = useTexts(chat);
  const { sendKey } = useChoices();
  const { currentId, problem } = state;
  const transcript = state.transcripts.get(currentId ?? "") ?? emptyTranscript(currentId ?? "");
  const waiting = unsentHere(state);
  // An edit that waits stands where it will be: after the message it follows, in place of the branch it leaves.
  const branch = waiting.find((unsent) => unsent.parent_id !== undefined);
  const leafId = branch ? branch.parent_id ?? null : transcript.leafId;
  const path = useMemo(() => shownPath(transcript, leafId), [transcript, leafId]);
  const running = runningAnswer(path);
  const [takenBack, setTakenBack] = useState(/** @type {{text: string} | null} */ (null));
  const [isAway, setAway] = useState(false);
  const scroller = useMemo(() => new Scroller(setAway), []);
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  const inside = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => (frame.current && inside.current ? scroller.attach(frame.current, inside.current) : undefined), []);
  useStopKey(running, commands);

  const takeBack = (/** @type {Unsent} */ unsent) => {
    commands.discard(unsent);
    setTakenBack({ text: unsent.content });
  };
  const isEmpty = path.length === 0 && waiting.length === 0;
  const isLoading = isEmpty && currentId !== null && !transcript.isLoaded && problem === null;
  const isConnected = state.connection === "open";
  const answerer = state.known.get(currentId ?? "")?.state;
  const isModelSilent = answerer === "queued" || answerer === "human";
  return html`
    ${isFinding && html`<${FindBar} path=${path} isAllLoaded=${transcript.earlierCursor === null} commands=${commands} onClose=${closeFind} />`}
    <div class="thread ${isAway ? "" : "is-following"}" ref=${frame} tabindex="0" role="region" aria-label=${t("conversation")}>
      <div ref=${inside} class="thread-inside">
        ${problem !== null && path.length === 0 && html`<p class="thread-problem">${say(problem)}</p>`}
        ${isLoading && html`<div class="thread-loading" role="status"><span class="visually-hidden">${t("loading")}</span></div>`}
        ${isEmpty &&
        !isLoading &&
        problem === null &&
        html`<${Welcome} personas=${state.personas} beginning=${state.beginning} commands=${commands} />`}
        ${transcript.earlierCursor !== null && path.length > 0 && html`<${Earlier} commands=${commands} />`}
        ${!isEmpty &&
        html`
          <${MessageList}
            key=${state.threadId}
            transcript=${transcript}
            path=${path}
            commands=${commands}
            scroller=${scroller}
            isConnected=${isConnected}
            isModelSilent=${isModelSilent}
            wanted=${state.wanted}
          >
            ${waiting.length > 0 &&
            html`
              <div class="chunk">
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
            `}
          <//>
          ${state.typing?.conversationId === currentId && html`<${TypingLine} key=${state.typing?.at} name=${state.typing?.name} />`}
        `}
      </div>
    </div>
    <div class="foot">
      ${isAway &&
      html`
        <button type="button" class="round-button to-newest" aria-label=${t("jumpToNewest")} title=${t("jumpToNewest")} onClick=${() => scroller.follow()}>
          <${Icon} name="down" />
        </button>
      `}
      <${Composer}
        conversationId=${currentId}
        commands=${commands}
        running=${running}
        takenBack=${takenBack}
        onSent=${() => scroller.follow()}
      />
      <p class="hint" id="composer-hint">
        <span class="hint-keys">${t(sendKey === "enter" ? "keysHint" : "keysHintMod")}</span>${t("canBeWrong")}
      </p>
    </div>
  `;

  function closeFind() {
    onFound();
    focusComposer();
  }
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
