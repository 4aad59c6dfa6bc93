/**
 * Keeps selected what somebody has selected, or is selecting, in a text that grows: a browser gives a selection up when the text
 * node it is in gets another text.
 */

import { useLayoutEffect } from "../../vendor/preact/hooks.js";

/** @param {{current: HTMLElement | null}} body what holds the text */
export function useKeepSelection(body) {
  const selection = getSelection();
  const { anchorNode, anchorOffset, focusNode, focusOffset } = selection ?? { anchorOffset: 0, focusOffset: 0 };
  const isHere = anchorNode && focusNode && (body.current?.contains(anchorNode) || body.current?.contains(focusNode));
  useLayoutEffect(() => {
    if (!selection || !isHere || !anchorNode.isConnected || !focusNode.isConnected) return;
    const [anchor, focus] = [within(anchorNode, anchorOffset), within(focusNode, focusOffset)];
    const isAsBefore = selection.anchorNode === anchorNode && selection.anchorOffset === anchor && selection.focusOffset === focus;
    if (!isAsBefore) selection.setBaseAndExtent(anchorNode, anchor, focusNode, focus);
  });
}

/**
 * @param {Node} node
 * @param {number} offset
 */
function within(node, offset) {
  return Math.min(offset, node instanceof Text ? node.data.length : node.childNodes.length);
}
