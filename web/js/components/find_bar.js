/**
 * Finds words in the conversation that is shown, also in what is not loaded or not drawn: it reads what lies further up, goes from one
 * message that has them to the next, the newest first, and marks them where they are drawn.
 *
 * @import { Commands } from "../commands.js"
 * @import { Message } from "../wire.d.ts"
 */

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import * as chat from "../texts/chat.js";
import { Icon } from "./icon.js";
import { useTexts } from "./language.js";

const MARK = "found";

/** @param {{path: readonly Message[], isAllLoaded: boolean, commands: Commands, onClose: () => void}} props */
export function FindBar({ path, isAllLoaded, commands, onClose }) {
  const { t } = useTexts(chat);
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [query, setQuery] = useState("");
  const [place, setPlace] = useState(0);
  const wanted = query.trim().toLocaleLowerCase();
  // The newest first, so that a place stays what it is while more comes in above.
  const found = useMemo(
    () => (wanted === "" ? [] : path.filter(({ content }) => content.toLocaleLowerCase().includes(wanted)).map(({ id }) => id).reverse()),
    [wanted, path],
  );
  useLayoutEffect(() => field.current?.focus(), []);
  useEffect(() => {
    if (wanted === "" || isAllLoaded) return undefined;
    let isOpen = true;
    void commands.loadAll(() => isOpen);
    return () => void (isOpen = false);
  }, [wanted === "", isAllLoaded]);
  useEffect(() => {
    const [first] = found;
    if (place === 0 && first !== undefined) go(1);
  }, [found.length > 0, wanted]);
  useMarks(wanted);
  const go = (/** @type {number} */ to) => {
    if (found.length === 0) return;
    const next = ((to - 1 + found.length) % found.length) + 1;
    setPlace(next);
    commands.want(String(found[next - 1]), { isFocusWanted: false });
  };
  const change = (/** @type {string} */ next) => {
    setQuery(next);
    setPlace(0);
  };
  const keyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.isComposing) return;
    if (event.key === "Enter") go(place + (event.shiftKey ? -1 : 1));
    else if (event.key === "Escape") onClose();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const words =
    wanted === ""
      ? ""
      : found.length > 0
        ? t("findPlace", { place, count: found.length })
        : isAllLoaded
          ? t("findNone")
          : t("findReading", { count: path.length });
  return html`
    <div class="find" role="search" aria-label=${t("find")}>
      <${Icon} name="search" />
      <input
        ref=${field}
        id="find"
        type="search"
        dir="auto"
        autocomplete="off"
        aria-label=${t("find")}
        placeholder=${t("find")}
        value=${query}
        onInput=${(/** @type {any} */ event) => change(event.target.value)}
        onKeyDown=${keyDown}
      />
      <span class="find-place" role="status">${words}</span>
      <button type="button" class="icon-button" aria-label=${t("findPrevious")} title=${t("findPrevious")} onClick=${() => go(place + 1)}>
        <${Icon} name="up" />
      </button>
      <button type="button" class="icon-button" aria-label=${t("findNext")} title=${t("findNext")} onClick=${() => go(place - 1)}>
        <${Icon} name="down" />
      </button>
      <button type="button" class="icon-button" aria-label=${t("close")} title=${t("close")} onClick=${onClose}><${Icon} name="close" /></button>
    </div>
  `;
}

/** Marks the words wherever they are drawn, without touching what is drawn; older browsers show the message only. @param {string} wanted */
function useMarks(wanted) {
  useLayoutEffect(() => {
    const list = document.querySelector(".messages");
    if (!list || !("highlights" in CSS)) return undefined;
    const mark = () => CSS.highlights.set(MARK, new Highlight(...rangesOf(list, wanted)));
    mark();
    const observer = new MutationObserver(mark);
    observer.observe(list, { childList: true, subtree: true, characterData: true });
    return () => {
      observer.disconnect();
      CSS.highlights.delete(MARK);
    };
  }, [wanted]);
}

/**
 * @param {Element} list
 * @param {string} wanted
 * @returns {Range[]}
 */
function rangesOf(list, wanted) {
  /** @type {Range[]} */
  const ranges = [];
  if (wanted === "") return ranges;
  for (const body of list.querySelectorAll(".prose, .bubble")) {
    const walker = document.createTreeWalker(body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const text = (node.textContent ?? "").toLocaleLowerCase();
      // Some letters are longer in the other case: the places would not be those of the text on the page.
      if (text.length !== node.textContent?.length) continue;
      for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) {
        const range = new Range();
        range.setStart(node, at);
        range.setEnd(node, at + wanted.length);
        ranges.push(range);
      }
    }
  }
  return ranges;
}
