/**
 * Keeps what is being read where it is on the screen while earlier messages are added above it. Browsers do this by themselves
 * only where the frame is not scrolled to its very top, and some do not do it at all.
 */

import { useLayoutEffect, useRef } from "../../vendor/preact/hooks.js";

/**
 * @param {{current: HTMLElement | null}} frame what is scrolled
 * @param {string | null} firstId the message at the top
 */
export function useKeepPlace(frame, firstId) {
  const first = useRef(firstId);
  const isOther = firstId !== first.current;
  const node = isOther ? frame.current?.querySelector(`[data-message-id="${CSS.escape(String(first.current))}"]`) ?? null : null;
  const before = node?.getBoundingClientRect().top ?? 0;
  first.current = firstId;
  useLayoutEffect(() => {
    if (node?.isConnected && frame.current) frame.current.scrollTop += node.getBoundingClientRect().top - before;
  }, [firstId]);
}
