/**
 * A WebSocket that asks for its ticket first, with the face of one that is there at once: what `LiveSocket` uses of it.
 */

import { Refused } from "./door.js";

const UNAUTHENTICATED = 4001;
const GONE = 1006;

export class TicketedSocket {
  /**
   * @param {() => Promise<URL>} address
   * @param {(address: URL) => WebSocket} open
   */
  constructor(address, open) {
    this.openSocket = open;
    /** @type {WebSocket | null} */
    this.socket = null;
    this.isClosed = false;
    /** @type {((event: Event) => void) | null} */
    this.onopen = null;
    /** @type {((event: MessageEvent) => void) | null} */
    this.onmessage = null;
    /** @type {((event: {code: number}) => void) | null} */
    this.onclose = null;
    void this.connect(address);
  }

  get readyState() {
    return this.socket?.readyState ?? 0;
  }

  /** @param {string} text */
  send(text) {
    this.socket?.send(text);
  }

  close() {
    this.isClosed = true;
    this.socket?.close();
  }

  /** @param {() => Promise<URL>} address */
  async connect(address) {
    let found;
    try {
      found = await address();
    } catch (problem) {
      const isOver = problem instanceof Refused && problem.status === 401;
      this.onclose?.({ code: isOver ? UNAUTHENTICATED : GONE });
      return;
    }
    if (this.isClosed) return;
    const socket = this.openSocket(found);
    this.socket = socket;
    socket.onopen = (event) => this.onopen?.(event);
    socket.onmessage = (event) => this.onmessage?.(event);
    socket.onclose = (event) => this.onclose?.(event);
  }
}
