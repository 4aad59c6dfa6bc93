/**
 * REST as a visitor: what the widget looks like, coming in, tickets, conversations. Keeps the bearer token, and nothing longer.
 *
 * @import { Look, SignIn, VisitorConversation } from "./wire.d.ts"
 * @import { MessageListing } from "../js/wire.d.ts"
 */

const CALL_TIMEOUT_MS = 20_000;

/** The server has answered, and not with what was asked for. `status` 0: it could not be reached. */
export class Refused extends Error {
  /**
   * @param {number} status
   * @param {string} code
   * @param {number | null} retryAfterS
   */
  constructor(status, code, retryAfterS) {
    super(`${status} ${code}`);
    this.status = status;
    this.code = code;
    this.retryAfterS = retryAfterS;
  }
}

export class Door {
  /**
   * @param {URL} base where the script came from
   * @param {string} widgetId
   * @param {typeof fetch} send
   */
  constructor(base, widgetId, send) {
    this.base = base;
    this.path = `api/v1/widgets/${encodeURIComponent(widgetId)}`;
    this.send = send;
    this.token = "";
    this.entries = 0;
  }

  /** @returns {Promise<Look>} */
  look() {
    return this.call("GET", "look");
  }

  /**
   * @param {{token?: string, visitor_key?: string}} entry
   * @returns {Promise<SignIn>}
   */
  async enter(entry) {
    this.token = "";
    this.entries += 1;
    const mine = this.entries;
    const signedIn = await this.call("POST", "visitors", entry);
    // Whoever came in last is who is here, whichever answer came last.
    if (mine === this.entries) this.token = signedIn.token;
    return signedIn;
  }

  /** Where a socket opens, once. */
  async socketAddress() {
    const { ticket } = await this.call("POST", "tickets", {});
    const address = new URL("ws", this.base);
    address.protocol = this.base.protocol === "https:" ? "wss:" : "ws:";
    address.searchParams.set("ticket", ticket);
    return address;
  }

  /** The one updated last, if there is any. @returns {Promise<VisitorConversation | null>} */
  async newestConversation() {
    const page = await this.call("GET", "conversations?limit=1");
    return page.items[0] ?? null;
  }

  /**
   * @param {string} idempotencyKey
   * @returns {Promise<VisitorConversation>}
   */
  beginConversation(idempotencyKey) {
    return this.call("POST", "conversations", {}, idempotencyKey);
  }

  /**
   * @param {string} conversationId
   * @param {string | null} cursor
   * @returns {Promise<MessageListing>}
   */
  messages(conversationId, cursor = null) {
    const query = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    return this.call("GET", `conversations/${encodeURIComponent(conversationId)}/messages?limit=50${query}`);
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {unknown} [body]
   * @param {string} [idempotencyKey]
   * @returns {Promise<any>}
   */
  async call(method, path, body, idempotencyKey) {
    const headers = new Headers();
    if (body !== undefined) headers.set("Content-Type", "application/json");
    if (this.token) headers.set("Authorization", `Bearer ${this.token}`);
    if (idempotencyKey !== undefined) headers.set("Idempotency-Key", idempotencyKey);
    let reply;
    let content;
    try {
      reply = await this.send(new URL(`${this.path}/${path}`, this.base), {
        method,
        headers,
        // Never with cookies: a page of others must not act as who is signed in at the server.
        credentials: "omit",
        signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      content = await reply.json();
    } catch {
      throw new Refused(0, "unreachable", null);
    }
    if (reply.ok) return content;
    const wait = Number.parseInt(reply.headers.get("Retry-After") ?? "", 10);
    throw new Refused(reply.status, String(content?.code ?? "unknown"), Number.isNaN(wait) ? null : wait);
  }
}
