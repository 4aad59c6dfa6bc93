// A visitor's chat: what is typed arrives once, whoever answers, and whatever happens to the connection and the token.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Refused } from "../../web/widget/door.js";
import { Memory } from "../../web/widget/memory.js";
import { Visit } from "../../web/widget/visit.js";
import { MemoryStorage } from "./support.js";

const settled = () => new Promise((resolve) => setImmediate(resolve));

class Wire {
  readyState = 1;
  sent = [];
  close() {
    this.readyState = 3;
  }
  send(text) {
    this.sent.push(JSON.parse(text));
  }
  says(frame) {
    this.onmessage({ data: JSON.stringify({ data: {}, ...frame }) });
  }
  of(type) {
    return this.sent.filter((frame) => frame.type === type).map((frame) => frame.data);
  }
}

function makeVisit({ newest = null, enter = async () => ({ token: "t", visitor_key: "key", visitor: {} }) } = {}) {
  const wires = [];
  const entries = [];
  const local = new MemoryStorage();
  const memory = new Memory("w", () => local, () => local);
  const door = {
    enter: async (entry) => {
      entries.push(entry);
      return enter(entry, entries.length);
    },
    newestConversation: async () => newest,
    beginConversation: async () => ({ id: "c", state: "bot" }),
    messages: async () => ({ items: [], next_cursor: null, roots: [] }),
    socketAddress: async () => new URL("ws://kvasir.example/ws"),
  };
  let ids = 0;
  const visit = new Visit(door, memory, {
    openSocket: () => {
      wires.push(new Wire());
      return wires.at(-1);
    },
    setTimer: () => 0,
    clearTimer: () => undefined,
    random: () => 0,
    nowMs: () => 0,
    newId: () => `id${(ids += 1)}`,
    changed: () => undefined,
  });
  const connected = async () => {
    await settled();
    wires.at(-1).onopen({});
    wires.at(-1).says({ type: "session.ready", data: { heartbeat_s: 30 } });
    await settled();
    return wires.at(-1);
  };
  return { visit, wires, entries, memory, connected };
}

test("what is typed before there is a connection is sent when there is, and again after a cut, as the same message", async () => {
  const { visit, connected, memory } = makeVisit();
  await visit.start();
  visit.send("hello");
  assert.equal(memory.waiting.length, 1);
  const first = await connected();
  const [sent] = first.of("message.create");
  assert.equal(sent.content, "hello");
  first.onclose({ code: 1006 });
  visit.socket.open();
  const second = await connected();
  assert.deepEqual(second.of("message.create"), [sent]);
  const message = { id: "m", parent_id: null, role: "user", content: "hello", status: "completed", children: [], response_id: null, last_seq: 0 };
  second.says({ type: "message.created", conversation_id: "c", data: { message, response: null, client_message_id: sent.client_message_id } });
  assert.deepEqual(visit.unsent.list, []);
  assert.deepEqual(memory.waiting, []);
  assert.deepEqual(visit.messages.map(({ id }) => id), ["m"]);
});

test("an hour later the token has ended, and the visitor comes in again as the same one", async () => {
  const { visit, entries, connected } = makeVisit();
  await visit.start();
  (await connected()).onclose({ code: 4001 });
  await settled();
  await connected();
  assert.deepEqual(entries, [{}, { visitor_key: "key" }]);
  assert.equal(visit.isConnected, true);
});

test("whom the server has forgotten begins anew; whom the site has to sign in is told so", async () => {
  const forgotten = makeVisit({
    enter: async (entry) => {
      if (entry.visitor_key) throw new Refused(401, "visitor_key_refused", null);
      return { token: "t", visitor_key: "another", visitor: {} };
    },
  });
  forgotten.memory.visitorKey = "old";
  await forgotten.visit.start();
  assert.equal(forgotten.memory.visitorKey, "another");
  const strangers = makeVisit({
    enter: async () => {
      throw new Refused(401, "visitor_token_required", null);
    },
  });
  await strangers.visit.start();
  assert.deepEqual([strangers.visit.phase, strangers.visit.problem], ["refused", "stranger"]);
});

test("who answers is shown, and asking for a person begins a conversation where there is none", async () => {
  const { visit, connected } = makeVisit();
  await visit.start();
  const wire = await connected();
  visit.requestPerson();
  await settled();
  assert.deepEqual(wire.of("handoff.request"), [{ conversation_id: "c" }]);
  wire.says({ type: "conversation.status_changed", conversation_id: "c", data: { state: "queued", agent: null } });
  assert.deepEqual([visit.state, visit.wantsPerson], ["queued", false]);
  wire.says({ type: "conversation.status_changed", conversation_id: "c", data: { state: "human", agent: { id: "1", name: "Lena" } } });
  wire.says({ type: "typing", conversation_id: "c", data: { author: { name: "Lena" } } });
  assert.equal(visit.typist.name, "Lena");
  wire.says({ type: "conversation.status_changed", conversation_id: "another", data: { state: "bot" } });
  assert.equal(visit.state, "human");
});

test("a rating is thanked for when the server has taken it, and not when it has refused it or gone", async () => {
  const { visit, connected } = makeVisit();
  await visit.start();
  const wire = await connected();
  visit.rate(4, "");
  assert.deepEqual(wire.of("feedback.create"), [], "there is nothing to rate yet");
  visit.requestPerson();
  await settled();
  const answer = { id: "a", parent_id: null, role: "assistant", content: "hi", status: "completed", children: [], response_id: null, last_seq: 0 };
  wire.says({ type: "message.created", conversation_id: "c", data: { message: answer, response: null, client_message_id: null } });
  visit.rate(4, "");
  assert.deepEqual(wire.of("feedback.create"), [{ message_id: "a", rating: 4, scale: "stars" }]);
  assert.equal(visit.rating.state, "sending");
  wire.says({ type: "feedback.created", reply_to: wire.sent.at(-1).id });
  assert.deepEqual([visit.rating.stars, visit.rating.state], [4, "kept"]);
  visit.rate(5, "very quick");
  wire.says({ type: "error", reply_to: wire.sent.at(-1).id, data: { code: "not_an_answer" } });
  assert.equal(visit.rating.state, "refused");
  visit.rate(5, "very quick");
  wire.onclose({ code: 1006 });
  assert.equal(visit.rating.state, "refused");
});

test("who signs in while somebody anonymous is coming in is who is here", async () => {
  let answerFirst = () => undefined;
  const { visit, entries, connected } = makeVisit({
    enter: (entry) =>
      entry.token ? Promise.resolve({ token: "ann", visitor_key: null, visitor: {} }) : new Promise((resolve) => (answerFirst = () => resolve({ token: "nobody", visitor_key: "k", visitor: {} }))),
  });
  const first = visit.start();
  visit.identify("signed");
  await settled();
  answerFirst();
  await first;
  await connected();
  assert.deepEqual(entries, [{}, { token: "signed" }]);
  assert.deepEqual([visit.phase, visit.isConnected], ["inside", true]);
});
