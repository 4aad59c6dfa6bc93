// What a search or a filter shows in place of the list.

import assert from "node:assert/strict";
import { test } from "node:test";
import { tagsOf, withKnown } from "../../web/js/conversations.js";
import { deviceOf } from "../../web/js/device.js";
import { askingFor, looking, withFoundChange, withFoundPage, withoutFound } from "../../web/js/finding.js";
import { hashOfSettings, settingsIn } from "../../web/js/route.js";

const conversation = (id, change = {}) => ({ id, title: id, version: 1, updated_at: "2026-01-01T00:00:00Z", tags: [], archived: false, temporary: false, ...change });
const ids = (found) => found.items.map((item) => item.id);

test("nothing wanted is the list itself", () => {
  assert.equal(looking(null, { query: "  ", tag: null, archived: false }), null);
  assert.equal(looking(null, { query: "", tag: "work", archived: false }).isBusy, true);
});

test("what was found stays until something newer is, and pages join without repeats", () => {
  let found = withFoundPage(looking(null, { query: "a", tag: null, archived: false }), { items: [conversation("c1")], next_cursor: "x" }, { isFirst: true });
  found = looking(found, { query: "ab", tag: null, archived: false });
  assert.deepEqual([ids(found), found.isBusy, found.isLoaded], [["c1"], true, true]);
  found = withFoundPage(found, { items: [conversation("c2")], next_cursor: "y" }, { isFirst: true });
  found = withFoundPage(found, { items: [conversation("c2"), conversation("c3")], next_cursor: null }, { isFirst: false });
  assert.deepEqual([ids(found), found.cursor], [["c2", "c3"], null]);
});

test("a search looks into archived conversations too, the plain list does not", () => {
  assert.deepEqual(askingFor({ query: " words ", tag: null, archived: false }), { q: "words", tag: null, archived: null });
  assert.deepEqual(askingFor({ query: "", tag: "work", archived: false }), { q: null, tag: "work", archived: false });
  assert.deepEqual(askingFor({ query: "words", tag: null, archived: true }), { q: "words", tag: null, archived: true });
});

test("a change keeps the place and the hit of what was found, and takes away what does not fit any more", () => {
  const hit = { message_id: "m1", role: "user", snippet: [] };
  const page = { items: [conversation("c1", { hit, tags: ["work"] }), conversation("c2", { tags: ["work"] })], next_cursor: null };
  const found = withFoundPage(looking(null, { query: "", tag: "work", archived: false }), page, { isFirst: true });
  const renamed = withFoundChange(found, conversation("c1", { title: "new", tags: ["work"] }));
  assert.deepEqual([renamed.items[0].title, renamed.items[0].hit], ["new", hit]);
  assert.deepEqual(ids(withFoundChange(found, conversation("c1"))), ["c2"]);
  assert.deepEqual(ids(withoutFound(found, "c2")), ["c1"]);
  assert.equal(withFoundChange(null, conversation("c1")), null);
});

test("what is known of a conversation is its newest view, without what a search has found in it", () => {
  const known = withKnown(new Map(), [conversation("c1", { version: 2, title: "newer", hit: {} })]);
  const after = withKnown(known, [conversation("c1", { version: 1, title: "older" }), conversation("c2", { tags: ["b", "a"] })]);
  assert.deepEqual([after.get("c1").title, "hit" in after.get("c1")], ["newer", false]);
  assert.deepEqual(tagsOf(after.values(), "en"), ["a", "b"]);
});

test("settings have addresses of their own", () => {
  assert.equal(settingsIn(hashOfSettings("keys")), "keys");
  for (const hash of ["", "#/settings/", "#/settings/nothing", "#/settings/keys/", "#/c/keys"]) assert.equal(settingsIn(hash), null);
});

test("a browser is called what people call it, and a program what it calls itself", () => {
  const firefox = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0";
  const safari = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1";
  const edge = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0";
  assert.deepEqual([firefox, safari, edge, "curl/8.5", ""].map(deviceOf), ["Firefox, Windows", "Safari, iPhone", "Edge, Linux", "curl/8.5", ""]);
});
