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
import { newestBelow, shownPath } from "./tree.js";

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
 * The first page of the path to a leaf, which becomes the shown one, and with `isNewest` the newest too. Where the leaf is not
 * any more the one that was shown when the page was asked for (`askedAtLeaf`), something newer has come, and it stays.
 *
 * @param {Transcript} transcript
 * @param {MessageListing} listing
 * @param {{askedAtLeaf: string | null, isNewest: boolean}} options
 * @returns {Transcript}
 */
export function withListing(transcript, listing, { askedAtLeaf, isNewest }) {
  const known = withItems(transcript, listing);
  if (transcript.leafId !== askedAtLeaf) {
    const hasTop = shownPath(known).at(0)?.parent_id === null;
    return withHeldFrames({ ...known, earlierCursor: hasTop ? null : listing.next_cursor });
  }
  const leafId = listing.items[0]?.id ?? null;
  const newestId = isNewest ? leafId : transcript.newestId;
  return withHeldFrames({ ...known, leafId, newestId, earlierCursor: cursorAbove(transcript, known, listing) });
}

/**
 * A further page above the path that is shown.
 *
 * @param {Transcript} transcript
 * @param {MessageListing} listing
 * @returns {Transcript}
 */
export function withEarlier(transcript, listing) {
  return withHeldFrames({ ...withItems(transcript, listing), earlierCursor: listing.next_cursor });
}

/**
 * @param {Transcript} transcript
 * @param {MessageListing} listing
 */
function withItems(transcript, listing) {
  const messages = new Map(transcript.messages);
  for (const item of listing.items) messages.set(item.id, merged(messages.get(item.id), item));
  return indexed({ ...transcript, messages, roots: union(listing.roots ?? [], transcript.roots), isLoaded: true });
}

/**
 * A message the server has accepted, with the answer it makes, or only an answer (regenerate). Seen twice, it is one message.
 * What was asked for on this page (`isMine`) is shown, whatever branch was.
 *
 * @param {Transcript} transcript
 * @param {Partial<Accepted>} accepted
 * @param {{isMine: boolean}} options
 * @returns {Transcript}
 */
export function withAccepted(transcript, { message, response }, { isMine }) {
  let next = transcript;
  if (message) next = withMessage(next, message);
  if (response && !next.messages.has(response.message_id)) next = withMessage(next, placeholder(response));
  const wantedId = response?.message_id ?? message?.id;
  if (isMine && wantedId !== undefined && !shownPath(next).some((shown) => shown.id === wantedId)) {
    next = withLeaf(next, newestBelow(next, wantedId).leafId);
  }
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
 * @param {Transcript} transcript
 * @param {string | null} leafId
 * @returns {Transcript}
 */
export function withLeaf(transcript, leafId) {
  return { ...transcript, leafId };
}

/**
 * @param {Transcript} transcript
 * @param {string} messageId
 * @param {Partial<Message>} change
 * @returns {Transcript}
 */
export function withMessageChange(transcript, messageId, change) {
  const message = transcript.messages.get(messageId);
  if (!message) return transcript;
  return { ...transcript, messages: new Map(transcript.messages).set(messageId, { ...message, ...change }) };
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
 * Where the path above goes on. Pages that were loaded before stay, so the new page's own cursor may lead to known ground.
 *
 * @param {Transcript} before
 * @param {Transcript} after
 * @param {MessageListing} listing
 */
function cursorAbove(before, after, listing) {
  const top = shownPath(after, listing.items[0]?.id ?? null)[0];
  if (!top || top.parent_id === null) return null;
  const isTopAsBefore = top.id === shownPath(before)[0]?.id;
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
