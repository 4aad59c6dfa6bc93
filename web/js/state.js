/**
 * What the page knows, as one value: its shape and its beginning. Pure.
 *
 * @import { ConversationList } from "./conversations.js"
 * @import { Found } from "./finding.js"
 * @import { SettingsPageName } from "./route.js"
 * @import { Connection } from "./socket.js"
 * @import { Saying } from "./texts.js"
 * @import { Transcript } from "./transcript.js"
 * @import { Beginning, Conversation, Persona, Unsent, User } from "./wire.d.ts"
 */

import { EMPTY_LIST } from "./conversations.js";

/** The `problem` of a conversation that was deleted, here or elsewhere, or never was. */
/** @type {Saying} */
export const GONE = Object.freeze({ key: "gone" });

/**
 * `currentId` is the conversation that is shown, null a new one. `threadId` names what is on the screen, and stays when a new
 * one gets its id. `problem` says why it cannot be shown. `known` are conversations by id, listed or not; `found` is what a
 * search or a filter shows in place of the list; `beginning` is what the next new chat begins with; `wanted` is the message to
 * be scrolled to. `settings` is the page of settings that is shown instead. `notice` is one sentence for a moment;
 * `announcement` is for screen readers only.
 *
 * @typedef {object} State
 * @property {"starting" | "unreachable" | "signed_out" | "signed_in"} phase
 * @property {Saying | null} signInNotice
 * @property {User | null} user
 * @property {Connection} connection
 * @property {ConversationList} list
 * @property {ReadonlyMap<string, Conversation>} known
 * @property {Found | null} found
 * @property {SettingsPageName | null} settings
 * @property {Beginning} beginning
 * @property {readonly Persona[]} personas
 * @property {{messageId: string, isFocusWanted: boolean} | null} wanted
 * @property {{conversationId: string, name: string, at: number} | null} typing the person who writes in the model's place
 * @property {string | null} currentId
 * @property {string} threadId
 * @property {ReadonlyMap<string, Transcript>} transcripts
 * @property {Saying | null} problem
 * @property {readonly Unsent[]} unsent
 * @property {Saying | null} notice
 * @property {Saying} announcement
 */

/** A chat of no persona, that stays. @type {Beginning} */
export const PLAIN = Object.freeze({ persona: null, temporary: false });

/**
 * @param {string} threadId
 * @returns {State}
 */
export function initialState(threadId) {
  return {
    phase: "starting",
    signInNotice: null,
    user: null,
    connection: "closed",
    list: EMPTY_LIST,
    known: new Map(),
    found: null,
    settings: null,
    beginning: PLAIN,
    personas: [],
    wanted: null,
    typing: null,
    currentId: null,
    threadId,
    transcripts: new Map(),
    problem: null,
    unsent: [],
    notice: null,
    announcement: "",
  };
}

/**
 * The messages that wait in what is shown, in the order they were written.
 *
 * @param {State} state
 */
export function unsentHere({ unsent, currentId, threadId }) {
  return unsent.filter((one) =>
    currentId === null ? one.conversation_id === null && one.thread_id === threadId : one.conversation_id === currentId,
  );
}
