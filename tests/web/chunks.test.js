// A long conversation is drawn in pieces: which messages are one piece, and which pieces are drawn.

import assert from "node:assert/strict";
import { test } from "node:test";
import { CHUNK_MESSAGES, Chunking, drawn, guessedPx, stretchOf } from "../../web/js/chunks.js";
import { question, random } from "./support.js";

/** A path of messages with these ids, each the child of the one before. */
const pathOf = (ids, parent = null) => ids.map((id, index) => question(id, { parent_id: index === 0 ? parent : ids[index - 1] }));
const numbered = (from, to) => Array.from({ length: to - from }, (_, index) => `m${from + index}`);
const sizes = (chunks) => chunks.map(({ from, to }) => to - from);

function assertCovers(chunks, path) {
  assert.equal(chunks[0]?.from ?? 0, 0);
  chunks.forEach((chunk, index) => assert.equal(chunk.to, chunks[index + 1]?.from ?? path.length));
  assert.equal(new Set(chunks.map(({ key }) => key)).size, chunks.length);
}

test("a path is cut into pieces of a few messages", () => {
  const path = pathOf(numbered(0, 20));
  const chunks = new Chunking().of(path);
  assert.deepEqual(sizes(chunks), [CHUNK_MESSAGES, CHUNK_MESSAGES, 20 - 2 * CHUNK_MESSAGES]);
  assertCovers(chunks, path);
});

test("what is added at either end leaves the pieces that are there as they are", () => {
  const chunking = new Chunking();
  const all = pathOf(numbered(0, 40));
  const before = chunking.of(all.slice(15, 30));
  const after = chunking.of(all);
  assertCovers(after, all);
  for (const { key, from, to } of before.slice(0, -1)) {
    const same = after.find((chunk) => chunk.key === key);
    assert.deepEqual([same.from, same.to], [from + 15, to + 15]);
  }
  assert.ok(after.some(({ key }) => key === before.at(-1).key), "the last one is filled up under its name");
});

test("another version of a message stays in its piece, so that the focus is not lost", () => {
  for (const place of [0, 3, CHUNK_MESSAGES - 1, CHUNK_MESSAGES]) {
    const chunking = new Chunking();
    const ids = numbered(0, 2 * CHUNK_MESSAGES);
    const first = chunking.of(pathOf(ids));
    const other = [...ids.slice(0, place), "other", "below"];
    const second = chunking.of(pathOf(other));
    const keyAt = (chunks) => chunks.find(({ from, to }) => place >= from && place < to).key;
    assert.equal(keyAt(first), keyAt(second), `at ${place}`);
    assertCovers(chunking.of(pathOf(ids)), ids);
  }
});

test("whatever branches are shown one after the other, every message is in exactly one piece", () => {
  const next = random(7);
  const chunking = new Chunking();
  const ids = numbered(0, 60);
  for (let round = 0; round < 200; round += 1) {
    const start = Math.floor(next() * 20);
    const fork = start + Math.floor(next() * 40);
    const branch = Math.floor(next() * 3);
    const path = pathOf([...ids.slice(start, fork), ...numbered(0, Math.floor(next() * 30)).map((id) => `${branch}-${fork}-${id}`)], start === 0 ? null : ids[start - 1]);
    assertCovers(chunking.of(path), path);
  }
});

test("a longer message is guessed to be higher, and a wider page makes it lower", () => {
  const path = [question("m0", { content: "word ".repeat(200) }), question("m1", { content: "one" })];
  const long = { key: "a", from: 0, to: 1 };
  assert.ok(guessedPx(path, long, 700) > guessedPx(path, { key: "b", from: 1, to: 2 }, 700));
  assert.ok(guessedPx(path, long, 300) > guessedPx(path, long, 700));
});

test("a stretch of the page shows the pieces it touches, and the nearest beyond the ends", () => {
  const heights = [100, 100, 100, 100];
  assert.deepEqual(stretchOf(heights, 150, 250), { first: 1, last: 2 });
  assert.deepEqual(stretchOf(heights, -500, 50), { first: 0, last: 0 });
  assert.deepEqual(stretchOf(heights, 900, 950), { first: 3, last: 3 });
  assert.deepEqual(stretchOf([], 0, 10), { first: -1, last: -1 });
});

test("gaps are as high as what they stand for, and the whole keeps its height", () => {
  const chunks = new Chunking().of(pathOf(numbered(0, 5 * CHUNK_MESSAGES)));
  const heights = [10, 20, 30, 40, 50];
  const parts = drawn(chunks, heights, (index) => index === 2 || index === 3);
  assert.deepEqual(parts.map((part) => part.px ?? part.index), [30, 2, 3, 50]);
  const total = parts.reduce((sum, part) => sum + (part.px ?? heights[part.index]), 0);
  assert.equal(total, 150);
});
