// Who is signed in: signing out leaves nothing to the next person at this screen, in whatever order its signs arrive.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Refusal } from "../../web/js/api.js";
import { ENDED_NOTICE, Session } from "../../web/js/session.js";
import { initialState } from "../../web/js/state.js";
import { Store } from "../../web/js/store.js";

function made({ signOut = async () => undefined, call = async () => null } = {}) {
  const store = new Store({ ...initialState("t1"), currentId: "c1" }, () => undefined);
  const seen = { addresses: [], cleared: 0 };
  const session = new Session({ signOut, call }, store, {
    makeChat: () => ({
      start: () => undefined,
      stop: () => undefined,
      outbox: { clear: () => (seen.cleared += 1) },
      outside: { showAddress: (id) => seen.addresses.push(id) },
    }),
    tellTabs: () => undefined,
  });
  session.begin({ id: "u1", username: "ada", role: "user" });
  return { session, store, seen };
}

test("signing out forgets what waits and what was shown", async () => {
  const { session, store, seen } = made();
  await session.signOut();
  assert.deepEqual(seen, { addresses: [null], cleared: 1 });
  assert.equal(store.state.phase, "signed_out");
  assert.equal(store.state.currentId, null);
});

test("a socket that is closed before the reply to signing out comes changes nothing in that", async () => {
  const { session, store, seen } = made({ signOut: async () => session.end(ENDED_NOTICE) });
  await session.signOut();
  assert.deepEqual(seen, { addresses: [null], cleared: 1 });
  assert.equal(store.state.signInNotice, null);
  assert.equal(store.state.currentId, null);
});

/** @param {Record<string, any>} api */
function signedOut(api) {
  const store = new Store(initialState("t1"), () => undefined);
  const outside = { makeChat: () => ({ start: () => undefined, stop: () => undefined }), tellTabs: () => undefined };
  return { store, session: new Session(api, store, { ...outside, clearTimer: () => undefined }) };
}

test("an account of one's own is made and entered, or the reason why not is told", async () => {
  const user = { id: "u2", username: "bea", role: "user" };
  const { session, store } = signedOut({ signUp: async () => ({ user }) });
  assert.equal(await session.signUp("bea", "correct horse"), null);
  assert.deepEqual(store.state.user, user);
  const taken = new Refusal(409, "username_taken", "There is already an account 'bea'.", null);
  const refused = signedOut({ signUp: async () => Promise.reject(taken) });
  assert.equal((await refused.session.signUp("bea", "correct horse")).or, taken.detail);
});

test("a server that cannot say how people come in has a password field", async () => {
  const { session } = signedOut({ waysIn: async () => Promise.reject(new Error("away")) });
  assert.deepEqual(await session.waysIn(), { signup: "closed", oidc: null });
});

test("a way in that has failed is named above the form", async () => {
  const nobody = new Refusal(401, "unauthenticated", "Who?", null);
  for (const [query, key] of [["?signin=expired", "linkExpired"], ["?signin=oidc-failed", "oidcFailed"], ["", null]]) {
    const { session, store } = signedOut({ me: async () => Promise.reject(nobody) });
    await session.start(query);
    assert.equal(store.state.phase, "signed_out");
    assert.equal(store.state.signInNotice?.key ?? null, key);
  }
});

test("whoever deletes their account leaves nothing here, is told that it is gone, and is nobody from then on", async () => {
  const asked = [];
  const { session, store, seen } = made({
    call: async (...request) => {
      asked.push(request);
      session.end(ENDED_NOTICE);
    },
  });
  assert.equal(await session.deleteAccount("correct horse"), null);
  assert.deepEqual(asked, [["POST", "me/deletion", { body: { password: "correct horse" } }]]);
  assert.deepEqual(seen, { addresses: [null], cleared: 1 });
  assert.deepEqual([store.state.phase, store.state.signInNotice, store.state.user], ["signed_out", { key: "accountDeleted" }, null]);
});

test("an account that the server does not delete stays signed in, with the reason", async () => {
  const wrong = new Refusal(403, "wrong_password", "The password is wrong.", null);
  const { session, store, seen } = made({ call: async () => Promise.reject(wrong) });
  assert.equal((await session.deleteAccount(null))?.key, "problem.wrong_password");
  assert.deepEqual([store.state.phase, seen.cleared], ["signed_in", 0]);
});
