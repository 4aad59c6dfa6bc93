// What was typed reaches the server once and in order, whatever happens on the way.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Refusal, Unreachable } from "../../web/js/api.js";
import { Outbox } from "../../web/js/outbox.js";
import { Sender } from "../../web/js/sender.js";
import { Clock, MemoryStorage } from "./support.js";

/** A server that stores each client_message_id once; `troubles` are what the next calls do instead of answering. */
class Server {
  constructor(troubles = []) {
    this.troubles = troubles;
    this.rows = [];
    this.threads = new Map();
    this.calls = 0;
  }

  async createConversation(key) {
    await this.trouble(() => undefined);
    if (!this.threads.has(key)) this.threads.set(key, { id: `c${this.threads.size + 1}`, title: "", version: 1 });
    return this.threads.get(key);
  }

  async createMessage(conversationId, message) {
    const store = () => {
      if (!this.rows.some((row) => row.client_message_id === message.client_message_id)) this.rows.push({ conversationId, ...message });
    };
    await this.trouble(store);
    store();
    return { message: { id: `m-${message.client_message_id}` }, response: { id: "r" } };
  }

  async trouble(store) {
    this.calls += 1;
    const trouble = this.troubles.shift();
    if (trouble === "reply lost") store();
    if (trouble === "reply lost" || trouble === "unreachable") throw new Unreachable();
    if (trouble) throw trouble;
  }
}

function made(troubles) {
  const clock = new Clock();
  const server = new Server(troubles);
  const outbox = new Outbox(new MemoryStorage(), "u1");
  const seen = { accepted: [], conversations: [], signedOut: 0 };
  const sender = new Sender(server, outbox, {
    onConversation: (_unsent, conversation) => seen.conversations.push(conversation.id),
    onAccepted: (unsent) => seen.accepted.push(unsent.content),
    onChange: () => undefined,
    onSignedOut: () => (seen.signedOut += 1),
    setTimer: clock.setTimer,
    clearTimer: clock.clearTimer,
    random: () => 0.5,
  });
  const write = (content, change = {}) =>
    outbox.put({ client_message_id: `id-${content}`, conversation_id: "c1", thread_id: "t1", content, created_at: outbox.messages().length, refused: null, ...change });
  /** Lets time pass until nothing is left to wait for. */
  const settle = async () => {
    for (let round = 0; round < 50; round += 1) {
      await new Promise((resolve) => setImmediate(resolve));
      clock.advance(20_000);
    }
  };
  return { clock, server, outbox, sender, seen, write, settle };
}

test("five messages are five rows in the order they were written (open-webui/open-webui#23181)", async () => {
  const { server, sender, seen, write, settle } = made();
  for (const content of ["1", "2", "3", "4", "5"]) {
    write(content);
    void sender.flush();
  }
  await settle();
  assert.deepEqual(server.rows.map((row) => row.content), ["1", "2", "3", "4", "5"]);
  assert.deepEqual(seen.accepted, ["1", "2", "3", "4", "5"]);
});

test("a lost reply or a lost request never doubles or loses a message", async () => {
  const { server, outbox, sender, write, settle } = made(["unreachable", "reply lost", "reply lost", "unreachable"]);
  write("one");
  write("two");
  void sender.flush();
  await settle();
  assert.deepEqual(server.rows.map((row) => row.content), ["one", "two"]);
  assert.deepEqual(outbox.messages(), []);
});

test("several first messages of a new thread make one conversation", async () => {
  const { server, sender, seen, write, settle } = made(["reply lost"]);
  write("one", { conversation_id: null });
  write("two", { conversation_id: null });
  void sender.flush();
  await settle();
  assert.equal(server.threads.size, 1);
  assert.deepEqual(new Set(server.rows.map((row) => row.conversationId)), new Set(["c1"]));
  assert.deepEqual(seen.accepted, ["one", "two"]);
});

test("a refusal keeps the words, says why, and lets the next one go", async () => {
  const { outbox, sender, seen, write, settle } = made([new Refusal(413, "payload_too_large", "Too long.", null)]);
  write("long");
  write("short");
  void sender.flush();
  await settle();
  assert.deepEqual(seen.accepted, ["short"]);
  assert.deepEqual(outbox.messages().map(({ content, refused }) => [content, refused.or]), [["long", "Too long."]]);
});

test("an overloaded server is asked again after the time it names", async () => {
  const { clock, server, sender, write } = made([new Refusal(503, "unavailable", "Full.", 7)]);
  write("one");
  await sender.flush();
  clock.advance(6_900);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(server.rows.length, 0);
  clock.advance(200);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(server.rows.length, 1);
});

test("what waits says why, and what was taken back meanwhile does not come back", async () => {
  const { outbox, sender, write, clock, server } = made([new Refusal(503, "busy", "The database is away.", 30), new Refusal(503, "busy", "Still away.", 30)]);
  write("one");
  await sender.flush();
  assert.deepEqual(outbox.messages().map(({ delayed, refused }) => [delayed.or, refused]), [["The database is away.", null]]);
  const trying = sender.flush();
  outbox.remove("id-one");
  await trying;
  assert.deepEqual(outbox.messages(), []);
  clock.advance(31_000);
  assert.deepEqual(server.rows, []);
});

test("a server that fails each time is not asked for ever", async () => {
  const { outbox, sender, write, settle } = made(Array.from({ length: 5 }, () => new Refusal(500, "internal_error", "It broke.", null)));
  write("one");
  void sender.flush();
  await settle();
  assert.deepEqual(outbox.messages().map(({ refused }) => refused.or), ["It broke."]);
});

test("without a sign-in nothing is lost and nothing is tried", async () => {
  const { outbox, sender, seen, write, settle } = made([new Refusal(401, "unauthenticated", "Who are you?", null)]);
  write("one");
  void sender.flush();
  await settle();
  assert.equal(seen.signedOut, 1);
  assert.deepEqual(outbox.messages().map(({ content, refused }) => [content, refused]), [["one", null]]);
});

test("a parent is sent only where the page means one", async () => {
  const { server, sender, write, settle } = made();
  write("after the newest");
  write("beside the first", { parent_id: null });
  void sender.flush();
  await settle();
  assert.equal("parent_id" in server.rows[0], false);
  assert.equal(server.rows[1].parent_id, null);
});

test("one person's words are not another's, and signing out forgets them", () => {
  const storage = new MemoryStorage();
  const [mine, yours] = [new Outbox(storage, "u1"), new Outbox(storage, "u2")];
  mine.put({ client_message_id: "1", conversation_id: null, thread_id: "t", content: "secret", created_at: 1, refused: null });
  mine.putDraft(null, "half a sentence");
  mine.putDraft("c1", "another");
  yours.putDraft("c1", "yours");
  assert.deepEqual(yours.messages(), []);
  assert.equal(yours.draft(null), "");
  mine.clear();
  assert.deepEqual(mine.messages(), []);
  assert.equal(mine.draft("c1"), "");
  assert.equal(yours.draft("c1"), "yours");
});

test("a damaged entry of the outbox is passed over", () => {
  const storage = new MemoryStorage();
  storage.setItem("kvasir.u1.unsent.x", "{");
  storage.setItem("kvasir.u1.unsent.y", "7");
  assert.deepEqual(new Outbox(storage, "u1").messages(), []);
});
