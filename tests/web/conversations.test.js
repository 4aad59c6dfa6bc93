// The list of conversations, and the addresses of what is shown.

import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryStorage } from "./support.js";
import { EMPTY_LIST, byAge, tagsTyped, withConversation, withPage, withoutConversation } from "../../web/js/conversations.js";
import { Place } from "../../web/js/place.js";
import { conversationIn, hashOf } from "../../web/js/route.js";
import { initialState, unsentHere } from "../../web/js/state.js";

function conversation(number, change = {}) {
  const updated_at = `2026-03-${String(number).padStart(2, "0")}T10:00:00Z`;
  return { id: `c${number}`, title: `title ${number}`, version: 1, created_at: updated_at, updated_at, ...change };
}

const ids = (list) => list.items.map((item) => item.id);

test("pages join, newest first, and none is there twice", () => {
  let list = withPage(EMPTY_LIST, { items: [conversation(9), conversation(8)], next_cursor: "8" }, { isFirst: true });
  list = withPage(list, { items: [conversation(8), conversation(7)], next_cursor: null }, { isFirst: false });
  assert.deepEqual(ids(list), ["c9", "c8", "c7"]);
  assert.equal(list.cursor, null);
});

test("reading the first page again shows what is new, drops what is gone, and keeps older pages", () => {
  let list = withPage(EMPTY_LIST, { items: [conversation(9), conversation(8)], next_cursor: "8" }, { isFirst: true });
  list = withPage(list, { items: [conversation(7), conversation(6)], next_cursor: "6" }, { isFirst: false });
  list = withPage(list, { items: [conversation(10), conversation(8)], next_cursor: "8" }, { isFirst: true });
  assert.deepEqual(ids(list), ["c10", "c8", "c7", "c6"]);
  assert.equal(list.cursor, "6");
  list = withPage(list, { items: [conversation(10)], next_cursor: null }, { isFirst: true });
  assert.deepEqual(ids(list), ["c10"]);
});

test("an old conversation that came in by itself does not hide those between it and the first page", () => {
  const page = { items: [conversation(9), conversation(8)], next_cursor: "8" };
  let list = withConversation(EMPTY_LIST, conversation(1));
  list = withPage(list, page, { isFirst: true });
  assert.deepEqual([ids(list), list.cursor], [["c9", "c8", "c1"], "8"]);
  list = withPage(list, { items: [conversation(7), conversation(1)], next_cursor: null }, { isFirst: false });
  assert.deepEqual([ids(list), list.cursor], [["c9", "c8", "c7", "c1"], null]);
  // Another device has begun more conversations than a page holds: the new page and what was there do not meet.
  list = withPage(list, { items: [conversation(20), conversation(19)], next_cursor: "19" }, { isFirst: true });
  assert.equal(list.cursor, "19");
});

test("a change moves a conversation to the top, and an older view of it changes nothing", () => {
  let list = withPage(EMPTY_LIST, { items: [conversation(9), conversation(8)], next_cursor: null }, { isFirst: true });
  list = withConversation(list, conversation(8, { version: 2, updated_at: "2026-03-11T00:00:00Z", title: "new" }));
  assert.deepEqual(ids(list), ["c8", "c9"]);
  list = withConversation(list, conversation(8));
  assert.equal(list.items[0].title, "new");
  assert.deepEqual(ids(withoutConversation(list, "c8")), ["c9"]);
});

test("conversations stand under the time people remember them by", () => {
  const now = new Date(2026, 2, 20, 15, 0);
  const at = (days) => new Date(2026, 2, 20 - days, 9, 0).toISOString();
  const items = [0, 1, 3, 20, 90].map((days, index) => conversation(index + 1, { updated_at: at(days) }));
  assert.deepEqual(byAge(items, now).map(({ title, items: inside }) => [title, inside.map((item) => item.id)]), [
    ["today", ["c1"]],
    ["yesterday", ["c2"]],
    ["lastSevenDays", ["c3"]],
    ["lastThirtyDays", ["c4"]],
    ["earlier", ["c5"]],
  ]);
});

test("an address names a conversation or nothing", () => {
  assert.equal(conversationIn(hashOf("0b1c-2d")), "0b1c-2d");
  for (const hash of ["", "#", "#/", "#/c/", "#/c/a/b", "#/c/..%2f", "#/c/<script>"]) assert.equal(conversationIn(hash), null);
  assert.equal(hashOf(null), "#/");
});

test("what waits is shown where it was written", () => {
  const unsent = (id, conversation_id, thread_id) => ({ client_message_id: id, conversation_id, thread_id, content: id, created_at: 1, refused: null });
  const state = { ...initialState("t1"), unsent: [unsent("a", null, "t1"), unsent("b", null, "t2"), unsent("c", "c1", "t3")] };
  assert.deepEqual(unsentHere(state).map((one) => one.client_message_id), ["a"]);
  assert.deepEqual(unsentHere({ ...state, currentId: "c1" }).map((one) => one.client_message_id), ["c"]);
});

test("a reload that outran the address of a new conversation still lands on it, a fresh visit does not", () => {
  const storage = new MemoryStorage();
  const before = new Place({ hash: "" }, storage);
  before.show("c1");
  const atNew = () => new Place({ hash: "#/" }, storage);
  assert.equal(atNew().first(true), "c1");
  assert.equal(atNew().first(false), null);
  assert.equal(new Place({ hash: "#/c/c2" }, storage).first(true), "c2");
  atNew().show(null);
  assert.equal(atNew().first(true), null);
});

test("commas part what is typed as tags, and a tag that has one stays whole", () => {
  assert.deepEqual(tagsTyped(" a, b ,, a,", []), ["a", "b"]);
  assert.deepEqual(tagsTyped("茶，水", []), ["茶", "水"]);
  assert.deepEqual(tagsTyped("tea, green ", ["tea, green"]), ["tea, green"]);
  assert.deepEqual(tagsTyped(" , ", []), []);
});
