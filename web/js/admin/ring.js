/** The last values of something, the oldest go first. Pure. Holds the fifteen minutes of the charts. @template T */
export class Ring {
  /** @param {number} capacity */
  constructor(capacity) {
    this.capacity = capacity;
    /** @type {T[]} */
    this.slots = [];
    this.start = 0;
  }

  get length() {
    return this.slots.length;
  }

  /** @param {T} value */
  push(value) {
    if (this.slots.length < this.capacity) {
      this.slots.push(value);
      return;
    }
    this.slots[this.start] = value;
    this.start = (this.start + 1) % this.capacity;
  }

  /** @param {number} index from 0, the oldest; negative counts from the newest @returns {T | undefined} */
  at(index) {
    const place = index < 0 ? this.slots.length + index : index;
    return place < 0 || place >= this.slots.length ? undefined : this.slots[(this.start + place) % this.slots.length];
  }

  /** All of them, the oldest first. @returns {T[]} */
  values() {
    return [...this.slots.slice(this.start), ...this.slots.slice(0, this.start)];
  }
}
