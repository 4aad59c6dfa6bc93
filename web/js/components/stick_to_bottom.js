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
  const lastTop = useRef(0);
  const [isAway, setAway] = useState(false);

  const toBottom = useCallback(() => {
    sticks.current = true;
    setAway(false);
    if (!frame.current) return;
    frame.current.scrollTop = frame.current.scrollHeight;
    lastTop.current = frame.current.scrollTop;
  }, []);

  // Text that grows below is no reason to let go of the end: only a person who scrolls up is.
  const onScroll = useCallback(() => {
    const element = frame.current;
    if (!element) return;
    const isAtBottom = element.scrollHeight - element.scrollTop - element.clientHeight < BOTTOM_PX;
    if (isAtBottom || element.scrollTop < lastTop.current) sticks.current = isAtBottom;
    lastTop.current = element.scrollTop;
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
