// The dashboard's pure modules: history, formatting, rows, routes.

import assert from "node:assert/strict";
import { test } from "node:test";

import { dateTime, duration, milliseconds, number, percent, size } from "../../web/js/admin/format.js";
import { History, SAMPLES_MAX } from "../../web/js/admin/history.js";
import { Ring } from "../../web/js/admin/ring.js";
import { sectionIn } from "../../web/js/admin/route.js";
import { matching, pressed, sorted, windowOf } from "../../web/js/admin/rows.js";

const START_MS = Date.parse("2026-01-01T12:00:00Z");

function stats(second, change = {}) {
  return {
    taken_at: new Date(START_MS + second * 1000).toISOString(),
    uptime_s: 100 + second,
    ttft_ms: { p50: 10, p99: 20 },
    inter_token_ms: { p50: null, p99: null },
    tokens_per_s: { prefill: 0, decode: second },
    running: 1,
    queue: { waiting: 2 },
    hits: { rate: null, queried_tokens: 0, hit_tokens: { device: 0, host: 0, disk: 0, prefix: 0 } },
    pages: [
      { tier: "device", state: "free", pages: 90 },
      { tier: "device", state: "leased", pages: 8 },
      { tier: "device", state: "running", pages: 2 },
      { tier: "disk", state: "leased", pages: 5 },
    ],
    ...change,
  };
}

test("a ring keeps the last values in their order", () => {
  const ring = new Ring(3);
  assert.equal(ring.at(-1), undefined);
  for (const value of [1, 2, 3, 4, 5]) ring.push(value);
  assert.deepEqual([ring.values(), ring.length, ring.at(0), ring.at(-1), ring.at(3), ring.at(-4)], [[3, 4, 5], 3, 3, 5, undefined, undefined]);
});

test("the history keeps fifteen minutes and no second twice", () => {
  const history = new History();
  for (let second = 0; second < SAMPLES_MAX + 100; second += 1) history.add(stats(second));
  history.add(stats(SAMPLES_MAX + 99));
  const [moments, decode] = history.columns(["decode"]);
  assert.equal(moments.length, SAMPLES_MAX);
  assert.deepEqual([decode[0], decode.at(-1)], [100, SAMPLES_MAX + 99]);
});

test("the table beside a chart has the same numbers, the newest first", () => {
  const history = new History();
  for (let second = 0; second < 12; second += 1) history.add(stats(second));
  const rows = history.rows(["decode", "pages_device"], 5);
  assert.deepEqual(rows.map((row) => row.values), [[11, 10], [6, 10], [1, 10]]);
  assert.equal(rows[0].at_s, START_MS / 1000 + 11);
});

test("what nobody measured is a gap and no line", () => {
  const history = new History();
  history.add(stats(0));
  history.add(stats(60));
  const [moments, decode, between] = history.columns(["decode", "inter_token_p50"]);
  assert.deepEqual(moments.map((at_s) => at_s - START_MS / 1000), [0, 1, 60]);
  assert.deepEqual(decode, [0, null, 60]);
  assert.deepEqual(between, [null, null, null]);
});

test("shares of found tokens are those of the last minute, and begin anew after a restart", () => {
  const history = new History();
  const hits = (queried, device, prefix) => ({ hits: { rate: null, queried_tokens: queried, hit_tokens: { device, host: 0, disk: 0, prefix } } });
  history.add(stats(0, hits(1000, 500, 100)));
  history.add(stats(1, hits(1200, 600, 150)));
  history.add(stats(2, { ...hits(50, 50, 0), uptime_s: 1 }));
  const [, device, host, prefix] = history.columns(["hit_device", "hit_host", "hit_prefix"]);
  assert.deepEqual([device, host, prefix], [[null, 50, null], [null, 0, null], [null, 25, null]]);
});

test("numbers, sizes and times read as people write them", () => {
  assert.deepEqual([number(1234567, "en"), number(1234567, "zh"), number(null, "en")], ["1,234,567", "1,234,567", "–"]);
  assert.deepEqual([milliseconds(4.321, "en"), milliseconds(43.21, "en"), milliseconds(432.1, "en"), milliseconds(43210, "en")], ["4.32 ms", "43.2 ms", "432 ms", "43.2 s"]);
  assert.deepEqual([size(512, "en"), size(1536, "en"), size(1 << 30, "en")], ["512 B", "1.5 KiB", "1 GiB"]);
  assert.deepEqual([percent(0.775, "en"), percent(null, "en")], ["77.5 %", "–"]);
  assert.deepEqual([duration(5), duration(65), duration(3661), duration(90000), duration(-3), duration(null)], ["5 s", "1 min 05 s", "1 h 01 min", "1 d 1 h", "0 s", "–"]);
  assert.equal(dateTime(null, "en"), "–");
});

test("rows are sorted either way, those without a value last", () => {
  const items = [{ n: 2 }, { n: null }, { n: 10 }, { n: 1 }];
  const valueOf = (item, key) => item[key];
  assert.deepEqual(sorted(items, { key: "n", isDescending: true }, valueOf).map((item) => item.n), [10, 2, 1, null]);
  assert.deepEqual(sorted(items, { key: "n", isDescending: false }, valueOf).map((item) => item.n), [1, 2, 10, null]);
  const names = [{ n: "b10" }, { n: "b9" }, { n: "A" }];
  assert.deepEqual(sorted(names, { key: "n", isDescending: false }, valueOf).map((item) => item.n), ["A", "b9", "b10"]);
  assert.deepEqual(pressed({ key: "n", isDescending: true }, "n"), { key: "n", isDescending: false });
  assert.deepEqual(pressed({ key: "n", isDescending: false }, "m"), { key: "m", isDescending: true });
});

test("a filter finds every word, whatever its case", () => {
  const items = ["Ada bot", "ada person", "Grace bot"];
  assert.deepEqual(matching(items, "ADA bo", (item) => item), ["Ada bot"]);
  assert.equal(matching(items, "  ", (item) => item), items);
});

test("of a thousand rows only those on the screen are drawn", () => {
  const view = { count: 1000, rowHeight: 40, height: 800 };
  assert.deepEqual(windowOf({ ...view, scrollTop: 0 }), { first: 0, end: 30 });
  assert.deepEqual(windowOf({ ...view, scrollTop: 20_000 }), { first: 490, end: 530 });
  assert.deepEqual(windowOf({ ...view, scrollTop: 1e6 }), { first: 999, end: 1000 });
  assert.deepEqual(windowOf({ ...view, count: 0, scrollTop: 0 }), { first: 0, end: 0 });
});

test("an address that names no section is the overview", () => {
  assert.deepEqual(["#/sessions", "", "#/nowhere", "#/sessions/x"].map(sectionIn), ["sessions", "overview", "overview", "overview"]);
});
