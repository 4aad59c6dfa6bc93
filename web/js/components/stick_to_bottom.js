/**
 * Keeps the newest words in sight while the person is at the bottom, and leaves them alone when they have scrolled up.
 */

import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "../../vendor/preact/hooks.js";

/** Closer to the end than this counts as being there. */
const BOTTOM_PX = 48;

/**
 * @param {unknown} content changes whenever something was added
 * @param {unknown} place another one begins at its bottom
 */
export function useStickToBottom(content, place) {
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  const sticks = useRef(true);
  const last = useRef({ top: 0, height: 0, clientHeight: 0 });
  const [isAway, setAway] = useState(false);

  const toBottom = useCallback(() => {
    sticks.current = true;
    setAway(false);
    if (!frame.current) return;
    frame.current.scrollTop = frame.current.scrollHeight;
    last.current = measuresOf(frame.current);
  }, []);

  // Text that grows below is no reason to let go of the end, and neither is a scroll position that a higher frame did not
  // allow any more: only a person who scrolls up is.
  const onScroll = useCallback(() => {
    const element = frame.current;
    if (!element) return;
    const [before, now] = [last.current, measuresOf(element)];
    const isAtBottom = now.height - now.top - now.clientHeight < BOTTOM_PX;
    const isForced = now.clientHeight > before.clientHeight && now.top >= before.height - now.clientHeight - 1;
    if (isAtBottom || (now.top < before.top && !isForced)) sticks.current = isAtBottom;
    last.current = now;
    setAway(!sticks.current);
  }, []);

  // The browser tells of scrolling with the next frame; text that comes before that must not undo it.
  const keepAtBottom = useCallback(() => {
    onScroll();
    if (sticks.current) toBottom();
  }, []);

  useLayoutEffect(toBottom, [place]);
  useLayoutEffect(keepAtBottom, [content]);
  useEffect(() => {
    // A turned phone, a taller composer, a keyboard: the frame changes its height, and the end must stay in sight.
    const observer = new ResizeObserver(keepAtBottom);
    if (frame.current) observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);
  return { frame, onScroll, toBottom, isAway };
}

/** @param {HTMLElement} element */
function measuresOf({ scrollTop, scrollHeight, clientHeight }) {
  return { top: scrollTop, height: scrollHeight, clientHeight };
}
