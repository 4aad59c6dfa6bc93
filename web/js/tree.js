/**
 * Walks in the tree of a transcript: the path that is shown, the branches beside it, what is below. Pure.
 *
 * @import { Message } from "./wire.d.ts"
 * @import { Transcript } from "./transcript.js"
 */

import { isFinal } from "./message.js";

/**
 * The messages that are shown, from the first known one to the leaf.
 *
 * @param {Transcript} transcript
 * @param {string | null} [leafId]
 * @returns {Message[]}
 */
export function shownPath(transcript, leafId = transcript.leafId) {
  /** @type {Message[]} */
  const path = [];
  for (let id = leafId; id !== null; ) {
    const message = transcript.messages.get(id);
    if (!message) break;
    path.push(message);
    id = message.parent_id;
  }
  return path.reverse();
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
 * The answer being made on the shown path, if there is one: the last that is not over.
 *
 * @param {readonly Message[]} path
 */
export function runningAnswer(path) {
  return path.find((message) => message.role === "assistant" && !isFinal(message)) ?? null;
}
