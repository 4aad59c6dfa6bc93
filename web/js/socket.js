/**
 * The socket `/ws`: it brings the frames of answers and stays connected. It only listens; commands go over REST.
 *
 * Every connection begins with `session.hello` and the points where reading stopped, so that nothing of an answer is lost
 * between two connections. A connection that has gone silent is given up. Timers and chance are handed in; there is no DOM.
 *
 * @import { Frame, ResumePoint } from "./wire.d.ts"
 */

import { backoffMs } from "./backoff.js";

export const PROTOCOL = 1;

const SILENCE_MS = 10_000;
const RESUME_POINTS_MAX = 256;

/**
 * `open` after `session.ready`; `lost` while it tries again by itself; the others need a person: `signed_out`, `kicked`
 * (an administrator ended the session), `forbidden` (wrong origin), `outdated` (the server speaks another protocol).
 *
 * @typedef {"closed" | "connecting" | "open" | "lost" | "signed_out" | "kicked" | "forbidden" | "outdated"} Connection
 */

/** @type {Record<number, Connection>} */
const FINAL_CLOSE_CODES = { 1002: "outdated", 1008: "forbidden", 4001: "signed_out", 4003: "forbidden", 4009: "kicked" };
const TOO_MANY_REQUESTS = 4029;

export class LiveSocket {
  /**
   * @param {object} outside
   * @param {() => WebSocket} outside.connect
   * @param {() => ResumePoint[]} outside.resumePoints
   * @param {(frame: Frame) => void} outside.onFrame
   * @param {(connection: Connection) => void} outside.onConnection
   * @param {() => void} outside.onHandshakeRefused a connection that never opened: perhaps the sign-in has ended
   * @param {(callback: () => void, ms: number) => number} outside.setTimer
   * @param {(timer: number | undefined) => void} outside.clearTimer
   * @param {() => number} outside.random
   */
  constructor(outside) {
    this.outside = outside;
    /** @type {Connection} */
    this.connection = "closed";
    /** @type {WebSocket | null} */
    this.socket = null;
    this.failures = 0;
    this.lastId = 0;
    /** @type {number | undefined} */
    this.retryTimer = undefined;
    /** @type {number | undefined} */
    this.heartbeatTimer = undefined;
    /** @type {number | undefined} */
    this.silenceTimer = undefined;
  }

  /** Connects now, whatever wait is running. Does nothing while a connection stands or is being made. */
  open() {
    if (this.socket) return;
    this.outside.clearTimer(this.retryTimer);
    this.become(this.failures === 0 ? "connecting" : "lost");
    const socket = this.outside.connect();
    this.socket = socket;
    // A handshake that nobody answers ends by itself only after minutes.
    this.expectSign();
    let hasOpened = false;
    socket.onopen = () => {
      if (this.socket !== socket) return;
      hasOpened = true;
      const resume = this.outside.resumePoints().slice(-RESUME_POINTS_MAX);
      this.send("session.hello", { protocol: PROTOCOL, resume });
      this.expectSign();
    };
    socket.onmessage = (event) => {
      if (this.socket === socket) this.receive(event.data);
    };
    socket.onclose = (event) => {
      if (this.socket !== socket) return;
      this.drop();
      if (!hasOpened) this.outside.onHandshakeRefused();
      this.afterClose(event.code);
    };
  }

  /** Ends the connection for good. */
  close() {
    const socket = this.socket;
    this.drop();
    this.outside.clearTimer(this.retryTimer);
    this.become("closed");
    socket?.close();
  }

  /** Gives this connection up and makes a new one, which resumes: after silence, a gap, or a change of network. */
  reconnect() {
    const socket = this.socket;
    if (!socket) return;
    this.drop();
    socket.close();
    this.afterClose(1006);
  }

  /** The network or the page is back: a wait for the next try is over, and a connection from before proves itself anew. */
  awaken() {
    if (this.connection === "lost") this.open();
    if (this.connection !== "open") return;
    this.send("ping", {});
    this.expectSign();
  }

  /**
   * Sends a frame; while there is no connection it is dropped, because the next one begins with hello and subscribes anew.
   *
   * @param {string} type
   * @param {Record<string, unknown>} data
   */
  send(type, data) {
    if (this.socket?.readyState !== 1) return;
    this.lastId += 1;
    this.socket.send(JSON.stringify({ type, id: String(this.lastId), data }));
  }

  /** @param {unknown} text */
  receive(text) {
    this.outside.clearTimer(this.silenceTimer);
    const frame = parsed(text);
    if (!frame) return;
    if (frame.type === "session.ready") {
      this.failures = 0;
      this.beat(Number(frame.data["heartbeat_s"] ?? 30) * 1000);
      this.become("open");
    }
    this.outside.onFrame(frame);
  }

  /** @param {number} code */
  afterClose(code) {
    const final = FINAL_CLOSE_CODES[code];
    if (final) {
      this.become(final);
      return;
    }
    this.failures += code === TOO_MANY_REQUESTS ? 4 : 1;
    this.become("lost");
    this.retryTimer = this.outside.setTimer(() => this.open(), backoffMs(this.failures, this.outside.random));
  }

  /** @param {number} everyMs */
  beat(everyMs) {
    this.outside.clearTimer(this.heartbeatTimer);
    this.heartbeatTimer = this.outside.setTimer(() => {
      this.send("ping", {});
      this.expectSign();
      this.beat(everyMs);
    }, everyMs);
  }

  /** A sign of life has to come within a few seconds; a dead network sends no close. */
  expectSign() {
    this.outside.clearTimer(this.silenceTimer);
    this.silenceTimer = this.outside.setTimer(() => this.reconnect(), SILENCE_MS);
  }

  drop() {
    this.outside.clearTimer(this.heartbeatTimer);
    this.outside.clearTimer(this.silenceTimer);
    this.socket = null;
  }

  /** @param {Connection} connection */
  become(connection) {
    if (this.connection === connection) return;
    this.connection = connection;
    this.outside.onConnection(connection);
  }
}

/**
 * @param {unknown} text
 * @returns {Frame | null}
 */
function parsed(text) {
  try {
    const frame = JSON.parse(String(text));
    return typeof frame?.type === "string" ? { ...frame, data: frame.data ?? {} } : null;
  } catch {
    return null;
  }
}
