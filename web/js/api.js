/**
 * The REST side of the server, `/api/v1`: every command of the page goes through here, because a reply with a status and an
 * idempotency key can be asked for again after a lost connection. Called by `chat.js`, `commands.js` and `sender.js`.
 *
 * @import { Saying } from "./texts.js"
 * @import { Accepted, Beginning, Conversation, Persona, Listing, MessageListing, Rated, User, WaysIn, WireResponse } from "./wire.d.ts"
 */

const TIMEOUT_MS = 20_000;
const IMPORT_TIMEOUT_MS = 300_000;
/** What to wait where the server does not say how long. */
const WAIT_S = 10;

/** The server answered, and said no. `detail` is a sentence for people. */
export class Refusal extends Error {
  /**
   * @param {number} status
   * @param {string} code
   * @param {string} detail
   * @param {number | null} retryAfterS
   */
  constructor(status, code, detail, retryAfterS) {
    super(detail);
    this.name = "Refusal";
    this.status = status;
    this.code = code;
    this.detail = detail;
    this.retryAfterS = retryAfterS;
  }
}

/** No answer came: the network, a restart, or a proxy. The command may or may not have been carried out. */
export class Unreachable extends Error {
  constructor() {
    super("The server cannot be reached.");
    this.name = "Unreachable";
  }
}

/**
 * What to tell people, and what they can do: in our words where there are some for the code (`texts/problems.js`), else in the
 * server's.
 *
 * @param {unknown} problem
 * @returns {Saying}
 */
export function messageOf(problem) {
  if (problem instanceof Unreachable) return { key: "problem.unreachable" };
  if (!(problem instanceof Refusal)) return problem instanceof Error ? problem.message : String(problem);
  const { code, detail, retryAfterS } = problem;
  return { key: `problem.${code}`, values: { detail, wait_s: retryAfterS ?? WAIT_S }, or: detail };
}

/**
 * Where a conversation is downloaded from, as a file.
 *
 * @param {string} conversationId
 * @param {"json" | "ndjson" | "markdown"} format
 */
export function exportAddress(conversationId, format) {
  return `/api/v1/conversations/${encodeURIComponent(conversationId)}/export?format=${format}`;
}

/** One method per route. Raises Refusal or Unreachable and nothing else. */
export class Api {
  /** @param {typeof globalThis.fetch} fetch */
  constructor(fetch) {
    this.fetch = fetch;
  }

  /** @returns {Promise<User>} */
  me() {
    return this.call("GET", "me");
  }

  /**
   * @param {string} username
   * @param {string} password
   * @returns {Promise<{user: User}>}
   */
  signIn(username, password) {
    return this.call("POST", "auth/login", { body: { username, password } });
  }

  /**
   * @param {string} username
   * @param {string} password
   * @returns {Promise<{user: User}>}
   */
  signUp(username, password) {
    return this.call("POST", "auth/signup", { body: { username, password } });
  }

  /** @returns {Promise<WaysIn>} */
  waysIn() {
    return this.call("GET", "auth/ways");
  }

  signOut() {
    return this.call("POST", "auth/logout");
  }

  /**
   * One's own conversations, the one that changed last first; with `q` those that have all its words.
   *
   * @param {{cursor?: string | null, archived?: boolean | null, tag?: string | null, q?: string | null}} [wanted]
   * @returns {Promise<Listing<Conversation>>}
   */
  conversations({ cursor = null, archived = false, tag = null, q = null } = {}) {
    const query = new URLSearchParams({ limit: "30" });
    if (archived !== null) query.set("archived", String(archived));
    if (tag !== null) query.set("tag", tag);
    if (q !== null) query.set("q", q);
    if (cursor !== null) query.set("cursor", cursor);
    return this.call("GET", `conversations?${query}`);
  }

  /**
   * @param {string} id
   * @returns {Promise<Conversation>}
   */
  conversation(id) {
    return this.call("GET", `conversations/${encodeURIComponent(id)}`);
  }

  /**
   * @param {string} idempotencyKey
   * @param {Beginning} [beginning]
   * @returns {Promise<Conversation>}
   */
  createConversation(idempotencyKey, { persona, temporary } = { persona: null, temporary: false }) {
    const body = { ...(persona === null ? {} : { persona }), ...(temporary ? { temporary } : {}) };
    return this.call("POST", "conversations", { body, idempotencyKey });
  }

  /**
   * @param {string} id
   * @param {number} version the version this change is based on
   * @param {Partial<Pick<Conversation, "title" | "archived" | "tags" | "temporary">>} change
   * @returns {Promise<Conversation>}
   */
  changeConversation(id, version, change) {
    const headers = { "If-Match": `"${version}"` };
    return this.call("PATCH", `conversations/${encodeURIComponent(id)}`, { body: change, headers });
  }

  /**
   * @param {Blob} file what an export gave
   * @param {string} mediaType
   * @param {string} idempotencyKey
   * @returns {Promise<Conversation>}
   */
  importConversation(file, mediaType, idempotencyKey) {
    return this.call("POST", "conversations/import", { file, headers: { "Content-Type": mediaType }, idempotencyKey, timeoutMs: IMPORT_TIMEOUT_MS });
  }

  /** Asks for a person to answer. @param {string} id @returns {Promise<Conversation>} */
  askForPerson(id) {
    return this.call("POST", `conversations/${encodeURIComponent(id)}/handoff`, { body: {} });
  }

  /** Waits for a person no longer. @param {string} id @returns {Promise<Conversation>} */
  waitNoLonger(id) {
    return this.call("DELETE", `conversations/${encodeURIComponent(id)}/handoff`);
  }

  /**
   * What one thinks of an answer, in place of what one thought before.
   *
   * @param {string} messageId
   * @param {Rated | null} rated null takes it back
   */
  rate(messageId, rated) {
    const path = `messages/${encodeURIComponent(messageId)}/feedback`;
    return rated === null ? this.call("DELETE", path) : this.call("PUT", path, { body: rated });
  }

  /** @returns {Promise<Listing<Persona>>} */
  personas() {
    return this.call("GET", "personas?limit=200");
  }

  /** @param {string} id */
  deleteConversation(id) {
    return this.call("DELETE", `conversations/${encodeURIComponent(id)}`);
  }

  /**
   * @param {string} conversationId
   * @param {{leaf?: string | null, cursor?: string | null, limit?: number}} [options]
   * @returns {Promise<MessageListing>}
   */
  messages(conversationId, { leaf = null, cursor = null, limit = 50 } = {}) {
    const query = new URLSearchParams({ limit: String(limit) });
    if (leaf !== null) query.set("leaf", leaf);
    if (cursor !== null) query.set("cursor", cursor);
    return this.call("GET", `conversations/${encodeURIComponent(conversationId)}/messages?${query}`);
  }

  /**
   * @param {string} conversationId
   * @param {{content: string, parent_id?: string | null, client_message_id: string}} message
   * @returns {Promise<Accepted>}
   */
  createMessage(conversationId, message) {
    return this.call("POST", `conversations/${encodeURIComponent(conversationId)}/messages`, { body: message });
  }

  /**
   * @param {string} conversationId
   * @param {string} userMessageId
   * @param {string} idempotencyKey
   * @returns {Promise<Accepted>}
   */
  regenerate(conversationId, userMessageId, idempotencyKey) {
    const path = `conversations/${encodeURIComponent(conversationId)}/responses`;
    return this.call("POST", path, { body: { parent_id: userMessageId }, idempotencyKey });
  }

  /**
   * @param {string} id
   * @returns {Promise<WireResponse>}
   */
  response(id) {
    return this.call("GET", `responses/${encodeURIComponent(id)}`);
  }

  /** @param {string} id */
  cancel(id) {
    return this.call("POST", `responses/${encodeURIComponent(id)}/cancel`);
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {{body?: unknown, file?: Blob, idempotencyKey?: string, headers?: Record<string, string>, timeoutMs?: number}} [options]
   * @returns {Promise<any>}
   */
  async call(method, path, { body, file, idempotencyKey, headers = {}, timeoutMs = TIMEOUT_MS } = {}) {
    const sent = new Headers({ Accept: "application/json", ...headers });
    if (body !== undefined) sent.set("Content-Type", "application/json");
    if (idempotencyKey !== undefined) sent.set("Idempotency-Key", idempotencyKey);
    let status, text, retryAfter;
    try {
      const reply = await this.fetch(`/api/v1/${path}`, {
        method,
        headers: sent,
        credentials: "same-origin",
        signal: AbortSignal.timeout(timeoutMs),
        ...(file !== undefined ? { body: file } : body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      status = reply.status;
      retryAfter = Number.parseInt(reply.headers.get("Retry-After") ?? "", 10);
      text = await reply.text();
    } catch {
      throw new Unreachable();
    }
    const content = parsed(text);
    if (status >= 200 && status < 300) return content;
    const detail = sentence(String(content?.detail ?? content?.title ?? `The server answered ${status}`));
    throw new Refusal(status, String(content?.code ?? "unknown"), detail, Number.isNaN(retryAfter) ? null : retryAfter);
  }
}

/**
 * The server's details are for logs too, and written without a capital and a full stop.
 *
 * @param {string} detail
 */
function sentence(detail) {
  const text = detail.charAt(0).toUpperCase() + detail.slice(1);
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

/** @param {string} text */
function parsed(text) {
  try {
    return text === "" ? null : JSON.parse(text);
  } catch {
    return null;
  }
}
