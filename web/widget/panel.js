/**
 * The window: title, who answers, what was said, rating, and where one writes. Shows a `Visit`, and passes on what is pressed.
 *
 * @import { Visit } from "./visit.js"
 * @import { Look } from "./wire.d.ts"
 * @import { Texts } from "../js/texts.js"
 */

import { isFinal } from "../js/message.js";
import { drawing, element, showText } from "./dom.js";
import { MessagesView } from "./messages_view.js";
import { RatingView } from "./rating_view.js";

const CLOSE = "M6 6l12 12M18 6L6 18";
const SEND = "M12 19V5M6 11l6-6 6 6";
const STOP = "M8 8h8v8H8z";
const FINAL = new Set(["signed_out", "stranger", "turned_away"]);
const ENDED = new Set(["kicked", "forbidden", "outdated"]);
const SPOKEN_CHARS_MAX = 600;
const PHONE = "(max-width: 480px), (max-height: 460px)";

export class Panel {
  /**
   * @param {Visit} visit
   * @param {Look} look
   * @param {Texts<any>} texts
   * @param {() => void} close
   */
  constructor(visit, look, texts, close) {
    const { t } = texts;
    this.visit = visit;
    this.texts = texts;
    this.close = close;
    this.messages = new MessagesView(texts, look.greeting, visit);
    this.person = element("button", { type: "button", class: "person", onclick: () => visit.requestPerson() }, t("person"));
    const leave = element("button", { type: "button", title: t("close"), "aria-label": t("close"), onclick: close }, drawing(CLOSE));
    this.status = element("div", { class: "status", role: "status" });
    this.field = element("textarea", { rows: "1", maxlength: "8000", "aria-label": t("message"), placeholder: t("placeholder"), enterkeyhint: "send" });
    this.field.addEventListener("keydown", (event) => this.keyPressed(event));
    this.field.addEventListener("input", () => {
      if (this.field.value.trim()) visit.type();
      this.update();
    });
    this.go = element("button", { type: "submit", class: "go" }, drawing(SEND));
    this.halt = element("button", { type: "button", class: "go", title: t("stop"), "aria-label": t("stop"), hidden: true, onclick: () => this.stop() }, drawing(STOP));
    this.go.setAttribute("aria-label", t("send"));
    this.write = element("form", { class: "write", onsubmit: (event) => this.submitted(event) }, this.field, this.halt, this.go);
    this.rating = new RatingView(visit, texts, () => this.beginAnew());
    this.heard = element("div", { class: "heard", role: "status" });
    this.node = element(
      "section",
      { class: "panel", role: "dialog", "aria-label": look.title, hidden: true, onkeydown: /** @type {EventListener} */ ((event) => this.navigated(/** @type {KeyboardEvent} */ (event))) },
      element("div", { class: "top" }, element("h2", { class: "title" }, look.title), this.person, leave),
      this.status,
      this.messages.log,
      this.rating.node,
      this.write,
      this.heard,
    );
    /** Whether an answer that has ended has been told to a screen reader. @type {Set<string>} */
    this.told = new Set();
    this.hasToldBefore = false;
  }

  show() {
    this.node.hidden = false;
    this.node.setAttribute("aria-modal", String(matchMedia(PHONE).matches));
    this.update();
    this.messages.toEnd();
    this.field.focus();
  }

  hide() {
    this.node.hidden = true;
  }

  update() {
    const { visit } = this;
    const { state } = visit;
    const wasAtEnd = this.messages.isAtEnd;
    showText(this.status, this.statusText());
    this.person.hidden = state === "queued" || state === "human" || visit.wantsPerson;
    this.messages.update();
    const isRunning = visit.thread.running !== undefined;
    this.halt.hidden = !isRunning || this.field.value.trim() !== "";
    this.go.hidden = !this.halt.hidden;
    this.go.disabled = this.field.value.trim() === "" || FINAL.has(visit.problem);
    this.rating.update();
    if (wasAtEnd) this.messages.toEnd();
    this.tell();
  }

  statusText() {
    const { visit, texts } = this;
    if (visit.phase === "refused") return texts.t(visit.problem);
    if (visit.phase === "entering") return texts.t("entering");
    if (visit.socket.connection === "lost") return texts.t("lost");
    // An administrator has ended it, or the server is another one by now.
    if (ENDED.has(visit.socket.connection)) return texts.t("signed_out");
    if (visit.wantsPerson) return texts.t("asking");
    if (visit.state === "queued") return texts.t("queued");
    if (visit.state === "human") return texts.t("human", { name: visit.conversation?.agent?.name ?? "" });
    return visit.state === "resolved" ? texts.t("resolved") : "";
  }

  /** The button goes with the answer, and the focus with it. */
  stop() {
    this.visit.stop();
    this.field.focus();
  }

  beginAnew() {
    this.visit.beginAnew();
    this.field.focus();
  }

  /** A screen reader hears that an answer has ended, and not every word of it while it grows. */
  tell() {
    const over = this.visit.messages.filter((message) => message.role === "assistant" && isFinal(message));
    const fresh = over.filter((message) => !this.told.has(message.id));
    for (const message of fresh) this.told.add(message.id);
    const last = fresh.at(-1);
    if (last && this.hasToldBefore) {
      const name = /** @type {import("./wire.d.ts").SaidMessage} */ (last).author?.name ?? this.texts.t("bot");
      showText(this.heard, this.texts.t("ended", { name, text: last.content.slice(0, SPOKEN_CHARS_MAX) }));
    }
    if (this.visit.thread.isLoaded) this.hasToldBefore = true;
  }

  /** @param {KeyboardEvent} event */
  keyPressed(event) {
    // While an input method composes, Enter is its own.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.submitted(event);
  }

  /** @param {Event} event */
  submitted(event) {
    event.preventDefault();
    const text = this.field.value.trim();
    if (text === "" || this.go.disabled) return;
    this.field.value = "";
    this.visit.send(text);
    this.messages.toEnd();
    this.field.focus();
  }

  /** Esc closes; on a phone, where nothing else is seen, Tab stays inside. @param {KeyboardEvent} event */
  navigated(event) {
    if (event.key === "Escape") {
      event.stopPropagation();
      this.close();
    }
    if (event.key !== "Tab" || this.node.getAttribute("aria-modal") !== "true") return;
    const stops = [...this.node.querySelectorAll("button, textarea, a[href], [tabindex]")].filter(
      (node) => node instanceof HTMLElement && node.offsetParent !== null && !node.matches(":disabled"),
    );
    const root = /** @type {ShadowRoot} */ (this.node.getRootNode());
    const [first, last] = [stops[0], stops.at(-1)];
    const edge = event.shiftKey ? first : last;
    if (root.activeElement !== edge) return;
    event.preventDefault();
    /** @type {HTMLElement | undefined} */ (event.shiftKey ? last : first)?.focus();
  }
}
