/**
 * The end of a conversation: stars, a word about them, and the way to a new one.
 *
 * @import { Visit } from "./visit.js"
 * @import { Texts } from "../js/texts.js"
 */

import { drawing, element, showText } from "./dom.js";

const STAR = "M12 4l2.4 5.1 5.6.7-4.1 3.8 1.1 5.5-5-2.8-5 2.8 1.1-5.5L4 9.8l5.6-.7z";
const STARS = [1, 2, 3, 4, 5];
const COMMENT_CHARS_MAX = "2000";

export class RatingView {
  /**
   * @param {Visit} visit
   * @param {Texts<any>} texts
   * @param {() => void} beginAnew
   */
  constructor(visit, texts, beginAnew) {
    const { t } = texts;
    this.visit = visit;
    this.texts = texts;
    this.stars = STARS.map((count) =>
      element("button", { type: "button", "aria-label": t("ratingOf", { count }), "aria-pressed": "false", onclick: () => visit.rate(count, "") }, drawing(STAR)),
    );
    this.comment = element("textarea", { rows: "1", maxlength: COMMENT_CHARS_MAX, "aria-label": t("comment"), placeholder: t("comment") });
    this.tell = element("form", { class: "tell", onsubmit: (event) => this.submitted(event) }, this.comment, element("button", { type: "submit" }, t("send")));
    this.outcome = element("p", { class: "thanks", role: "status" });
    this.asked = element("fieldset", { class: "asked" }, element("legend", {}, t("rate")), element("div", { class: "stars" }, ...this.stars), this.tell);
    const anew = element("button", { type: "button", class: "anew", onclick: beginAnew }, t("anew"));
    this.node = element("div", { class: "rating", hidden: true }, this.asked, this.outcome, anew);
  }

  update() {
    const { visit } = this;
    const { stars, comment, state } = visit.rating;
    this.node.hidden = visit.state !== "resolved";
    this.asked.hidden = visit.thread.lastAnswer === undefined;
    this.stars.forEach((star, index) => star.setAttribute("aria-pressed", String(index < stars)));
    this.tell.hidden = stars === 0 || (state === "kept" && comment !== "");
    showText(this.outcome, state === "kept" ? this.texts.t("thanks") : state === "refused" ? this.texts.t("not_sent") : "");
  }

  /** @param {Event} event */
  submitted(event) {
    event.preventDefault();
    const text = this.comment.value.trim();
    if (text === "") return;
    this.comment.value = "";
    this.visit.rate(this.visit.rating.stars, text);
  }
}
