// Frames and messages as the server makes them, and chance that repeats.

/** @param {string} id */
export function question(id, change = {}) {
  return { id, parent_id: null, role: "user", content: `question ${id}`, status: "completed", usage: null, created_at: "2026-01-01T00:00:00Z", children: [], response_id: null, last_seq: 0, ...change };
}

export function answer(id, parentId, change = {}) {
  return { ...question(id), parent_id: parentId, role: "assistant", content: `answer ${id}`, response_id: `response-${id}`, last_seq: 9, ...change };
}

export function listing(items, { next_cursor = null, roots = ["q1"] } = {}) {
  return { items, next_cursor, roots };
}

export function frame(type, seq, data = {}, responseId = "r1") {
  return { type, seq, data, response_id: responseId, conversation_id: "c1" };
}

export function delta(seq, text, responseId = "r1") {
  return frame("response.output_text.delta", seq, { text }, responseId);
}

/** A sequence of numbers in [0, 1) that is the same for the same seed. */
export function random(seed) {
  let state = seed;
  return () => {
    state = (state * 1103515245 + 12345) & 0x7fffffff;
    return state / 0x80000000;
  };
}

export function shuffled(items, next) {
  const left = [...items];
  return items.map(() => left.splice(Math.floor(next() * left.length), 1)[0]);
}

/** Timers that only run when the test says so. */
export class Clock {
  constructor() {
    this.now = 0;
    this.timers = new Map();
    this.lastTimer = 0;
    this.setTimer = (callback, ms) => {
      this.lastTimer += 1;
      this.timers.set(this.lastTimer, { at: this.now + ms, callback });
      return this.lastTimer;
    };
    this.clearTimer = (timer) => void this.timers.delete(timer);
  }

  advance(ms) {
    const until = this.now + ms;
    for (;;) {
      const due = [...this.timers].filter(([, { at }]) => at <= until).sort((a, b) => a[1].at - b[1].at)[0];
      if (!due) break;
      this.timers.delete(due[0]);
      this.now = due[1].at;
      due[1].callback();
    }
    this.now = until;
  }
}

/** Storage as browsers have it. */
export class MemoryStorage {
  constructor() {
    this.map = new Map();
  }
  get length() {
    return this.map.size;
  }
  key(index) {
    return [...this.map.keys()][index] ?? null;
  }
  getItem(key) {
    return this.map.get(key) ?? null;
  }
  setItem(key, value) {
    this.map.set(key, String(value));
  }
  removeItem(key) {
    this.map.delete(key);
  }
}
