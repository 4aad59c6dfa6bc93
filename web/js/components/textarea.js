/** What the composer and the editor of a message have in common, and the way of the focus between them. */

/**
 * Makes a text area as high as its text; the style sheet sets the limit.
 *
 * @param {HTMLTextAreaElement | null} area
 */
export function fitHeight(area) {
  if (!area) return;
  area.style.height = "auto";
  area.style.height = `${area.scrollHeight + area.offsetHeight - area.clientHeight}px`;
}

/**
 * Enter sends, or Ctrl or Cmd with it where that was chosen. Not with Shift, and not where it only accepts a word of an input
 * method (229 is how Safari says so).
 *
 * @param {KeyboardEvent} event
 * @param {"enter" | "mod-enter"} sendKey
 */
export function isSendKey(event, sendKey) {
  const isEnter = event.key === "Enter" && !event.shiftKey && !event.altKey && !event.isComposing && event.keyCode !== 229;
  return isEnter && (sendKey === "enter" || event.ctrlKey || event.metaKey);
}

/**
 * Whoever works by keyboard goes on in the composer when what they pressed is gone. Not by finger: there the focus brings up a
 * keyboard that covers what was asked for.
 */
export function focusComposer() {
  if (matchMedia("(pointer: fine)").matches) document.getElementById("composer")?.focus();
}
