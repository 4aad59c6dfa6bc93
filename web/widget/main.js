/**
 * Begins the widget on a page of somebody's site. What is written here in order is all that the page notices: one element at the end
 * of its body, and `window.Kvasir`.
 *
 * @import { Language } from "../js/texts.js"
 */

import { newId } from "../js/ids.js";
import { languageFor, textsOf } from "../js/texts.js";
import { en, zh } from "../js/texts/widget.js";
import { Door, Refused } from "./door.js";
import { Frame } from "./frame.js";
import { Memory } from "./memory.js";
import { Visit } from "./visit.js";

const LOOK_AGAIN_MS = [2000, 10_000, 60_000];

/**
 * @param {HTMLScriptElement} script the one script tag
 */
function begin(script) {
  const widgetId = script.dataset["widget"] ?? "";
  const door = new Door(new URL(".", script.src), widgetId, (...request) => fetch(...request));
  const memory = new Memory(widgetId, () => localStorage, () => sessionStorage);
  /** @type {Frame | null} */
  let frame = null;
  let isScheduled = false;
  const visit = new Visit(door, memory, {
    openSocket: (address) => new WebSocket(address),
    setTimer: (callback, ms) => window.setTimeout(callback, ms),
    clearTimer: (timer) => window.clearTimeout(timer),
    random: Math.random,
    nowMs: () => performance.now(),
    newId,
    changed: () => {
      // Once per screen frame, however much has come; and in a tab that nobody sees, all the same.
      if (isScheduled) return;
      isScheduled = true;
      const draw = () => {
        isScheduled = false;
        frame?.update();
      };
      if (document.hidden) window.setTimeout(draw, 100);
      else requestAnimationFrame(draw);
    },
  });
  visit.entrance.visitorToken = script.dataset["visitorToken"] ?? "";
  let wantsOpen = script.dataset["open"] !== undefined || memory.isOpen;
  const face = Object.freeze({
    open: () => (frame ? frame.open() : (wantsOpen = true)) && undefined,
    close: () => (frame ? frame.close() : (wantsOpen = false)) && undefined,
    identify: (/** @type {unknown} */ token) => visit.identify(String(token)),
  });
  Object.assign(window, { Kvasir: face });
  void show(0);

  /** @param {number} tries */
  async function show(tries) {
    let look;
    try {
      look = await door.look();
    } catch (problem) {
      const again = LOOK_AGAIN_MS[tries];
      const isAway = problem instanceof Refused && (problem.status === 0 || problem.status >= 500);
      if (isAway && again !== undefined) window.setTimeout(() => void show(tries + 1), again);
      return;
    }
    await isParsed();
    const language = languageIn(look.languages, script.dataset["language"]);
    frame = new Frame(visit, memory, look, textsOf({ en, zh }, language), script.dataset["theme"] ?? "");
    addEventListener("online", () => visit.socket.awaken());
    document.addEventListener("visibilitychange", () => document.hidden || visit.socket.awaken());
    if (wantsOpen) frame.open();
    // Somebody may be waiting for a person's answer on the next page of the site.
    else if (memory.isActive) void visit.start();
  }
}

/**
 * @param {Language[]} offered
 * @param {string | undefined} chosen
 */
function languageIn(offered, chosen) {
  const wanted = languageFor(chosen ?? "auto", navigator.languages);
  return offered.includes(wanted) ? wanted : offered[0] ?? "en";
}

async function isParsed() {
  if (document.body && document.readyState !== "loading") return;
  await new Promise((resolve) => document.addEventListener("DOMContentLoaded", resolve, { once: true }));
}

// Known only while the script runs for the first time.
if (document.currentScript instanceof HTMLScriptElement && !("Kvasir" in window)) begin(document.currentScript);
