/**
 * One message of a conversation: how it grows with the frames of its answer, and how two views of it become one.
 *
 * Pure; `transcript.js` is its only caller beside the views.
 *
 * @import { Saying } from "./texts.js"
 * @import { Accepted, Frame, Message, WireMessage } from "./wire.d.ts"
 */

const TERMINAL_STATUS = /** @type {const} */ ({
  "response.completed": "completed",
  "response.incomplete": "incomplete",
  "response.cancelled": "cancelled",
  "response.failed": "failed",
  "response.interrupted": "interrupted",
});

/** @param {Pick<Message, "status">} message */
export function isFinal(message) {
  return message.status !== "queued" && message.status !== "in_progress";
}

/**
 * The message after the next frame of its answer. A type this page does not know only moves `last_seq`.
 *
 * @param {Message} message
 * @param {Frame} frame
 * @param {number} seq
 * @returns {Message}
 */
export function advanced(message, frame, seq) {
  const { type, data } = frame;
  const next = { ...message, last_seq: seq };
  if (type === "response.queued") return { ...next, status: "queued", position: data.position ?? null };
  if (type === "response.in_progress") {
    const progress = { phase: String(data.phase), done: Number(data.done ?? 0), total: Number(data.total ?? 0) };
    return { ...next, status: "in_progress", position: null, progress };
  }
  if (type === "response.output_text.delta") {
    return { ...next, status: "in_progress", position: null, progress: null, content: message.content + data.text };
  }
  if (Object.hasOwn(TERMINAL_STATUS, type)) {
    const status = TERMINAL_STATUS[/** @type {keyof typeof TERMINAL_STATUS} */ (type)];
    const usage = data.usage ?? message.usage;
    return { ...next, status, usage, error: data.error ?? null, position: null, progress: null };
  }
  return next;
}

/**
 * Two views of one message: the one that has read further wins, and neither loses a child the other knows.
 *
 * @param {Message | undefined} known
 * @param {WireMessage} incoming
 * @returns {Message}
 */
export function merged(known, incoming) {
  if (!known) return incoming;
  const children = union(incoming.children, known.children);
  const isBehind = incoming.last_seq < known.last_seq || (isFinal(known) && !isFinal(incoming));
  if (isBehind) return { ...known, children };
  const isSameMoment = incoming.last_seq === known.last_seq && incoming.status === known.status;
  if (isSameMoment) return { ...known, ...incoming, error: incoming.error ?? known.error ?? null, children };
  return { ...incoming, children };
}

/**
 * The message of an answer that has been accepted and has no text yet.
 *
 * @param {NonNullable<Accepted["response"]>} response
 * @returns {Message}
 */
export function placeholder(response) {
  return {
    id: response.message_id,
    parent_id: response.parent_id,
    role: "assistant",
    content: "",
    status: "queued",
    usage: null,
    created_at: "",
    children: [],
    response_id: response.id,
    last_seq: 0,
  };
}

/**
 * @param {readonly string[]} known
 * @param {readonly string[]} more
 */
export function union(known, more) {
  return more.every((id) => known.includes(id)) ? [...known] : [...new Set([...known, ...more])];
}

/**
 * What a screen reader says when an answer has ended.
 *
 * @param {Message} message
 * @returns {Saying}
 */
export function spoken({ status, content }) {
  const keys = { completed: "spokenCompleted", cancelled: "spokenCancelled", incomplete: "spokenIncomplete" };
  return { key: keys[/** @type {keyof typeof keys} */ (status)] ?? "spokenFailed", values: { content } };
}
