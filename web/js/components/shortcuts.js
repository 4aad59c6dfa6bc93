/**
 * The keys of the whole page. A single letter or sign counts only where nobody is writing, and can be turned off in the settings:
 * speech recognition types what it hears.
 *
 * @import { Commands } from "../commands.js"
 */

import { useEffect } from "../../vendor/preact/hooks.js";
import { useChoices } from "./language.js";

/** @param {{commands: Commands, onHelp: () => void, onFind: () => void, canFind: boolean}} doing */
export function useShortcuts({ commands, onHelp, onFind, canFind }) {
  const { singleKeys } = useChoices();
  useEffect(() => {
    const keyDown = (/** @type {KeyboardEvent} */ event) => {
      if (event.isComposing || event.defaultPrevented || document.querySelector("dialog[open]")) return;
      const key = event.key.toLowerCase();
      const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
      const isWithControl = (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey;
      const isSingle = isPlain && singleKeys === "on" && !isWriting(event.target);
      const action =
        isWithControl && key === "k"
          ? () => startNew(commands)
          : isWithControl && key === "f" && canFind && isFindOurs()
            ? onFind
            : event.altKey && !event.ctrlKey && !event.metaKey && (key === "arrowup" || key === "arrowdown")
              ? () => focusMessage(key === "arrowup" ? -1 : 1)
              : isSingle && key === "?"
                ? onHelp
                : isSingle && key === "/"
                  ? focusSearch
                  : null;
      if (action === null) return;
      event.preventDefault();
      action();
    };
    document.addEventListener("keydown", keyDown);
    return () => document.removeEventListener("keydown", keyDown);
  });
}

/** @param {Commands} commands */
function startNew(commands) {
  commands.open(null);
  document.getElementById("composer")?.focus();
}

function focusSearch() {
  const drawer = /** @type {HTMLElement | null} */ (document.querySelector(".bar [aria-controls=sidebar]"));
  if (drawer?.checkVisibility()) drawer.click();
  setTimeout(() => document.getElementById("search")?.focus());
}

/** The browser's own search is better where all of the conversation is on the page; pressed in ours, it comes anyway. */
function isFindOurs() {
  const messages = document.querySelector(".messages");
  return messages?.hasAttribute("data-partial") && document.activeElement?.id !== "find";
}

/** To the message above or below the one that has the focus; the nearest to the end at first. @param {number} by */
function focusMessage(by) {
  const messages = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(".messages [data-message-id]")]);
  const place = messages.findIndex((message) => message.contains(document.activeElement));
  const next = place < 0 ? messages.at(-1) : messages[place + by];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
  if (!next && by > 0) document.getElementById("composer")?.focus();
}

/** @param {EventTarget | null} target */
function isWriting(target) {
  return target instanceof HTMLElement && target.matches("input, textarea, select, [contenteditable]");
}
