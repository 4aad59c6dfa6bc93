/**
 * One conversation as the page holds it: a tree of messages and the answers growing in it.
 *
 * Pure: a frame or a listing goes in, a new transcript comes out; no socket, no clock, no DOM. Two laws: the frames of an
 * answer are applied in the order of `seq`, each once, whatever is replayed; and an answer is over only when a terminal
 * frame, or a stored message with a final status, says so.
 *
 * @import { Accepted, Frame, Message, MessageListing, ResumePoint } from "./wire.d.ts"
 */

import { advanced, isFinal, merged, placeholder, union } from "./message.js";

/**
 * `held` are frames of answers that are not in the tree yet: they wait for the listing. `leafId` is the end of the path that
 * is shown, `newestId` the newest message of the whole tree.
 *
 * @typedef {object} Transcript
 * @property {string} conversationId
 * @property {ReadonlyMap<string, Message>} messages
 * @property {ReadonlyMap<string, string>} messageOfResponse
 * @property {readonly string[]} roots
 * @property {string | null} leafId
 * @property {string | null} newestId
 * @property {string | null} earlierCursor
 * @property {boolean} isLoaded
 * @property {ReadonlyMap<string, readonly Frame[]>} held
 */

const HELD_FRAMES_MAX = 5000;

/**
 * @param {string} conversationId
 * @returns {Transcript}
 */
export function emptyTranscript(conversationId) {
  return {
    conversationId,
    messages: new Map(),
    messageOfResponse: new Map(),
    roots: [],
    leafId: null,
    newestId: null,
    earlierCursor: null,
    isLoaded: false,
    held: new Map(),
  };
}

/**
 * A listing of the path to a leaf. `earlier` marks a further page of a path that is shown already; otherwise its first
 * item becomes the leaf, and with `isNewest` the newest message too.
 *
 * @param {Transcript} transcript
 * @param {MessageListing} listing
 * @param {{earlier?: boolean, isNewest?: boolean}} [options]
 * @returns {Transcript}
 */
export function withListing(transcript, listing, { earlier = false, isNewest = true } = {}) {
  const messages = new Map(transcript.messages);
  for (const item of listing.items) messages.set(item.id, merged(messages.get(item.id), item));
  let next = indexed({ ...transcript, messages, roots: union(transcript.roots, listing.roots ?? []), isLoaded: true });
  const leafId = listing.items[0]?.id ?? null;
  if (earlier) {
    next = { ...next, earlierCursor: listing.next_cursor };
  } else {
    next = { ...next, leafId, earlierCursor: cursorAbove(transcript, messages, listing) };
    if (isNewest) next = { ...next, newestId: leafId };
  }
  return withHeldFrames(next);
}

/**
 * A message the server has accepted, with the answer it makes, or only an answer (regenerate). Seen twice, it is one message.
 *
 * @param {Transcript} transcript
 * @param {Partial<Accepted>} accepted
 * @returns {Transcript}
 */
export function withAccepted(transcript, { message, response }) {
  let next = transcript;
  if (message) next = withMessage(next, message);
  if (response && !next.messages.has(response.message_id)) next = withMessage(next, placeholder(response));
  return withHeldFrames(next);
}

/**
 * A frame of a response's log. `gap` says that frames before it are missing: the caller asks for the tail again.
 *
 * @param {Transcript} transcript
 * @param {Frame} frame
 * @returns {{transcript: Transcript, gap: boolean}}
 */
export function withFrame(transcript, frame) {
  const { response_id: responseId, seq } = frame;
  if (responseId === undefined || seq === undefined) return { transcript, gap: false };
  const message = transcript.messages.get(transcript.messageOfResponse.get(responseId) ?? "");
  if (!message) return { transcript: withHeld(transcript, responseId, frame), gap: false };
  if (seq <= message.last_seq) return { transcript, gap: false };
  if (seq > message.last_seq + 1) return { transcript, gap: true };
  const messages = new Map(transcript.messages).set(message.id, advanced(message, frame, seq));
  return { transcript: { ...transcript, messages }, gap: false };
}

/**
 * The messages that are shown, from the first known one to the leaf.
 *
 * @param {Transcript} transcript
 * @param {string | null} [leafId]
 * @returns {Message[]}
 */
export function shownPath(transcript, leafId = transcript.leafId) {
  return pathTo(transcript.messages, leafId);
}

/**
 * Where a message stands among its siblings; null where it has none.
 *
 * @param {Transcript} transcript
 * @param {Message} message
 * @returns {{index: number, count: number, previousId: string | null, nextId: string | null} | null}
 */
export function siblingsOf(transcript, message) {
  const parent = message.parent_id === null ? null : transcript.messages.get(message.parent_id);
  const ids = message.parent_id === null ? transcript.roots : parent?.children ?? [];
  const index = ids.indexOf(message.id);
  if (ids.length < 2 || index < 0) return null;
  return { index, count: ids.length, previousId: ids[index - 1] ?? null, nextId: ids[index + 1] ?? null };
}

/**
 * The newest message below one, by the tree that is known; itself where nothing is below it.
 *
 * @param {Transcript} transcript
 * @param {string} messageId
 * @returns {{leafId: string, isKnown: boolean}}
 */
export function newestBelow(transcript, messageId) {
  let id = messageId;
  for (;;) {
    const message = transcript.messages.get(id);
    if (!message) return { leafId: id, isKnown: false };
    const last = message.children.at(-1);
    if (last === undefined) return { leafId: id, isKnown: true };
    id = last;
  }
}

/**
 * @param {Transcript} transcript
 * @param {string | null} leafId
 * @returns {Transcript}
 */
export function withLeaf(transcript, leafId) {
  return { ...transcript, leafId };
}

/**
 * Gives up what was read of an answer, because the server cannot go on from there: the next listing decides what it holds.
 * Its frames are held until then.
 *
 * @param {Transcript} transcript
 * @param {string} responseId
 * @returns {Transcript}
 */
export function withForgotten(transcript, responseId) {
  const message = transcript.messages.get(transcript.messageOfResponse.get(responseId) ?? "");
  if (!message) return transcript;
  const messages = new Map(transcript.messages).set(message.id, { ...message, status: "in_progress", last_seq: -1 });
  const messageOfResponse = new Map(transcript.messageOfResponse);
  messageOfResponse.delete(responseId);
  return { ...transcript, messages, messageOfResponse };
}

/**
 * Where each answer that is not over has been read up to.
 *
 * @param {Transcript} transcript
 * @returns {ResumePoint[]}
 */
export function resumePoints(transcript) {
  return [...transcript.messages.values()]
    .filter((message) => message.response_id !== null && !isFinal(message) && message.last_seq >= 0)
    .map((message) => ({ response_id: String(message.response_id), last_seq: message.last_seq }));
}

/**
 * The answer being made on the shown path, if there is one: the last that is not over.
 *
 * @param {readonly Message[]} path
 */
export function runningAnswer(path) {
  return path.find((message) => message.role === "assistant" && !isFinal(message)) ?? null;
}

/**
 * @param {ReadonlyMap<string, Message>} messages
 * @param {string | null} leafId
 */
function pathTo(messages, leafId) {
  /** @type {Message[]} */
  const path = [];
  for (let id = leafId; id !== null; ) {
    const message = messages.get(id);
    if (!message) break;
    path.push(message);
    id = message.parent_id;
  }
  return path.reverse();
}

/**
 * Where the path above goes on. Pages that were loaded before stay, so the new page's own cursor may lead to known ground.
 *
 * @param {Transcript} before
 * @param {ReadonlyMap<string, Message>} messages
 * @param {MessageListing} listing
 */
function cursorAbove(before, messages, listing) {
  const top = pathTo(messages, listing.items[0]?.id ?? null)[0];
  if (!top || top.parent_id === null) return null;
  const isTopAsBefore = top.id === pathTo(before.messages, before.leafId)[0]?.id;
  return isTopAsBefore ? before.earlierCursor ?? listing.next_cursor : listing.next_cursor;
}

/**
 * Adds one message to the tree. The shown path follows it where the person was looking at its parent or at the newest end.
 *
 * @param {Transcript} transcript
 * @param {Message} message
 * @returns {Transcript}
 */
function withMessage(transcript, message) {
  const isKnown = transcript.messages.has(message.id);
  const messages = new Map(transcript.messages);
  messages.set(message.id, merged(messages.get(message.id), message));
  let { roots, leafId, newestId } = transcript;
  const parent = message.parent_id === null ? undefined : messages.get(message.parent_id);
  if (parent) messages.set(parent.id, { ...parent, children: union(parent.children, [message.id]) });
  if (message.parent_id === null) roots = union(roots, [message.id]);
  if (!isKnown) {
    const isWatched = leafId === null || leafId === newestId || leafId === message.parent_id;
    if (isWatched) leafId = message.id;
    newestId = message.id;
  }
  return indexed({ ...transcript, messages, roots, leafId, newestId });
}

/**
 * @param {Transcript} transcript
 * @returns {Transcript}
 */
function indexed(transcript) {
  const messageOfResponse = new Map(transcript.messageOfResponse);
  for (const message of transcript.messages.values()) {
    if (message.response_id !== null && message.role === "assistant") messageOfResponse.set(message.response_id, message.id);
  }
  return { ...transcript, messageOfResponse };
}

/**
 * @param {Transcript} transcript
 * @param {string} responseId
 * @param {Frame} frame
 * @returns {Transcript}
 */
function withHeld(transcript, responseId, frame) {
  const frames = transcript.held.get(responseId) ?? [];
  if (frames.length >= HELD_FRAMES_MAX) return transcript;
  return { ...transcript, held: new Map(transcript.held).set(responseId, [...frames, frame]) };
}

/**
 * @param {Transcript} transcript
 * @returns {Transcript}
 */
function withHeldFrames(transcript) {
  let next = transcript;
  for (const [responseId, frames] of transcript.held) {
    if (!next.messageOfResponse.has(responseId)) continue;
    const held = new Map(next.held);
    held.delete(responseId);
    next = { ...next, held };
    const inOrder = [...frames].sort((a, b) => (a.seq ?? 0) - (b.seq ?? 0));
    for (const frame of inOrder) next = withFrame(next, frame).transcript;
  }
  return next;
}
