/**
 * One visitor's chat: comes in, connects, sends, follows the answers and who gives them. No DOM; the view is told of changes.
 *
 * @import { Door } from "./door.js"
 * @import { Memory } from "./memory.js"
 * @import { Person, ServiceState, VisitorConversation } from "./wire.d.ts"
 * @import { Frame, Message } from "../js/wire.d.ts"
 */

import { LiveSocket } from "../js/socket.js";
import { Refused } from "./door.js";
import { Entrance, refusalOf } from "./entrance.js";
import { Rating } from "./rating.js";
import { Thread } from "./thread.js";
import { TicketedSocket } from "./ticketed_socket.js";
import { Typing } from "./typing.js";
import { Unsent } from "./unsent.js";


/**
 * `idle` until somebody comes in; `problem` says why nobody can: see `refusalOf`.
 *
 * @typedef {"idle" | "entering" | "inside" | "refused"} Phase
 */

export class Visit {
  /**
   * @param {Door} door
   * @param {Memory} memory
   * @param {object} outside
   * @param {(address: URL) => WebSocket} outside.openSocket
   * @param {(callback: () => void, ms: number) => number} outside.setTimer
   * @param {(timer: number | undefined) => void} outside.clearTimer
   * @param {() => number} outside.random
   * @param {() => number} outside.nowMs
   * @param {() => string} outside.newId
   * @param {() => void} outside.changed
   */
  constructor(door, memory, outside) {
    this.door = door;
    this.memory = memory;
    this.outside = outside;
    /** @type {Phase} */
    this.phase = "idle";
    this.problem = "";
    this.entrance = new Entrance(door, memory);
    this.unsent = new Unsent(memory, outside.changed);
    /** @type {VisitorConversation | null} */
    this.conversation = null;
    this.thread = new Thread(door);
    this.typing = new Typing(outside);
    this.wantsPerson = false;
    this.rating = new Rating();
    this.threadKey = outside.newId();
    /** @type {Promise<void> | null} */
    this.beginning = null;
    /** @type {number | undefined} */
    this.enterTimer = undefined;
    this.socket = new LiveSocket({
      // What LiveSocket uses of a WebSocket is what a TicketedSocket has.
      connect: () => /** @type {any} */ (new TicketedSocket(() => door.socketAddress(), outside.openSocket)),
      resumePoints: () => this.thread.resumePoints,
      onFrame: (frame) => this.receive(frame),
      onConnection: (connection) => this.connectionChanged(connection),
      onHandshakeRefused: () => undefined,
      ...outside,
    });
  }

  /** The messages that are shown, the oldest first. @returns {Message[]} */
  get messages() {
    return this.thread.messages;
  }

  /** @returns {ServiceState} */
  get state() {
    return this.conversation?.state ?? "bot";
  }

  /** Who writes at the other end just now. @returns {Person | null} */
  get typist() {
    return this.typing.person;
  }

  get isConnected() {
    return this.socket.connection === "open";
  }

  /** Comes in, unless that is done or under way. */
  async start() {
    if (this.phase === "entering" || this.phase === "inside") return;
    this.problem = "";
    this.become("entering");
    this.outside.clearTimer(this.enterTimer);
    const { visitorToken } = this.entrance;
    try {
      await this.entrance.enter();
      const newest = this.conversation ?? (await this.door.newestConversation());
      if (visitorToken === this.entrance.visitorToken) this.conversation = newest;
      this.memory.isActive = this.conversation !== null;
    } catch (problem) {
      if (visitorToken === this.entrance.visitorToken) this.refuse(problem);
      return;
    }
    // Somebody else has come in meanwhile: see `identify`.
    if (visitorToken !== this.entrance.visitorToken) return;
    this.become("inside");
    this.socket.open();
  }

  /** Somebody has signed in, or for longer: from here on this is who they are. @param {string} token */
  identify(token) {
    this.entrance.visitorToken = token;
    if (this.phase === "idle") return;
    this.socket.close();
    this.conversation = null;
    this.thread.show("", false);
    this.become("idle");
    void this.start();
  }

  /** @param {unknown} problem */
  refuse(problem) {
    const { reason, againMs } = refusalOf(problem);
    this.problem = reason;
    this.become("refused");
    if (againMs !== null) this.enterTimer = this.outside.setTimer(() => void this.start(), againMs);
  }

  /** @param {string} content */
  send(content) {
    this.rating.reset();
    this.typing.sent();
    this.unsent.add(this.outside.newId(), content);
    void this.flush();
  }

  /** Asks for a person to answer. */
  requestPerson() {
    this.wantsPerson = true;
    this.outside.changed();
    void this.flush();
  }

  /** Begins anew, with nothing before it. */
  beginAnew() {
    if (this.conversation) this.socket.send("conversation.unsubscribe", { conversation_id: this.conversation.id });
    this.conversation = null;
    this.thread.show("", false);
    this.threadKey = this.outside.newId();
    this.rating.reset();
    this.outside.changed();
  }

  /** How content the visitor was, 1 to 5. @param {number} stars @param {string} comment */
  rate(stars, comment) {
    if (this.thread.lastAnswer) this.rating.send(this.socket, this.thread.lastAnswer.id, stars, comment);
    this.outside.changed();
  }

  /** The visitor writes: whoever answers is shown it. */
  type() {
    if (!this.conversation || this.state === "bot" || !this.typing.isToBeTold()) return;
    this.socket.send("typing", { conversation_id: this.conversation.id });
  }

  stop() {
    const id = this.thread.running?.response_id;
    if (id) this.socket.send("response.cancel", { response_id: id });
  }

  /** Sends whatever waits, as soon as there is a conversation and a connection. */
  async flush() {
    if (!this.isConnected || (!this.unsent.list.length && !this.wantsPerson)) return;
    if (!this.conversation) {
      this.beginning ??= this.begin();
      await this.beginning;
      return;
    }
    this.unsent.sendOn(this.socket, this.conversation.id);
    if (this.wantsPerson) this.socket.send("handoff.request", { conversation_id: this.conversation.id });
  }

  async begin() {
    try {
      this.conversation = await this.door.beginConversation(this.threadKey);
    } catch (problem) {
      this.beginning = null;
      if (problem instanceof Refused && problem.status === 401) void this.reenter();
      else this.unsent.refuseAll(problem instanceof Refused && problem.status === 429 ? "busy" : "not_sent");
      this.wantsPerson = false;
      return;
    }
    this.beginning = null;
    this.memory.isActive = true;
    this.thread.show(this.conversation.id, true);
    this.socket.send("conversation.subscribe", { conversation_id: this.conversation.id });
    await this.flush();
  }

  /** Tries a refused message once more. @param {string} clientMessageId */
  retry(clientMessageId) {
    this.unsent.again(clientMessageId);
    void this.flush();
  }

  /** @param {import("../js/socket.js").Connection} connection */
  connectionChanged(connection) {
    this.unsent.disconnected();
    this.rating.disconnected();
    if (connection === "signed_out") void this.reenter();
    else this.outside.changed();
  }

  /** The token has ended, as it does every hour: come in again, as the same visitor. */
  async reenter() {
    this.socket.close();
    this.become("idle");
    await this.start();
  }

  /** @param {Phase} phase */
  become(phase) {
    this.phase = phase;
    this.outside.changed();
  }

  /** @param {Frame} frame */
  receive(frame) {
    const { type, data } = frame;
    if (type === "session.ready") void this.ready();
    else if (type === "error") this.failed(frame);
    else if (type === "feedback.created") this.rating.answered(frame.reply_to, true);
    else if (frame.conversation_id !== undefined && frame.conversation_id !== this.conversation?.id) return;
    else if (type === "message.created") this.accepted(data);
    else if (type === "conversation.updated" && data["conversation"]) this.conversation = data["conversation"];
    else if (type === "conversation.updated" && data["deleted"]) this.beginAnew();
    else if (type === "conversation.status_changed") this.stateChanged(data);
    else if (type === "typing") this.typing.heard(data["author"] ?? null);
    else if (type === "resync_required") void this.resync(String(data["response_id"] ?? frame.response_id));
    else if (frame.seq !== undefined) this.advance(frame);
    this.outside.changed();
  }

  async ready() {
    if (this.conversation) {
      this.socket.send("conversation.subscribe", { conversation_id: this.conversation.id });
      await this.read();
    }
    await this.flush();
  }

  /** Reads again what is stored: something may have happened that no frame told. */
  async read() {
    if (!this.conversation) return;
    try {
      await this.thread.read(this.conversation.id);
    } catch (problem) {
      if (problem instanceof Refused && problem.status === 401) await this.reenter();
      else if (problem instanceof Refused && problem.status === 404) this.beginAnew();
      else this.socket.reconnect();
      return;
    }
    this.outside.changed();
  }

  /** @param {Record<string, any>} data */
  accepted(data) {
    const clientMessageId = data["client_message_id"] ?? data["message"]?.client_message_id;
    this.thread.accepted(data);
    if (data["message"]?.role === "assistant") this.typing.heard(null);
    if (clientMessageId) this.unsent.accepted(clientMessageId);
  }

  /** @param {Frame} frame */
  advance(frame) {
    if (this.thread.advance(frame)) this.socket.reconnect();
  }

  /** @param {string} responseId */
  async resync(responseId) {
    this.thread.forget(responseId);
    await this.read();
  }

  /** @param {Record<string, any>} data */
  stateChanged(data) {
    if (!this.conversation) return;
    this.wantsPerson = false;
    this.conversation = { ...this.conversation, state: data["state"], agent: data["agent"] ?? null };
    if (this.conversation.state !== "human") this.typing.heard(null);
  }

  /** @param {Frame} frame */
  failed(frame) {
    this.wantsPerson = false;
    this.rating.answered(frame.reply_to, false);
    this.unsent.refused(String(frame.reply_to), String(frame.data["code"] ?? "unknown"));
  }
}
