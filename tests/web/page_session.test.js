// Who is signed in on a page that is only for some: the dashboard and the inbox begin and end with it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Refusal } from "../../web/js/api.js";
import { PageSession } from "../../web/js/page_session.js";
import { Store } from "../../web/js/store.js";
import { Clock } from "./support.js";

const AGENT = { id: "u1", username: "ada", role: "agent" };
const NOBODY = new Refusal(401, "unauthenticated", "Who?", null);

function made(api) {
  const clock = new Clock();
  const store = new Store({ phase: "starting", signInNotice: null, user: null, list: ["old"] }, () => undefined);
  const seen = [];
  const session = new PageSession(api, store, {
    isFor: (user) => user.role === "agent",
    blank: { list: [] },
    begin: () => seen.push("begin"),
    end: () => seen.push("end"),
    tellTabs: (message) => seen.push(message),
    setTimer: clock.setTimer,
    clearTimer: clock.clearTimer,
    random: () => 0.5,
  });
  return { session, store, seen, clock };
}

const refuses = (problem) => async () => Promise.reject(problem);

test("whom the page is for goes on, others are told so, and nobody signs in", async () => {
  const answers = [[async () => AGENT, "signed_in", ["end", "begin"]], [async () => ({ ...AGENT, role: "user" }), "forbidden", ["end"]], [refuses(NOBODY), "signed_out", []]];
  for (const [me, phase, expected] of answers) {
    const { session, store, seen } = made({ me });
    await session.start();
    assert.deepEqual([store.state.phase, seen], [phase, expected]);
  }
});

test("a server that does not answer is asked again", async () => {
  const tries = [refuses(new Error("away")), async () => AGENT];
  const { session, store, clock } = made({ me: () => tries.shift()() });
  await session.start();
  assert.equal(store.state.phase, "unreachable");
  clock.advance(10_000);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(store.state.phase, "signed_in");
});

test("a sign-in that is refused says why", async () => {
  const busy = new Refusal(429, "rate_limited", "Slow", 7);
  const { session } = made({ signIn: refuses(busy) });
  assert.deepEqual(await session.signIn("ada", "x"), { key: "tooManyTries", values: { wait_s: 7 } });
  const wrong = made({ signIn: refuses(NOBODY) });
  assert.deepEqual(await wrong.session.signIn("ada", "x"), { key: "wrong" });
});

test("signing out leaves nothing behind, and where the server refuses it, everything and the reason", async () => {
  const { session, store, seen } = made({ me: async () => AGENT, signOut: async () => undefined });
  await session.start();
  store.set({ list: ["secret"] });
  assert.equal(await session.signOut(), null);
  assert.deepEqual([store.state.phase, store.state.list, store.state.user], ["signed_out", [], null]);
  assert.deepEqual(seen.slice(-2), ["end", "signed-out"]);

  const stuck = made({ me: async () => AGENT, signOut: refuses(new Refusal(503, "draining", "Later", 1)) });
  await stuck.session.start();
  assert.equal((await stuck.session.signOut())?.or, "Later");
  assert.equal(stuck.store.state.phase, "signed_in");
});

test("a role that is lost, and a sign-in that ends elsewhere, are noticed", async () => {
  let me = async () => AGENT;
  const { session, store, seen } = made({ me: () => me() });
  await session.start();
  await session.check();
  assert.deepEqual(seen, ["end", "begin"]);
  me = async () => ({ ...AGENT, role: "user" });
  await session.check();
  assert.deepEqual([store.state.phase, seen.at(-1)], ["forbidden", "end"]);
  me = refuses(NOBODY);
  await session.check();
  assert.deepEqual([store.state.phase, store.state.signInNotice], ["signed_out", { key: "ended" }]);
});
