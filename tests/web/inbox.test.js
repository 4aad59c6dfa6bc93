// The agents' inbox: who somebody is, how long they wait, which canned answers a word leaves, and that one reading is enough.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Desk } from "../../web/js/inbox/desk.js";
import { InboxFeed } from "../../web/js/inbox/feed.js";
import { matching, personOf, waitOf } from "../../web/js/inbox/people.js";
import { initialState } from "../../web/js/inbox/state.js";
import { Store } from "../../web/js/store.js";
import { Refusal } from "../../web/js/api.js";

const item = (name, metadata = {}) => ({ user: { id: "u", name }, conversation: { id: "c", metadata, state: "queued" } });

test("what a site says of its visitor is shown; what others say of themselves is not", () => {
  const metadata = { visitor: { name: "Ann", email: "ann@shop.example" }, widget: { name: "Shop" } };
  assert.deepEqual(personOf(item("visitor-1234-5678", metadata)), { name: "Ann", short: "1234", email: "ann@shop.example", widget: "Shop" });
  assert.deepEqual(personOf(item("visitor-1234-5678")), { name: null, short: "1234", email: null, widget: null });
  assert.deepEqual(personOf(item("bob", metadata)), { name: "bob", short: "", email: null, widget: null });
});

test("waiting times are told in the largest unit that fits", () => {
  const since = "2026-12-01T12:00:00Z";
  const at = (/** @type {number} */ seconds) => waitOf(since, Date.parse(since) + seconds * 1000);
  assert.deepEqual([at(-5), at(59), at(61), at(7200), at(180_000)].map(({ key, count }) => `${count} ${key}`), [
    "0 seconds",
    "59 seconds",
    "1 minutes",
    "2 hours",
    "2 days",
  ]);
  assert.deepEqual(waitOf(null, 0), { key: "seconds", count: 0 });
});

test("a word after the stroke leaves the answers that hold it, those that begin with it first", () => {
  const answers = [
    { title: "bye", content: "Goodbye, and hello again" },
    { title: "Hello", content: "Good morning" },
    { title: "parcel", content: "It is on its way" },
  ];
  assert.deepEqual(matching(answers, "he").map(({ title }) => title), ["Hello", "bye"]);
  assert.deepEqual(matching(answers, "").length, 3);
  assert.deepEqual(matching(answers, "tea"), []);
});

function makeDesk(api) {
  const store = new Store(initialState(0), (callback) => callback());
  store.set({ phase: "signed_in", user: { id: "me", username: "lena", role: "agent" } });
  const outside = { setTimer: () => 0, clearTimer: () => undefined, nowMs: () => 0, newId: () => "id", showAddress: () => undefined };
  return { desk: new Desk(api, store, outside), store };
}

test("of a hundred events at once the lists are read twice: now, and once when that is done", async () => {
  let readings = 0;
  const { desk, store } = makeDesk({
    list: async () => {
      readings += 1;
      await new Promise((resolve) => setImmediate(resolve));
      return { items: [], next_cursor: null };
    },
  });
  for (let count = 0; count < 100; count += 1) desk.heard("conversation.status_changed", { conversation_id: "c" });
  while (desk.isReading) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(readings, 4);
  assert.equal(store.state.isRead, true);
});

test("of two agents who take at once, the slower one is told who has it and sees it so", async () => {
  const human = { ...item("bob"), conversation: { id: "c", state: "human", agent: { id: "other", name: "Mike" } } };
  const { desk, store } = makeDesk({
    act: async () => {
      throw new Refusal(409, "taken", "mike has this conversation", null);
    },
    item: async () => human,
    list: async () => ({ items: [], next_cursor: null }),
    messages: async () => ({ items: [], next_cursor: null }),
  });
  store.set({ openedId: "c", opened: item("bob") });
  await desk.act("take");
  assert.equal(store.state.toasts[0].isFault, true);
  assert.equal(store.state.toasts[0].saying.key, "problem.taken");
  assert.equal(store.state.opened?.conversation.agent?.name, "Mike");
  assert.equal(store.state.isBusy, false);
});

test("an answer whose fate is unknown is sent again under the same key, a refused one under another", async () => {
  const keys = [];
  const outcomes = [new Error("away"), new Refusal(409, "taken", "no", null), null];
  let made = 0;
  const { desk, store } = makeDesk({
    answer: async (id, content, key) => {
      keys.push(key);
      const outcome = outcomes[keys.length - 1];
      if (outcome) throw outcome;
      return { message: { id: "m" }, conversation: { id } };
    },
    item: async () => item("bob"),
  });
  desk.outside.newId = () => `key${(made += 1)}`;
  store.set({ openedId: "c", opened: item("bob") });
  assert.deepEqual([await desk.answer("hi"), await desk.answer("hi"), await desk.answer("hi")], [false, false, true]);
  assert.equal(keys[0], keys[1]);
  assert.notEqual(keys[1], keys[2]);
  assert.deepEqual(store.state.messages.map(({ id }) => id), ["m"]);
});

test("a stream that breaks is opened again, unless nobody is there any more", () => {
  const opened = [];
  const timers = [];
  let broken = 0;
  const feed = new InboxFeed({
    open: () => {
      const stream = { listeners: {}, addEventListener: (name, listener) => (stream.listeners[name] = listener), close: () => undefined };
      opened.push(stream);
      return stream;
    },
    onEvent: () => undefined,
    onBroken: () => (broken += 1),
    setTimer: (callback) => timers.push(callback),
    clearTimer: () => undefined,
    random: () => 0,
  });
  feed.start();
  opened[0].listeners.error();
  timers[0]();
  assert.deepEqual([opened.length, broken], [2, 1]);
  feed.stop();
  opened[1].listeners.error();
  feed.awaken();
  assert.deepEqual([opened.length, broken], [2, 1]);
});
