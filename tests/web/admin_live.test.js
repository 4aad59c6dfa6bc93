// The dashboard stays live: the stream is opened again, what is old is called old, and lists are never shown half.

import assert from "node:assert/strict";
import { test } from "node:test";

import { LiveStats, STALE_MS } from "../../web/js/admin/live.js";
import { SessionsFeed } from "../../web/js/admin/sessions_feed.js";
import { Clock } from "./support.js";

class Stream {
  constructor() {
    this.listeners = {};
    this.isClosed = false;
  }
  addEventListener(name, listener) {
    this.listeners[name] = listener;
  }
  close() {
    this.isClosed = true;
  }
  stats(value) {
    this.listeners.stats({ data: JSON.stringify(value) });
  }
  fail() {
    this.listeners.error();
  }
}

function watching() {
  const clock = new Clock();
  const streams = [];
  const seen = [];
  let refusals = 0;
  const live = new LiveStats({
    open: () => streams[streams.push(new Stream()) - 1],
    onStats: (stats) => seen.push(stats),
    onLiveness: (liveness) => seen.push(liveness),
    onRefused: () => (refusals += 1),
    setTimer: clock.setTimer,
    clearTimer: clock.clearTimer,
    random: () => 0.5,
  });
  live.start();
  return { live, clock, streams, seen, refusals: () => refusals };
}

test("each event is a second of numbers", () => {
  const { streams, seen } = watching();
  streams[0].stats({ running: 1 });
  assert.deepEqual(seen, [{ running: 1 }, "live"]);
});

test("a stream that breaks is opened again, and the sign-in is looked at", () => {
  const { clock, streams, seen, refusals } = watching();
  streams[0].stats({});
  streams[0].fail();
  assert.deepEqual([seen.at(-1), streams[0].isClosed, refusals()], ["stale", true, 1]);
  clock.advance(1000);
  assert.equal(streams.length, 2);
  streams[0].stats({ old: true });
  assert.equal(seen.at(-1), "stale", "what a closed stream still says does not count");
  streams[1].stats({ running: 2 });
  assert.deepEqual(seen.slice(-2), [{ running: 2 }, "live"]);
});

test("a connection that has died without a word is called old and opened again", () => {
  const { clock, streams, seen } = watching();
  streams[0].stats({});
  clock.advance(STALE_MS - 1);
  assert.equal(seen.at(-1), "live");
  clock.advance(1);
  assert.equal(seen.at(-1), "stale");
  clock.advance(1000);
  assert.equal(streams.length, 2);
});

test("after the end nothing is opened any more", () => {
  const { live, clock, streams } = watching();
  live.stop();
  clock.advance(60_000);
  live.awaken();
  assert.deepEqual([streams.length, streams[0].isClosed], [1, true]);
});

function feedOf(pages) {
  const clock = new Clock();
  const lists = [];
  const problems = [];
  const asked = [];
  const feed = new SessionsFeed(
    {
      sessions: async (cursor) => {
        asked.push(cursor);
        const page = pages.shift();
        if (page instanceof Error) throw page;
        return page;
      },
    },
    {
      onList: (list) => lists.push(list.items.map((item) => item.id)),
      onProblem: (problem) => problems.push(problem.message),
      setTimer: clock.setTimer,
      clearTimer: clock.clearTimer,
      nowMs: () => clock.now,
    },
  );
  return { feed, clock, lists, problems, asked };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

test("all pages are one list, in which nobody is twice", async () => {
  const { feed, lists, asked } = feedOf([
    { items: [{ id: "a" }, { id: "b" }], next_cursor: "1" },
    { items: [{ id: "b" }, { id: "c" }], next_cursor: null },
  ]);
  feed.start();
  await settled();
  assert.deepEqual([lists, asked], [[["a", "b", "c"]], [null, "1"]]);
  feed.stop();
});

test("a list that broke off is not shown, and is read again", async () => {
  const { feed, clock, lists, problems } = feedOf([
    { items: [{ id: "a" }], next_cursor: "1" },
    new Error("away"),
    { items: [{ id: "a" }], next_cursor: null },
  ]);
  feed.start();
  await settled();
  assert.deepEqual([lists, problems], [[], ["away"]]);
  clock.advance(2000);
  await settled();
  assert.deepEqual(lists, [["a"]]);
  feed.stop();
  clock.advance(60_000);
  await settled();
  assert.equal(lists.length, 1);
});
