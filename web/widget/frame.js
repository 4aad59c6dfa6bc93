/**
 * The widget on the page: the button, the window, and whether it is open. Everything is in one shadow root.
 *
 * @import { Memory } from "./memory.js"
 * @import { Visit } from "./visit.js"
 * @import { Look } from "./wire.d.ts"
 * @import { Texts } from "../js/texts.js"
 */

import { inkOn } from "./colours.js";
import { drawing, element, showText } from "./dom.js";
import { Panel } from "./panel.js";
import { styleSheets } from "./styles.js";

const BUBBLE = "M4 6.5A2.5 2.5 0 0 1 6.5 4h11A2.5 2.5 0 0 1 20 6.5v7a2.5 2.5 0 0 1-2.5 2.5H11l-4.5 4v-4A2.5 2.5 0 0 1 4 13.5z";

export class Frame {
  /**
   * @param {Visit} visit
   * @param {Memory} memory
   * @param {Look} look
   * @param {Texts<any>} texts
   * @param {string} theme
   */
  constructor(visit, memory, look, texts, theme) {
    this.visit = visit;
    this.memory = memory;
    this.texts = texts;
    this.isOpen = false;
    this.unread = 0;
    /** @type {Set<string> | null} */
    this.seen = null;
    this.badge = element("span", { class: "badge", "aria-hidden": "true", hidden: true });
    this.launch = element("button", { type: "button", class: "launch", "aria-haspopup": "dialog", onclick: () => (this.isOpen ? this.close() : this.open()) }, drawing(BUBBLE), this.badge);
    this.panel = new Panel(visit, look, texts, () => this.close());
    this.root = element("div", { class: "root", lang: texts.language }, this.panel.node, this.launch);
    this.host = element("div", { "data-kvasir-widget": look.id, ...(theme ? { "data-theme": theme } : {}) });
    const shadow = this.host.attachShadow({ mode: "open" });
    shadow.adoptedStyleSheets = styleSheets(look.colour, inkOn(look.colour));
    shadow.append(this.root);
    document.body.append(this.host);
    this.update();
  }

  open() {
    if (this.isOpen) return;
    this.isOpen = true;
    this.memory.isOpen = true;
    this.unread = 0;
    this.root.classList.add("open");
    void this.visit.start();
    this.panel.show();
    this.update();
  }

  close() {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.memory.isOpen = false;
    this.root.classList.remove("open");
    this.panel.hide();
    this.update();
    this.launch.focus();
  }

  update() {
    this.count();
    const { t } = this.texts;
    this.launch.setAttribute("aria-expanded", String(this.isOpen));
    const label = this.isOpen ? t("close") : this.unread ? t("openUnread", { count: this.unread }) : t("open");
    this.launch.setAttribute("aria-label", label);
    this.badge.hidden = this.unread === 0;
    showText(this.badge, String(this.unread));
    if (this.isOpen) this.panel.update();
  }

  /** What has come while the window was closed. */
  count() {
    const ids = this.visit.messages.filter((message) => message.role === "assistant").map((message) => message.id);
    if (this.seen && !this.isOpen) this.unread += ids.filter((id) => !this.seen?.has(id)).length;
    if (this.visit.thread.isLoaded || ids.length) this.seen = new Set(ids);
  }
}
