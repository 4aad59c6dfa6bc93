/**
 * The one state of the inbox.
 *
 * @import { Saying } from "../texts.js"
 * @import { User } from "../wire.d.ts"
 * @import { Canned, InboxItem, SaidMessage } from "./wire.d.ts"
 */

/**
 * A toast is for a moment; `isFault` ones are read out at once.
 *
 * @typedef {{id: string, saying: Saying, isFault: boolean}} Toast
 */

/**
 * `opened` is the conversation that is looked at, null where there is none; `messages` are of it, the oldest first. `nowMs` moves
 * on every few seconds, for waiting times. `unseen` are conversations in which something was said that the agent has not looked at.
 *
 * @typedef {object} DeskState
 * @property {"starting" | "unreachable" | "signed_out" | "forbidden" | "signed_in"} phase
 * @property {Saying | null} signInNotice
 * @property {User | null} user
 * @property {boolean} isLive
 * @property {boolean} isRead whether the lists have come once
 * @property {readonly InboxItem[]} queued
 * @property {readonly InboxItem[]} human
 * @property {boolean} hasMore
 * @property {string | null} openedId
 * @property {InboxItem | null} opened
 * @property {readonly SaidMessage[]} messages
 * @property {string | null} earlierCursor
 * @property {boolean} isTyping whether the person writes
 * @property {ReadonlySet<string>} unseen
 * @property {readonly Canned[]} canned
 * @property {boolean} isCannedOpen
 * @property {boolean} isBusy an act is under way
 * @property {readonly Toast[]} toasts
 * @property {number} nowMs
 */

const NOTHING_OPEN = { openedId: null, opened: null, messages: [], earlierCursor: null, isTyping: false };

/** What a sign-in begins with. */
export const NOTHING_YET = Object.freeze({
  ...NOTHING_OPEN,
  isLive: false,
  isRead: false,
  queued: [],
  human: [],
  hasMore: false,
  unseen: new Set(),
  canned: [],
  isCannedOpen: false,
  isBusy: false,
  toasts: [],
});

/** @param {number} nowMs @returns {DeskState} */
export function initialState(nowMs) {
  return { ...NOTHING_YET, phase: "starting", signInNotice: null, user: null, nowMs };
}

/** @param {string | null} openedId @returns {Partial<DeskState>} */
export function opening(openedId) {
  return { ...NOTHING_OPEN, openedId };
}
