/**
 * The messages of a conversation. However many there are, only those near the screen are drawn, and those somebody has selected text
 * in or works in; the others are gaps as high as they were. Each message says which of how many it is.
 *
 * @import { Commands } from "../commands.js"
 * @import { Transcript } from "../transcript.js"
 * @import { Message } from "../wire.d.ts"
 * @import { Scroller } from "./scroller.js"
 */

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "../../vendor/preact/hooks.js";
import { Chunking, drawn, guessedPx, stretchOf } from "../chunks.js";
import { html } from "../html.js";
import * as chat from "../texts/chat.js";
import { siblingsOf } from "../tree.js";
import { Answer } from "./answer.js";
import { useTexts } from "./language.js";
import { UserMessage } from "./user_message.js";

/** How much is drawn beyond what is in sight, above and below, in heights of the frame. */
const BEYOND = 1.5;
const FIRST_FRAME_PX = 900;
const SHOWN_MS = 2500;

/**
 * @typedef {object} Props
 * @property {Transcript} transcript
 * @property {readonly Message[]} path
 * @property {Commands} commands
 * @property {Scroller} scroller
 * @property {boolean} isConnected
 * @property {boolean} isModelSilent a person answers, or is waited for
 * @property {import("../state.js").State["wanted"]} wanted the message to be put into sight
 * @property {any} children what follows them
 */

/** @param {Props} props */
export function MessageList({ transcript, path, commands, scroller, isConnected, isModelSilent, wanted, children }) {
  const { t } = useTexts(chat);
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const [, redraw] = useState(0);
  const chunking = useRef(new Chunking());
  const measured = useRef(/** @type {Map<string, number>} */ (new Map()));
  const shown = useRef("");
  const chunks = useMemo(() => chunking.current.of(path), [path]);
  const widthPx = list.current?.clientWidth ?? FIRST_FRAME_PX;
  const heights = chunks.map((chunk) => measured.current.get(chunk.key) ?? guessedPx(path, chunk, widthPx));

  const wantedIndexes = () => {
    const { frame } = scroller;
    const place = list.current;
    const height = frame?.clientHeight || FIRST_FRAME_PX;
    const total = heights.reduce((sum, px) => sum + px, 0);
    const isAway = !scroller.isFollowing && frame && place;
    const top = isAway ? topInSight(scroller, frame, place, chunks, heights) : total - height;
    const { first, last } = stretchOf(heights, top - BEYOND * height, top + height + BEYOND * height);
    const busy = busyChunks(place);
    return { first, last, busy };
  };
  const { first, last, busy } = wantedIndexes();
  const isDrawn = (/** @type {number} */ index) => (index >= first && index <= last) || isBusy(chunks, index, busy);
  const parts = drawn(chunks, heights, isDrawn);
  shown.current = signOf(first, last, busy);

  // Another conversation begins at its end.
  useLayoutEffect(() => scroller.follow(), []);
  useLayoutEffect(() => {
    for (const node of list.current?.querySelectorAll("[data-chunk]") ?? []) {
      const element = /** @type {HTMLElement} */ (node);
      measured.current.set(element.dataset["chunk"] ?? "", element.getBoundingClientRect().height);
    }
    scroller.settle();
  });
  useEffect(() => {
    // Only what another stretch needs is drawn anew, not each step of the wheel.
    const look = () => {
      const next = wantedIndexes();
      if (signOf(next.first, next.last, next.busy) !== shown.current) redraw((count) => count + 1);
    };
    const end = scroller.subscribe(look);
    document.addEventListener("selectionchange", look);
    list.current?.addEventListener("focusin", look);
    const current = list.current;
    return () => {
      end();
      document.removeEventListener("selectionchange", look);
      current?.removeEventListener("focusin", look);
    };
  });
  useLayoutEffect(() => {
    if (wanted) bringIntoSight(wanted);
  }, [wanted]);

  const isWhole = parts.every((part) => "chunk" in part) && transcript.earlierCursor === null;
  return html`
    <div ref=${list} class="messages" role="feed" aria-label=${t("messages")} data-partial=${isWhole ? null : ""}>
      ${parts.map((part) =>
        "px" in part
          ? html`<${Gap} key=${part.key} px=${part.px} />`
          : html`
              <div key=${part.chunk.key} class="chunk" data-chunk=${part.chunk.key}>
                ${path.slice(part.chunk.from, part.chunk.to).map((message, offset) => messageView(message, part.chunk.from + offset))}
              </div>
            `,
      )}
      ${children}
    </div>
  `;

  /**
   * @param {Message} message
   * @param {number} index
   */
  function messageView(message, index) {
    const siblings = siblingsOf(transcript, message);
    // Versions of one message take each other's place, so that the focus stays on the arrow between them.
    const view = message.role === "user" ? UserMessage : Answer;
    return html`<${view}
      key=${`under ${message.parent_id}`}
      message=${message}
      commands=${commands}
      isConnected=${message.role === "user" || isConnected}
      isModelSilent=${isModelSilent}
      place=${index + 1}
      count=${transcript.earlierCursor === null ? path.length : -1}
      siblingIndex=${siblings?.index ?? 0}
      siblingCount=${siblings?.count ?? 1}
      previousId=${siblings?.previousId ?? null}
      nextId=${siblings?.nextId ?? null}
    />`;
  }

  /**
   * In two steps where it is far away: first to where it should be, so that it is drawn, then to where it is.
   *
   * @param {NonNullable<Props["wanted"]>} wanted
   */
  function bringIntoSight({ messageId, isFocusWanted }) {
    const index = path.findIndex((message) => message.id === messageId);
    const chunk = chunks.findIndex(({ from, to }) => index >= from && index < to);
    if (chunk < 0) return;
    const node = () => /** @type {HTMLElement | null} */ (list.current?.querySelector(`[data-message-id="${CSS.escape(messageId)}"]`) ?? null);
    if (!node()) scroller.jump((list.current?.offsetTop ?? 0) + heights.slice(0, chunk).reduce((sum, px) => sum + px, 0));
    requestAnimationFrame(() => {
      const found = node();
      if (!found) return;
      scroller.show(found);
      if (isFocusWanted) found.focus({ preventScroll: true });
      found.dataset["shown"] = "";
      setTimeout(() => delete found.dataset["shown"], SHOWN_MS);
    });
  }
}

/**
 * Where the upper edge of the frame is in the list. Told from the message that stays where it is, because the list may have grown
 * above it since the page was last drawn.
 *
 * @param {Scroller} scroller
 * @param {HTMLElement} frame
 * @param {HTMLElement} list
 * @param {readonly import("../chunks.js").Chunk[]} chunks
 * @param {readonly number[]} heights
 */
function topInSight({ anchor }, frame, list, chunks, heights) {
  const element = /** @type {HTMLElement | null | undefined} */ (anchor?.node.closest("[data-chunk]"));
  const index = chunks.findIndex(({ key }) => key === element?.dataset["chunk"]);
  if (!anchor || !element || index < 0) return frame.getBoundingClientRect().top - list.getBoundingClientRect().top;
  const above = heights.slice(0, index).reduce((sum, px) => sum + px, 0);
  return above + anchor.node.getBoundingClientRect().top - element.getBoundingClientRect().top - anchor.top;
}

/** A gap as high as what would be there. @param {{px: number}} props */
function Gap({ px }) {
  const gap = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => {
    if (gap.current) gap.current.style.height = `${Math.round(px)}px`;
  }, [px]);
  return html`<div ref=${gap} class="gap" aria-hidden="true"></div>`;
}

/**
 * The chunks somebody works in: where the focus is, and from one end of the selection to the other.
 *
 * @param {HTMLElement | null} list
 * @returns {string[]} keys; the first two are the ends of the selection
 */
function busyChunks(list) {
  const selection = getSelection();
  const keyOf = (/** @type {Node | null} */ node) => {
    const element = node instanceof Element ? node : node?.parentElement;
    const chunk = /** @type {HTMLElement | null | undefined} */ (list?.contains(node) ? element?.closest("[data-chunk]") : null);
    return chunk?.dataset["chunk"] ?? "";
  };
  const isSelecting = selection !== null && !selection.isCollapsed;
  return [isSelecting ? keyOf(selection.anchorNode) : "", isSelecting ? keyOf(selection.focusNode) : "", keyOf(document.activeElement)];
}

/**
 * @param {readonly import("../chunks.js").Chunk[]} chunks
 * @param {number} index
 * @param {readonly string[]} busy
 */
function isBusy(chunks, index, busy) {
  const [anchor, focus, active] = busy;
  const key = chunks[index]?.key;
  if (key === anchor || key === focus || key === active) return true;
  if (!anchor || !focus) return false;
  const [from, to] = [chunks.findIndex((chunk) => chunk.key === anchor), chunks.findIndex((chunk) => chunk.key === focus)];
  return index > Math.min(from, to) && index < Math.max(from, to);
}

/**
 * @param {number} first
 * @param {number} last
 * @param {readonly string[]} busy
 */
function signOf(first, last, busy) {
  return [first, last, ...busy].join("|");
}
