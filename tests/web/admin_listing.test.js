// The dashboard's lists that come in pages.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Listing } from "../../web/js/admin/listing.js";

const PAGE_ITEMS = 2;

/** A list of numbers on a server, whose reads are answered when the test says so. */
function served(...numbers) {
  const waiting = [];
  return {
    numbers,
    waiting,
    load: (cursor) => new Promise((resolve, reject) => waiting.push({ cursor, resolve, reject })),
    async answer(failure) {
      const { cursor, resolve, reject } = waiting.shift();
      if (failure) reject(failure);
      const start = Number(cursor ?? 0);
      const end = start + PAGE_ITEMS;
      resolve({ items: this.numbers.slice(start, end), next_cursor: end < this.numbers.length ? String(end) : null });
      await new Promise(setImmediate);
    },
  };
}

async function opened(server) {
  const shown = [];
  const listing = new Listing((state) => shown.push(state));
  void listing.open(server.load);
  await new Promise(setImmediate);
  await server.answer();
  return { listing, shown };
}

async function asked(read) {
  void read;
  await new Promise(setImmediate);
}

test("a list is read page by page until its end", async () => {
  const server = served(1, 2, 3);
  const { listing } = await opened(server);
  assert.deepEqual([listing.shown.items, listing.hasMore], [[1, 2], true]);
  await asked(listing.more());
  assert.equal(listing.shown.isLoading, true);
  await server.answer();
  assert.deepEqual([listing.shown.items, listing.hasMore, listing.shown.isLoading], [[1, 2, 3], false, false]);
  await asked(listing.more());
  assert.deepEqual([server.waiting.length, listing.shown.isLoading], [0, false]);
});

test("what is read again brings the new and throws nobody back", async () => {
  const server = served(1, 2, 3, 4, 5);
  const { listing, shown } = await opened(server);
  await asked(listing.more());
  await server.answer();
  server.numbers = [0, 1, 2, 3, 4, 5];
  shown.length = 0;
  await asked(listing.reload());
  await server.answer();
  assert.deepEqual(shown, [], "nothing changes while it is read again");
  await server.answer();
  assert.deepEqual([listing.shown.items, listing.hasMore], [[0, 1, 2, 3], true]);
});

test("an empty list that is read again and has become longer is shown", async () => {
  const server = served();
  const { listing } = await opened(server);
  server.numbers = [7];
  await asked(listing.reload());
  assert.equal(listing.shown.isLoading, false, "no word of loading comes and goes");
  await server.answer();
  assert.deepEqual(listing.shown.items, [7]);
});

test("reading on and reading again at once lose neither", async () => {
  const server = served(1, 2, 3, 4);
  const { listing } = await opened(server);
  void listing.more();
  await asked(listing.reload());
  assert.equal(server.waiting.length, 1, "one after the other");
  await server.answer();
  await server.answer();
  await server.answer();
  assert.deepEqual(listing.shown.items, [1, 2, 3, 4]);
});

test("what was asked for before is not shown after", async () => {
  const [before, after] = [served(1, 2, 3), served(8, 9)];
  const { listing } = await opened(before);
  void listing.more();
  await asked(listing.reload());
  listing.close();
  await asked(listing.open(after.load));
  await before.answer();
  assert.deepEqual([listing.shown.items, before.waiting.length], [[1, 2], 0]);
  await after.answer();
  assert.deepEqual(listing.shown.items, [8, 9]);
});

test("a read that fails says why, keeps what is there, and the next one clears it", async () => {
  const server = served(1, 2);
  const { listing } = await opened(server);
  await asked(listing.reload());
  await server.answer(new Error("no"));
  assert.deepEqual([listing.shown.items, listing.shown.problem], [[1, 2], "no"]);
  await asked(listing.reload());
  await server.answer();
  assert.equal(listing.shown.problem, null);
});
