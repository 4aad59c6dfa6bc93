// The page map: reading it, counting it, finding a page, laying it out.

import assert from "node:assert/strict";
import { test } from "node:test";

import { countsOf, layoutOf, runAt, runsOf, runsOfTier, strips, totalOf } from "../../web/js/admin/page_map.js";

test("runs are read in their order, with the kind of thing a page holds", () => {
  assert.deepEqual(runsOf("12fr3Pcl2R"), [
    { start: 0, length: 12, kind: "free" },
    { start: 12, length: 1, kind: "running" },
    { start: 13, length: 3, kind: "persona" },
    { start: 16, length: 1, kind: "cached" },
    { start: 17, length: 1, kind: "leased" },
    { start: 18, length: 2, kind: "running_persona" },
  ]);
  assert.deepEqual(runsOf(""), []);
});

test("pages of one kind beside each other are one run, also where the server tells them apart", () => {
  assert.deepEqual(runsOf("2PC3L"), [{ start: 0, length: 6, kind: "persona" }]);
});

test("a letter of a newer server does not break the map", () => {
  assert.deepEqual(runsOf("2f3x1f").map((run) => [run.start, run.length, run.kind]), [[0, 2, "free"], [2, 3, "cached"], [5, 1, "free"]]);
});

test("every page is found, and none behind the last", () => {
  const runs = runsOf("5f3r100P2c");
  assert.equal(totalOf(runs), 110);
  const kinds = Array.from({ length: 110 }, (_, page) => runAt(runs, page)?.kind);
  assert.deepEqual([kinds[4], kinds[5], kinds[7], kinds[8], kinds[107], kinds[108], kinds[109]], ["free", "running", "running", "persona", "persona", "cached", "cached"]);
  assert.equal(runAt(runs, 110), undefined);
  assert.deepEqual(countsOf(runs), { running: 3, running_persona: 0, persona: 100, leased: 0, cached: 2, free: 5 });
});

test("tiers without an order are sorted by kind", () => {
  const pages = [
    { tier: "disk", state: "leased", namespace: null, pages: 7 },
    { tier: "disk", state: "prefix", namespace: null, pages: 2 },
    { tier: "device", state: "free", namespace: null, pages: 9 },
  ];
  assert.deepEqual(runsOfTier({ pages }, "disk"), [
    { start: 0, length: 2, kind: "persona" },
    { start: 2, length: 7, kind: "leased" },
  ]);
  assert.deepEqual(runsOfTier({ pages }, "host"), []);
});

test("cells get smaller the more there are, and all of them are on the picture", () => {
  for (const pages of [1, 100, 3000, 40_000, 100_000]) {
    const { pitch, gap, columns, rows } = layoutOf(pages, 1000);
    assert.ok(columns * pitch <= 1000 && columns * rows >= pages && gap < pitch, `${pages}`);
  }
  assert.ok(layoutOf(100, 1000).pitch > layoutOf(40_000, 1000).pitch);
  assert.equal(layoutOf(0, 0).columns, 1);
});

test("a run is drawn line by line, each of its pages once", () => {
  assert.deepEqual(
    [...strips({ start: 8, length: 15, kind: "leased" }, 10)],
    [{ row: 0, column: 8, length: 2 }, { row: 1, column: 0, length: 10 }, { row: 2, column: 0, length: 3 }],
  );
});
