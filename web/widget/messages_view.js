/**
 * The list of what was said: one element per message, changed only where the message has changed, so that a selection in it stays.
 *
 * @import { Visit } from "./visit.js"
 * @import { SaidMessage, Waiting } from "./wire.d.ts"
 * @import { Texts } from "../js/texts.js"
 */

import { isFinal } from "../js/message.js";
import { element, showText } from "./dom.js";
import { wordsOf } from "./words.js";

const NEAR_END_PX = 60;

export class MessagesView {
  /**
   * @param {Texts<any>} texts
   * @param {string} greeting
   * @param {Visit} visit
   */
  constructor(texts, greeting, visit) {
    this.texts = texts;
    this.visit = visit;
    this.list = element("ol", { class: "list" });
    this.earlier = element("button", { type: "button", class: "more", hidden: true, onclick: () => void this.showEarlier() }, texts.t("earlier"));
    // Scrolled by keyboard too.
    this.log = element("div", { class: "log", role: "region", tabindex: "0", "aria-label": texts.t("messages") }, this.earlier, this.list);
    this.greeting = greeting ? this.said("bot", "", greeting) : null;
    /** @type {Map<string, {node: HTMLElement, seen: string}>} */
    this.shown = new Map();
    this.typist = element("li", { class: "said agent", hidden: true });
  }

  update() {
    const { visit } = this;
    this.earlier.hidden = !visit.thread.hasEarlier;
    const messages = /** @type {SaidMessage[]} */ (visit.messages);
    const nodes = [
      ...(this.greeting && this.earlier.hidden ? [this.greeting] : []),
      ...messages.map((message) => this.messageNode(message)),
      ...visit.unsent.list.map((message) => this.waitingNode(message)),
      this.typist,
    ];
    this.typist.hidden = visit.typist === null;
    const name = visit.typist?.name ?? "";
    if (!this.typist.hidden && this.typist.dataset["name"] !== name) {
      this.typist.dataset["name"] = name;
      this.typist.replaceChildren(element("span", { class: "note" }, this.texts.t("typing", { name })), dots());
    }
    nodes.forEach((node, index) => {
      if (this.list.children[index] !== node) this.list.insertBefore(node, this.list.children[index] ?? null);
    });
    while (this.list.children.length > nodes.length) this.list.lastElementChild?.remove();
  }

  /** Whoever reads further up is left alone. */
  get isAtEnd() {
    return this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < NEAR_END_PX;
  }

  toEnd() {
    this.log.scrollTop = this.log.scrollHeight;
  }

  async showEarlier() {
    try {
      await this.visit.thread.readEarlier();
    } catch {
      // The button is still there to be pressed again.
      return;
    }
    this.update();
  }

  /** @param {SaidMessage} message */
  messageNode(message) {
    const seen = `${message.status} ${message.content.length} ${message.author?.name ?? ""}`;
    const known = this.shown.get(message.id);
    if (known?.seen === seen) return known.node;
    const kind = message.role === "user" ? "own" : message.author ? "agent" : "bot";
    const who = message.author?.name ?? this.texts.t("bot");
    const node = this.said(kind, who, message.content, known?.node);
    node.dataset["messageId"] = message.id;
    node.dataset["status"] = message.status;
    if (!isFinal(message)) node.setAttribute("aria-busy", "true");
    if (message.status === "failed" || message.status === "interrupted") node.append(note(this.texts.t("failed"), true));
    if (message.status === "cancelled" && message.content === "") node.append(note(this.texts.t("stopped"), false));
    this.shown.set(message.id, { node, seen });
    return node;
  }

  /** @param {Waiting} message */
  waitingNode(message) {
    const seen = message.refused ?? "";
    const known = this.shown.get(message.client_message_id);
    if (known?.seen === seen) return known.node;
    const node = this.said("own", "", message.content);
    node.classList.add("pending");
    if (message.refused !== null) {
      const again = element("button", { type: "button", onclick: () => this.visit.retry(message.client_message_id) }, this.texts.t("retry"));
      const text = message.refused === "busy" ? this.texts.t("busy") : this.texts.t("not_sent");
      node.append(element("span", { class: "note fault" }, `${text} `, again));
    }
    this.shown.set(message.client_message_id, { node, seen });
    return node;
  }

  /**
   * @param {"own" | "agent" | "bot"} kind
   * @param {string} who
   * @param {string} content
   * @param {HTMLElement} [node] the one to change
   */
  said(kind, who, content, node = element("li")) {
    node.className = `said ${kind}`;
    node.removeAttribute("aria-busy");
    const bubble = element("div", { class: "bubble" });
    if (kind === "own") bubble.append(element("span", { class: "heard" }, `${this.texts.t("you")}: `), content);
    else if (content === "") bubble.append(element("span", { class: "heard" }, this.texts.t("thinking")), dots());
    else bubble.append(...wordsOf(content));
    node.replaceChildren(...(who && kind !== "own" ? [element("span", { class: "who" }, who)] : []), bubble);
    return node;
  }
}

function dots() {
  return element("span", { class: "dots", "aria-hidden": "true" }, element("i"), element("i"), element("i"));
}

/** @param {string} text @param {boolean} isFault */
function note(text, isFault) {
  const node = element("span", { class: isFault ? "note fault" : "note" });
  showText(node, text);
  return node;
}
