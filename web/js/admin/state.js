/**
 * The one state of the dashboard. Lists that only one section shows are that section's own.
 *
 * @import { Saying } from "../texts.js"
 * @import { User } from "../wire.d.ts"
 * @import { Liveness } from "./live.js"
 * @import { Section } from "./route.js"
 * @import { Stats } from "./wire.d.ts"
 */

/**
 * `beats` counts the seconds of which there are numbers: what is drawn from the history is drawn again when it changes.
 *
 * @typedef {object} AdminState
 * @property {"starting" | "unreachable" | "signed_out" | "forbidden" | "signed_in"} phase
 * @property {Saying | null} signInNotice
 * @property {User | null} user
 * @property {Section} section
 * @property {Liveness} liveness
 * @property {Stats | null} stats
 * @property {number} beats
 * @property {Saying | null} notice
 */

export const INITIAL_LIVE = Object.freeze({ liveness: /** @type {Liveness} */ ("connecting"), stats: null, beats: 0 });

/** @param {Section} section @returns {AdminState} */
export function initialState(section) {
  return { ...INITIAL_LIVE, phase: "starting", signInNotice: null, user: null, section, notice: null };
}
