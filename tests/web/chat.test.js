// What comes from the server ends up where it belongs, and trouble leads to the state and not to an exception.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Refusal, Unreachable } from "../../web/js/api.js";
import { Chat } from "../../web/js/chat.js";
import { Commands } from "../../web/js/commands.js";
import { Outbox } from "../../web/js/outbox.js";
import { GONE, initialState } from "../../web/js/state.js";
import { Store } from "../../web/js/store.js";
import { answer, delta, frame, listing, MemoryStorage, question } from "./support.js";

const settled = () => new Promise((resolve) => setImmediate(resolve));

/** A chat whose server answers with what the test puts into `replies`, by the name of the call. */
function made({ currentId = "c1", replies = {} } = {}) {
  const calls = [];
  const defaults = {
    conversations: () => ({ items: [], next_cursor: null }),
    conversation: (id) => ({ id, title: id, version: 1, updated_at: "2026-01-01T00:00:00Z", tags: [] }),
    messages: () => listing([answer("a1", "q1", { status: "in_progress", content: "one", last_seq: 3, response_id: "r1" }), question("q1", { children: ["a1"] })]),
  };
  const api = new Proxy({}, {
    get: (_target, name) => async (...args) => {
      calls.push([name, ...args]);
      const reply = (replies[name] ?? defaults[name])(...args);
      if (reply instanceof Error) throw reply;
      return reply;
    },
  });
  const sent = [];
  const seen = { reconnects: 0, signedOut: 0, flushes: 0, addresses: [] };
  const store = new Store({ ...initialState("t1"), phase: "signed_in", currentId }, () => undefined);
  const chat = new Chat(api, store, new Outbox(new MemoryStorage(), "u1"), {
    makeSocket: () => ({
      open: () => undefined,
      close: () => undefined,
      reconnect: () => (seen.reconnects += 1),
      send: (type, data) => sent.push([type, data.conversation_id]),
    }),
    makeSender: () => ({ flush: () => (seen.flushes += 1), stop: () => undefined }),
    onSignedOut: () => (seen.signedOut += 1),
    showAddress: (id) => seen.addresses.push(id),
    tellTabs: () => undefined,
  });
  return { chat, store, calls, sent, seen, commands: new Commands(() => chat, () => 1), text: (id) => chat.transcript("c1").messages.get(id)?.content };
}

test("after every connection the shown conversation is subscribed to, read again, and what waits is sent", async () => {
  const { chat, sent, calls, seen } = made();
  chat.receive({ type: "session.ready", data: {} });
  await settled();
  assert.deepEqual(sent, [["conversation.subscribe", "c1"]]);
  assert.deepEqual(calls.map(([name]) => name).sort(), ["conversation", "conversations", "messages"]);
  assert.equal(seen.flushes, 1);
});

test("a gap makes the socket resume, and what was read stays", async () => {
  const { chat, seen, text } = made();
  await chat.load("c1");
  chat.receive(delta(4, " two"));
  chat.receive(delta(6, " four"));
  assert.equal(seen.reconnects, 1);
  assert.equal(text("a1"), "one two");
  assert.deepEqual(chat.resumePoints(), [{ response_id: "r1", last_seq: 4 }]);
});

test("where the server cannot resume, the stored message decides", async () => {
  const { chat, text } = made();
  await chat.load("c1");
  chat.receive(delta(4, " two"));
  chat.receive({ type: "resync_required", response_id: "r1", data: { response_id: "r1", reason: "impossible" } });
  await settled();
  assert.equal(text("a1"), "one");
  chat.receive(delta(4, " zwei"));
  assert.equal(text("a1"), "one zwei");
});

test("another conversation's frames change nothing that is shown (oobabooga/textgen#7555)", async () => {
  const { chat, text, store } = made();
  await chat.load("c1");
  chat.receive({ ...delta(4, " strange"), conversation_id: "c2", response_id: "r1" });
  assert.equal(text("a1"), "one");
  assert.equal(store.state.currentId, "c1");
});

test("a frame of an unknown type is passed over", () => {
  const { chat, store } = made();
  const before = store.state;
  chat.receive({ type: "conversation.status_changed", conversation_id: "c1", data: {} });
  chat.receive({ type: "something.new", data: { conversation: null } });
  assert.equal(store.state, before);
});

test("a conversation that is gone leaves the list and says so", async () => {
  const { chat, store } = made({ replies: { messages: () => new Refusal(404, "not_found", "There is none.", null) } });
  await chat.load("c1");
  assert.equal(store.state.problem, GONE);
  assert.equal(store.state.transcripts.size, 0);
});

test("a conversation that is deleted on another device leaves the list and says so", async () => {
  const item = { id: "c1", title: "One", version: 1, updated_at: "2026-01-01T00:00:00Z" };
  const { chat, store } = made({ replies: { conversations: () => ({ items: [item], next_cursor: null }) } });
  await chat.refreshList();
  await chat.load("c1");
  chat.receive({ type: "conversation.updated", conversation_id: "c1", data: { deleted: true } });
  assert.deepEqual(store.state.list.items, []);
  assert.equal(store.state.problem, GONE);
  chat.receive({ type: "response.cancelled", conversation_id: "c1", response_id: "r1", seq: 5, data: {} });
  assert.equal(store.state.problem, GONE);
});

test("a sign-in that has ended ends the page's, and an unreachable server does not", async () => {
  const ended = made({ replies: { messages: () => new Refusal(401, "unauthenticated", "Who?", null) } });
  await ended.chat.load("c1");
  assert.equal(ended.seen.signedOut, 1);
  const away = made({ replies: { messages: () => new Unreachable() } });
  await away.chat.load("c1");
  assert.equal(away.seen.signedOut, 0);
  assert.deepEqual(away.store.state.problem, { key: "problem.unreachable" });
});

test("why an answer failed is asked for once", async () => {
  const failed = listing([answer("a1", "q1", { status: "failed", response_id: "r1" }), question("q1", { children: ["a1"] })]);
  const { chat, calls } = made({ replies: { messages: () => failed, response: () => ({ error: { code: "x", message: "No ink." } }) } });
  await chat.load("c1");
  await chat.load("c1");
  assert.equal(chat.transcript("c1").messages.get("a1").error.message, "No ink.");
  assert.equal(calls.filter(([name]) => name === "response").length, 1);
});

test("leaving a conversation unsubscribes from it (open-webui/open-webui#6172)", async () => {
  const { chat, sent, commands } = made();
  await chat.load("c1");
  commands.open("c2");
  commands.open(null);
  assert.deepEqual(sent, [
    ["conversation.unsubscribe", "c1"],
    ["conversation.subscribe", "c2"],
    ["conversation.unsubscribe", "c2"],
  ]);
});

test("messages of one moment keep their order", () => {
  const { chat, commands } = made();
  for (const content of ["1", "2", "3", "4", "5"]) assert.ok(commands.send(content));
  assert.deepEqual(chat.outbox.messages().map(({ content }) => content), ["1", "2", "3", "4", "5"]);
});

test("a full storage keeps the words in the composer and says so", () => {
  const { chat, commands, store } = made();
  chat.outbox.put = () => {
    throw new Error("QuotaExceededError");
  };
  assert.equal(commands.send("words"), false);
  assert.deepEqual(store.state.notice, { key: "storageFull" });
});

test("at the newest end the server chooses what a message follows; on an old branch, in an edit and at the root the page does", async () => {
  const { chat, commands } = made({ replies: { messages: (_id, { leaf }) =>
    leaf === "a1" ? listing([answer("a1", "q1"), question("q1", { children: ["a1"] })], { roots: ["q1", "q2"] }) : listing([answer("a2", "q2"), question("q2", { children: ["a2"] })], { roots: ["q1", "q2"] }) } });
  await chat.load("c1");
  commands.send("newest");
  await commands.showBranch("a1");
  commands.send("old branch");
  commands.edit(chat.transcript("c1").messages.get("q1"), "root");
  assert.deepEqual(chat.outbox.messages().map((unsent) => unsent.parent_id), [undefined, "a1", null]);
});

test("the end of an answer is announced, the growing of it is not", async () => {
  const { chat, store } = made();
  await chat.load("c1");
  chat.receive(delta(4, " two"));
  assert.equal(store.state.announcement, "");
  chat.receive(frame("response.completed", 5, { usage: null }));
  assert.deepEqual(store.state.announcement, { key: "spokenCompleted", values: { content: "one two" } });
});

test("another answer is asked for once, however often the button is pressed", async () => {
  const accepted = { response: { id: "r2", message_id: "a2", parent_id: "q1", status: "queued" } };
  const { commands, chat, calls } = made({ replies: { regenerate: () => accepted } });
  await chat.load("c1");
  const old = chat.transcript("c1").messages.get("a1");
  await Promise.all([commands.regenerate(old), commands.regenerate(old)]);
  assert.equal(calls.filter(([name]) => name === "regenerate").length, 1);
  await commands.regenerate(old);
  assert.equal(calls.filter(([name]) => name === "regenerate").length, 2);
});

test("what is written in a conversation that is gone begins a new one", async () => {
  const { commands, chat, store } = made();
  await chat.load("c1");
  chat.receive({ type: "conversation.updated", conversation_id: "c1", data: { deleted: true } });
  assert.equal(store.state.problem, GONE);
  commands.send("still to be said");
  assert.deepEqual([store.state.currentId, store.state.problem], [null, null]);
  assert.deepEqual(store.state.unsent.map(({ content, conversation_id }) => [content, conversation_id]), [["still to be said", null]]);
});

test("what was not sent goes with the conversation it was for", async () => {
  const { commands, chat, store } = made({ replies: { deleteConversation: () => null } });
  commands.send("never arrived");
  commands.putDraft("c1", "half a thought");
  commands.putWording(question("q1"), "another wording");
  await commands.conversations.remove({ id: "c1" });
  assert.equal(chat.outbox.draft("c1.q1"), "");
  assert.deepEqual([store.state.unsent, chat.outbox.draft("c1")], [[], ""]);
});
