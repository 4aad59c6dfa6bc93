// The socket: hello first, resume always, give up silence, come back, and know when not to.

import assert from "node:assert/strict";
import { test } from "node:test";
import { backoffMs } from "../../web/js/backoff.js";
import { LiveSocket } from "../../web/js/socket.js";
import { Clock } from "./support.js";

class Wire {
  constructor() {
    this.readyState = 0;
    this.sent = [];
    this.isClosed = false;
  }
  send(text) {
    this.sent.push(JSON.parse(text));
  }
  close() {
    this.isClosed = true;
  }
  opens() {
    this.readyState = 1;
    this.onopen();
  }
  brings(frame) {
    this.onmessage({ data: typeof frame === "string" ? frame : JSON.stringify(frame) });
  }
  breaks(code = 1006) {
    this.readyState = 3;
    this.onclose({ code });
  }
}

function made({ points = [] } = {}) {
  const clock = new Clock();
  const wires = [];
  const seen = { frames: [], connections: [], refused: 0 };
  const socket = new LiveSocket({
    connect: () => {
      wires.push(new Wire());
      return wires.at(-1);
    },
    resumePoints: () => points,
    onFrame: (frame) => seen.frames.push(frame),
    onConnection: (connection) => seen.connections.push(connection),
    onHandshakeRefused: () => (seen.refused += 1),
    setTimer: clock.setTimer,
    clearTimer: clock.clearTimer,
    random: () => 0.5,
  });
  return { clock, wires, seen, socket };
}

const READY = { type: "session.ready", data: { heartbeat_s: 30 } };

test("hello comes first, says the protocol, and where reading stopped", () => {
  const { socket, wires, seen } = made({ points: [{ response_id: "r1", last_seq: 4 }] });
  socket.open();
  wires[0].opens();
  assert.deepEqual(wires[0].sent[0].data, { protocol: 1, resume: [{ response_id: "r1", last_seq: 4 }] });
  assert.equal(wires[0].sent[0].type, "session.hello");
  wires[0].brings(READY);
  assert.deepEqual(seen.connections, ["connecting", "open"]);
});

test("a lost connection comes back by itself, later each time, and resumes", () => {
  const { socket, wires, clock } = made({ points: [{ response_id: "r1", last_seq: 9 }] });
  socket.open();
  wires[0].opens();
  wires[0].brings(READY);
  wires[0].breaks();
  const waits = [];
  for (let tries = 1; tries <= 7; tries += 1) {
    const before = clock.now;
    while (wires.length === tries) clock.advance(50);
    waits.push(clock.now - before);
    if (tries < 7) wires.at(-1).breaks();
  }
  assert.ok(waits.every((wait, index) => index === 0 || wait >= waits[index - 1]), String(waits));
  assert.ok(waits.at(-1) > 10 * waits[0] && waits.at(-1) <= 15_000, String(waits));
  wires.at(-1).opens();
  assert.deepEqual(wires.at(-1).sent[0].data.resume, [{ response_id: "r1", last_seq: 9 }]);
});

test("a clean close by a proxy is a lost connection like any other (recoupable/app#1924)", () => {
  for (const code of [1000, 1001, 1005, 1006, 1011, 1013, 4008]) {
    const { socket, wires, seen, clock } = made();
    socket.open();
    wires[0].opens();
    wires[0].brings(READY);
    wires[0].breaks(code);
    assert.equal(seen.connections.at(-1), "lost");
    clock.advance(1000);
    assert.equal(wires.length, 2, `after ${code}`);
  }
});

test("some closes mean: do not come back", () => {
  for (const [code, connection] of [[1002, "outdated"], [1008, "forbidden"], [4001, "signed_out"], [4003, "forbidden"], [4009, "kicked"]]) {
    const { socket, wires, seen, clock } = made();
    socket.open();
    wires[0].opens();
    wires[0].breaks(code);
    clock.advance(120_000);
    assert.equal(seen.connections.at(-1), connection);
    assert.equal(wires.length, 1);
    socket.awaken();
    assert.equal(wires.length, 1);
  }
});

test("after too many requests it waits longer", () => {
  const { socket, wires, clock } = made();
  socket.open();
  wires[0].opens();
  wires[0].breaks(4029);
  clock.advance(1500);
  assert.equal(wires.length, 1);
  clock.advance(3000);
  assert.equal(wires.length, 2);
});

test("a connection that says nothing after a ping is given up", () => {
  const { socket, wires, clock, seen } = made();
  socket.open();
  wires[0].opens();
  wires[0].brings(READY);
  clock.advance(30_000);
  assert.equal(wires[0].sent.at(-1).type, "ping");
  wires[0].brings({ type: "pong", data: {} });
  clock.advance(29_000);
  assert.equal(wires.length, 1);
  clock.advance(12_000);
  assert.equal(seen.connections.at(-1), "lost");
  assert.ok(wires[0].isClosed);
  clock.advance(1000);
  assert.equal(wires.length, 2);
});

test("a connection that never gets ready is given up too", () => {
  const { socket, wires, clock } = made();
  socket.open();
  wires[0].opens();
  clock.advance(11_000);
  assert.ok(wires[0].isClosed);
  assert.equal(wires.length, 2);
});

test("a connection that is never made is given up, and the next one may be", () => {
  const { socket, wires, clock } = made();
  socket.open();
  clock.advance(9_999);
  assert.ok(!wires[0].isClosed);
  clock.advance(1);
  assert.ok(wires[0].isClosed);
  clock.advance(1_000);
  wires[1].opens();
  wires[1].brings(READY);
  clock.advance(20_000);
  assert.ok(!wires[1].isClosed);
});

test("a refused handshake makes the page ask whether the sign-in still holds", () => {
  const { socket, wires, seen } = made();
  socket.open();
  wires[0].breaks();
  assert.equal(seen.refused, 1);
});

test("what an old connection still says is ignored after it was given up", () => {
  const { socket, wires, clock, seen } = made();
  socket.open();
  wires[0].opens();
  wires[0].brings(READY);
  socket.reconnect();
  clock.advance(1000);
  wires[0].breaks();
  assert.equal(wires.length, 2);
  const frames = seen.frames.length;
  wires[0].brings({ type: "pong", data: {} });
  assert.equal(seen.frames.length, frames);
});

test("what is not a frame is ignored", () => {
  const { socket, wires, seen } = made();
  socket.open();
  wires[0].opens();
  for (const text of ["", "{", "null", "[]", "7", '{"type":7}']) wires[0].brings(text);
  assert.deepEqual(seen.frames, []);
  wires[0].brings('{"type":"pong"}');
  assert.deepEqual(seen.frames, [{ type: "pong", data: {} }]);
});

test("closing ends every timer", () => {
  const { socket, wires, clock, seen } = made();
  socket.open();
  wires[0].opens();
  wires[0].brings(READY);
  socket.close();
  assert.equal(clock.timers.size, 0);
  assert.equal(seen.connections.at(-1), "closed");
});

test("back-off doubles, has jitter, and ends at a quarter of a minute", () => {
  assert.deepEqual([1, 2, 3].map((failures) => backoffMs(failures, () => 0)), [200, 400, 800]);
  assert.equal(backoffMs(1, () => 0.999) < 400, true);
  assert.equal(backoffMs(50, () => 0), 7500);
});
