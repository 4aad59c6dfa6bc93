// The laws of a transcript: frames once and in order, whatever is replayed; over only when it is said to be over.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  emptyTranscript,
  resumePoints,
  withAccepted,
  withEarlier,
  withForgotten,
  withFrame,
  withLeaf,
  withListing,
} from "../../web/js/transcript.js";
import { newestBelow, runningAnswer, shownPath, siblingsOf } from "../../web/js/tree.js";
import { answer, delta, frame, listing, question, random, shuffled } from "./support.js";

const FIRST = { askedAtLeaf: null, isNewest: true };

/** A log of one answer: created, in_progress, `words` deltas, completed. */
function log(words, responseId = "r1") {
  const frames = [
    frame("response.created", 1, { message_id: "a1", parent_id: "q1" }, responseId),
    frame("response.in_progress", 2, { phase: "prefill", done: 5, total: 5 }, responseId),
    ...Array.from({ length: words }, (_, index) => delta(index + 3, ` word${index + 1}`, responseId)),
  ];
  return [...frames, frame("response.completed", frames.length + 1, { usage: { output_tokens: words } }, responseId)];
}

function begun() {
  return withAccepted(emptyTranscript("c1"), { message: question("q1"), response: response("r1", "a1", "q1") }, { isMine: true });
}

function response(id, messageId, parentId) {
  return { id, conversation_id: "c1", message_id: messageId, parent_id: parentId, status: "queued", usage: null };
}

function play(transcript, frames) {
  let gaps = 0;
  for (const one of frames) {
    const next = withFrame(transcript, one);
    transcript = next.transcript;
    gaps += next.gap ? 1 : 0;
  }
  return { transcript, gaps };
}

test("joined deltas are the text", () => {
  const { transcript, gaps } = play(begun(), log(3));
  assert.equal(gaps, 0);
  assert.equal(transcript.messages.get("a1").content, " word1 word2 word3");
  assert.equal(transcript.messages.get("a1").status, "completed");
  assert.deepEqual(transcript.messages.get("a1").usage, { output_tokens: 3 });
});

test("replaying the same log three times leaves one message with the same text (Hy4ri/hermes-mobile#842)", () => {
  const { transcript } = play(begun(), [...log(5), ...log(5), ...log(5)]);
  assert.equal(transcript.messages.size, 2);
  assert.equal(transcript.messages.get("a1").content, " word1 word2 word3 word4 word5");
});

test("a snapshot and any overlapping tail give the whole text, at every cut (open-webui/open-webui#29596)", () => {
  const frames = log(20);
  const whole = play(begun(), frames).transcript.messages.get("a1").content;
  for (let cut = 0; cut < frames.length; cut += 1) {
    const seen = play(begun(), frames.slice(0, cut)).transcript.messages.get("a1");
    for (const from of [0, Math.max(0, cut - 3), cut]) {
      const stored = answer("a1", "q1", { content: seen.content, last_seq: cut, status: seen.status, response_id: "r1" });
      const reloaded = withListing(emptyTranscript("c1"), listing([stored, question("q1", { children: ["a1"] })]), FIRST);
      const { transcript, gaps } = play(reloaded, frames.slice(from));
      assert.equal(transcript.messages.get("a1").content, whole, `cut ${cut}, replay from ${from}`);
      assert.equal(gaps, 0);
    }
  }
});

test("frames that come before the listing wait for it, in any order", () => {
  const frames = log(10);
  const next = random(7);
  for (let round = 0; round < 50; round += 1) {
    const cut = Math.floor(next() * frames.length);
    const seen = play(begun(), frames.slice(0, cut)).transcript.messages.get("a1");
    let { transcript } = play(emptyTranscript("c1"), shuffled(frames, next));
    assert.equal(transcript.messages.size, 0);
    const stored = answer("a1", "q1", { content: seen.content, last_seq: cut, status: seen.status, response_id: "r1" });
    transcript = withListing(transcript, listing([stored, question("q1", { children: ["a1"] })]), FIRST);
    assert.equal(transcript.messages.get("a1").content, " word1 word2 word3 word4 word5 word6 word7 word8 word9 word10");
    assert.equal(transcript.messages.get("a1").status, "completed");
    assert.equal(transcript.held.size, 0);
  }
});

test("a missing frame is a gap, and nothing after it is shown", () => {
  const frames = log(5);
  const { transcript, gaps } = play(begun(), [...frames.slice(0, 4), ...frames.slice(5)]);
  assert.ok(gaps > 0);
  assert.equal(transcript.messages.get("a1").content, " word1 word2");
  assert.equal(transcript.messages.get("a1").status, "in_progress");
});

test("without a terminal frame an answer is not over (recoupable/app#1924)", () => {
  const { transcript } = play(begun(), log(5).slice(0, -1));
  assert.equal(runningAnswer(shownPath(transcript)).id, "a1");
  assert.deepEqual(resumePoints(transcript), [{ response_id: "r1", last_seq: 7 }]);
  const ended = play(transcript, log(5)).transcript;
  assert.equal(runningAnswer(shownPath(ended)), null);
  assert.deepEqual(resumePoints(ended), []);
});

test("a frame of an unknown type counts and changes nothing else (danny-avila/LibreChat#15044)", () => {
  const { transcript, gaps } = play(begun(), [
    frame("response.created", 1, {}),
    frame("response.sparkles", 2, { colour: "red" }),
    frame("constructor", 3, {}),
    delta(4, "text"),
  ]);
  assert.equal(gaps, 0);
  assert.equal(transcript.messages.get("a1").content, "text");
});

test("a listing that is older than what was streamed takes nothing back", () => {
  const streamed = play(begun(), log(5)).transcript;
  const stale = answer("a1", "q1", { content: " word1", last_seq: 3, status: "in_progress", response_id: "r1" });
  const after = withListing(streamed, listing([stale, question("q1", { children: ["a1"] })]), { askedAtLeaf: "a1", isNewest: true });
  assert.equal(after.messages.get("a1").status, "completed");
  assert.equal(after.messages.get("a1").content, " word1 word2 word3 word4 word5");
});

test("after a resync the stored message decides, even one that has less", () => {
  let transcript = play(begun(), log(5).slice(0, 6)).transcript;
  transcript = withForgotten(transcript, "r1");
  assert.equal(withFrame(transcript, delta(7, " more")).gap, false);
  const stored = answer("a1", "q1", { content: " word1", last_seq: 4, status: "interrupted", response_id: "r1" });
  const after = withListing(transcript, listing([stored, question("q1", { children: ["a1"] })]), { askedAtLeaf: "a1", isNewest: true });
  assert.equal(after.messages.get("a1").content, " word1");
  assert.equal(after.messages.get("a1").status, "interrupted");
});

test("each answer takes only its own frames (open-webui/open-webui#6172)", () => {
  let transcript = begun();
  transcript = withAccepted(transcript, { message: question("q2", { parent_id: "a1" }), response: response("r2", "a2", "q2") }, { isMine: true });
  const [one, two] = [log(3, "r1"), log(4, "r2")];
  const mixed = Array.from({ length: 7 }, (_, index) => [one[index], two[index]]).flat().filter(Boolean);
  transcript = play(transcript, mixed).transcript;
  assert.equal(transcript.messages.get("a1").content, " word1 word2 word3");
  assert.equal(transcript.messages.get("a2").content, " word1 word2 word3 word4");
});

test("a new message is shown where one looks at the newest end, and not where one reads an old branch", () => {
  let transcript = withListing(
    emptyTranscript("c1"),
    listing([answer("a2", "q2"), question("q2", { children: ["a2"] })], { roots: ["q1", "q2"] }),
    FIRST,
  );
  const added = { message: question("q3", { parent_id: "a2" }), response: response("r3", "a3", "q3") };
  assert.equal(withAccepted(transcript, added, { isMine: false }).leafId, "a3");
  transcript = withListing(transcript, listing([answer("a1", "q1"), question("q1", { children: ["a1"] })]), { askedAtLeaf: "a2", isNewest: false });
  assert.equal(transcript.leafId, "a1");
  assert.equal(withAccepted(transcript, added, { isMine: false }).leafId, "a1");
  assert.equal(withAccepted(transcript, added, { isMine: true }).leafId, "a3");
});

test("siblings are counted at the root and below, and the newest below a sibling is found", () => {
  let transcript = withListing(
    emptyTranscript("c1"),
    listing([answer("a3", "q2"), question("q2", { children: ["a2", "a3"] })], { roots: ["q1", "q2"] }),
    FIRST,
  );
  assert.deepEqual(siblingsOf(transcript, transcript.messages.get("q2")), { index: 1, count: 2, previousId: "q1", nextId: null });
  assert.deepEqual(siblingsOf(transcript, transcript.messages.get("a3")), { index: 1, count: 2, previousId: "a2", nextId: null });
  assert.deepEqual(newestBelow(transcript, "q2"), { leafId: "a3", isKnown: true });
  assert.deepEqual(newestBelow(transcript, "q1"), { leafId: "q1", isKnown: false });
  transcript = withLeaf(transcript, "q2");
  assert.deepEqual(shownPath(transcript).map((message) => message.id), ["q2"]);
});

test("a regenerated answer is a sibling, whichever of frame and reply comes first", () => {
  const before = play(begun(), log(2)).transcript;
  const again = { message: answer("a2", "q1", { status: "queued", response_id: "r2", last_seq: 0 }), response: response("r2", "a2", "q1") };
  for (const order of [[true, false], [false, true], [true, true]]) {
    let transcript = before;
    for (const isMine of order) transcript = withAccepted(transcript, again, { isMine });
    assert.equal(transcript.leafId, "a2");
    assert.deepEqual(transcript.messages.get("q1").children, ["a1", "a2"]);
  }
});

test("what comes while a listing is on its way is not lost by it", () => {
  let transcript = withListing(emptyTranscript("c1"), listing([answer("a1", "q1"), question("q1", { children: ["a1"] })]), FIRST);
  const askedAtLeaf = transcript.leafId;
  const old = listing([answer("a1", "q1"), question("q1", { children: ["a1"] })]);
  transcript = withAccepted(transcript, { message: question("q2", { parent_id: "a1" }), response: response("r2", "a2", "q2") }, { isMine: false });
  transcript = withListing(transcript, old, { askedAtLeaf, isNewest: true });
  assert.equal(transcript.leafId, "a2");
  assert.deepEqual(shownPath(transcript).map((message) => message.id), ["q1", "a1", "q2", "a2"]);
});

test("earlier pages join at the top, and stay through a reading of the first page", () => {
  const [q1, a1, q2, a2] = [question("q1", { children: ["a1"] }), answer("a1", "q1", { children: ["q2"] }), question("q2", { parent_id: "a1", children: ["a2"] }), answer("a2", "q2")];
  const firstPage = listing([a2, q2], { next_cursor: "above" });
  let transcript = withListing(emptyTranscript("c1"), firstPage, FIRST);
  assert.equal(transcript.earlierCursor, "above");
  transcript = withEarlier(transcript, listing([a1, q1]));
  assert.deepEqual(shownPath(transcript).map((message) => message.id), ["q1", "a1", "q2", "a2"]);
  assert.equal(transcript.earlierCursor, null);
  transcript = withListing(transcript, firstPage, { askedAtLeaf: "a2", isNewest: true });
  assert.equal(transcript.earlierCursor, null);
  assert.equal(shownPath(transcript).length, 4);
});
