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
  const [isAway, setAway] = useState(false);

  const toBottom = useCallback(() => {
    sticks.current = true;
    setAway(false);
    if (frame.current) frame.current.scrollTop = frame.current.scrollHeight;
  }, []);

  const onScroll = useCallback(() => {
    const element = frame.current;
    if (!element) return;
    sticks.current = element.scrollHeight - element.scrollTop - element.clientHeight < BOTTOM_PX;
    setAway(!sticks.current);
  }, []);

  useLayoutEffect(toBottom, [place]);
  useLayoutEffect(() => {
    if (sticks.current) toBottom();
  }, [content]);
  useEffect(() => {
    // A turned phone, a taller composer, a keyboard: the frame changes its height, and the end must stay in sight.
    const observer = new ResizeObserver(() => sticks.current && toBottom());
    if (frame.current) observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);
  return { frame, onScroll, toBottom, isAway };
}
