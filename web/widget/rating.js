/**
 * How content the visitor was at the end: stars for the last answer, and a word about it. What the server has not taken is not thanked
 * for.
 *
 * @import { LiveSocket } from "../js/socket.js"
 */

/** @typedef {"open" | "sending" | "kept" | "refused"} RatingState */

export class Rating {
  constructor() {
    this.stars = 0;
    this.comment = "";
    /** @type {RatingState} */
    this.state = "open";
    this.frameId = "";
  }

  /** Another conversation, or one that goes on. */
  reset() {
    this.stars = 0;
    this.comment = "";
    this.state = "open";
    this.frameId = "";
  }

  /** @param {LiveSocket} socket @param {string} messageId @param {number} stars @param {string} comment */
  send(socket, messageId, stars, comment) {
    this.stars = stars;
    this.comment = comment;
    this.state = "sending";
    socket.send("feedback.create", { message_id: messageId, rating: stars, scale: "stars", ...(comment ? { comment } : {}) });
    this.frameId = String(socket.lastId);
  }

  /** The server has answered a frame. @param {unknown} frameId @param {boolean} isKept */
  answered(frameId, isKept) {
    if (String(frameId) !== this.frameId) return;
    this.state = isKept ? "kept" : "refused";
    this.frameId = "";
  }

  /** The connection ended before the answer came. */
  disconnected() {
    if (this.state === "sending") this.state = "refused";
    this.frameId = "";
  }
}
