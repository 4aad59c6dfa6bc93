/**
 * How somebody comes in, whichever page it is: used by the chat's session and that of the pages for some.
 *
 * @import { Api } from "./api.js"
 * @import { Saying } from "./texts.js"
 * @import { WaysIn } from "./wire.d.ts"
 */

import { Refusal, messageOf } from "./api.js";

/** A server that cannot be asked has a password field all the same. @param {Api} api @returns {Promise<WaysIn>} */
export async function waysIn(api) {
  try {
    return await api.waysIn();
  } catch {
    return { signup: "closed", oidc: null };
  }
}

/** Why signing in or up was refused. @param {unknown} problem @returns {Saying} */
export function refusedSignIn(problem) {
  if (!(problem instanceof Refusal)) return messageOf(problem);
  if (problem.status === 401) return { key: "wrong" };
  if (problem.status === 429) return { key: "tooManyTries", values: { wait_s: problem.retryAfterS ?? 60 } };
  return messageOf(problem);
}
