// Who is signed in: signing out leaves nothing to the next person at this screen, in whatever order its signs arrive.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ENDED_NOTICE, Session } from "../../web/js/session.js";
import { initialState } from "../../web/js/state.js";
import { Store } from "../../web/js/store.js";

function made({ signOut = async () => undefined } = {}) {
  const store = new Store({ ...initialState("t1"), currentId: "c1" }, () => undefined);
  const seen = { addresses: [], cleared: 0 };
  const session = new Session({ signOut }, store, {
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
