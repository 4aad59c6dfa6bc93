// Markdown becomes blocks; links are few; a growing text reads like a finished one.

import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeEntities } from "../../web/js/entities.js";
import { safeHref } from "../../web/js/links.js";
import { Growing, blocksOf } from "../../web/js/markdown.js";
import { random } from "./support.js";

const PIECES = [
  "# H\n", "\n", "\n\n", "para *x*", "- a", "- b\n", "  c", "    code\n", "```\n", "x\n", "> q\n", "| a | b |\n", "|-|-|\n",
  "1. z\n", "<div>\n", "</div>\n", "---\n", "===\n", "\t", "\r\n", "\r", " ", "<!--", "-->", "~~~\n", "**", "word ", "é😀", "- - -", "* * *\n",
];

test("a text that grows piece by piece reads like the whole at every moment", () => {
  const next = random(11);
  for (let round = 0; round < 400; round += 1) {
    const growing = new Growing();
    let text = "";
    for (let count = 0; count < 14; count += 1) {
      text += PIECES[Math.floor(next() * PIECES.length)];
      assert.deepEqual(growing.read(text), [...blocksOf(text)], JSON.stringify(text));
    }
  }
});

test("blocks that are done keep their identity while the last one grows", () => {
  const growing = new Growing();
  const [before] = growing.read("first\n\nsecond\n\nthird");
  assert.equal(growing.read("first\n\nsecond\n\nthird and more\n\nfourth")[0], before);
});

test("a text that was replaced is read anew", () => {
  const growing = new Growing();
  growing.read("one\n\ntwo\n\nthree");
  assert.deepEqual(growing.read("other\n\ntext"), [...blocksOf("other\n\ntext")]);
});

test("reading a long answer piece by piece is linear work", () => {
  const growing = new Growing();
  const paragraph = "Some words of an answer with *emphasis* and `code` in it.\n\n";
  const start = performance.now();
  for (let count = 1; count <= 400; count += 1) growing.read(paragraph.repeat(count));
  assert.ok(performance.now() - start < 4000);
});

test("nesting without end is shown, not read", () => {
  for (const text of ["> ".repeat(4000), ">".repeat(20000), "- ".repeat(4000), "[".repeat(20000), "x".repeat(300_000)]) {
    assert.ok(blocksOf(`${text}x`).length >= 1);
  }
});

test("only absolute http, https and mailto addresses are links", () => {
  assert.equal(safeHref("https://example.org/a?b=c#d"), "https://example.org/a?b=c#d");
  assert.equal(safeHref("HTTP://EXAMPLE.org"), "http://example.org/");
  assert.equal(safeHref("mailto:a@example.org"), "mailto:a@example.org");
  const refused = [
    "javascript:alert(1)", "JaVaScRiPt:alert(1)", " javascript:alert(1)", "java\nscript:alert(1)", "java\tscript:alert(1)",
    "\u0001javascript:alert(1)", "data:text/html,<script>alert(1)</script>", "vbscript:x", "file:///etc/passwd", "blob:https://x/y",
    "//evil.example", "/api/v1/auth/logout", "#fragment", "relative", "", "https://", "https://bank.example@evil.example/",
    "view-source:https://x", "filesystem:https://x/temporary/y", "javascript&colon;alert(1)",
  ];
  for (const address of refused) assert.equal(safeHref(address), null, JSON.stringify(address));
});

test("character references become characters, unknown ones stay, and none becomes markup", () => {
  assert.equal(decodeEntities("a &amp; b &lt;b&gt; &#39;x&#x27; &copy; &hellip;"), "a & b <b> 'x' © …");
  assert.equal(decodeEntities("&bogus; &toString; &constructor; & &; &#; &#x;"), "&bogus; &toString; &constructor; & &; &#; &#x;");
  assert.equal(decodeEntities("&#0; &#xD800; &#9999999;"), "\ufffd \ufffd \ufffd");
  assert.equal(decodeEntities("&amp;lt;"), "&lt;");
});
