/**
 * Where a conversation is scrolled to. At its end it stays at the end while words are added; elsewhere the line that is read stays
 * where it is, whatever gets another height above it. Owns the scroll position of one frame; views tell it when something changed.
 */

/** Closer to the end than this counts as being there. */
const END_PX = 48;
/** Where a message that was looked for is put: this far from the upper edge, as a part of the frame. */
const SHOWN_AT = 0.2;

export class Scroller {
  /** @param {(isAway: boolean) => void} onAway told when the end goes out of sight, or comes back */
  constructor(onAway) {
    this.onAway = onAway;
    /** @type {HTMLElement | null} */
    this.frame = null;
    this.isFollowing = true;
    this.last = { top: 0, height: 0, clientHeight: 0 };
    /** @type {{node: Element, top: number} | null} the message that is to stay where it is */
    this.anchor = null;
    /** @type {Set<() => void>} */
    this.listeners = new Set();
  }

  /**
   * @param {HTMLElement} frame what is scrolled
   * @param {HTMLElement} list what is in it
   * @returns {() => void} ends it
   */
  attach(frame, list) {
    this.frame = frame;
    const scrolled = () => this.scrolled();
    // A turned phone, a higher composer, a keyboard, a code block that folds: whatever changes its height is settled before it is seen.
    const observer = new ResizeObserver(() => this.settle());
    observer.observe(frame);
    observer.observe(list);
    frame.addEventListener("scroll", scrolled, { passive: true });
    return () => {
      observer.disconnect();
      frame.removeEventListener("scroll", scrolled);
      this.frame = null;
    };
  }

  /**
   * @param {() => void} listener called when another part is in sight
   * @returns {() => void} ends it
   */
  subscribe(listener) {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  /** To the end, and stays there. */
  follow() {
    this.isFollowing = true;
    this.anchor = null;
    if (!this.frame) return;
    this.frame.scrollTop = this.frame.scrollHeight;
    this.moved();
  }

  /** Something has got another height: the end stays the end, or what is read stays where it is. */
  settle() {
    if (!this.frame) return;
    this.noticeWish();
    if (this.isFollowing) {
      this.follow();
      return;
    }
    const { node, top } = this.anchor ?? {};
    if (node?.isConnected && top !== undefined) {
      const by = this.topOf(node) - top;
      if (Math.abs(by) >= 1) this.frame.scrollTop += by;
    }
    this.moved();
  }

  /** Puts a message into sight and keeps it there. @param {Element} node */
  show(node) {
    if (!this.frame) return;
    this.isFollowing = false;
    this.frame.scrollTop += this.topOf(node) - this.frame.clientHeight * SHOWN_AT;
    this.moved();
    this.anchor = { node, top: this.topOf(node) };
  }

  /** To where a message will be that is not drawn yet. @param {number} top */
  jump(top) {
    if (!this.frame) return;
    this.isFollowing = false;
    this.anchor = null;
    this.frame.scrollTop = top - this.frame.clientHeight * SHOWN_AT;
    this.moved();
  }

  scrolled() {
    this.noticeWish();
    this.moved();
  }

  /**
   * Text that grows below is no reason to let go of the end, and neither is a scroll position that a higher frame did not allow
   * any more: only a person who scrolls up is. The browser tells of that with the next frame only, so it is looked for each time.
   */
  noticeWish() {
    if (!this.frame) return;
    const [before, now] = [this.last, measuresOf(this.frame)];
    const isAtEnd = now.height - now.top - now.clientHeight < END_PX;
    const isForced = now.clientHeight > before.clientHeight && now.top >= before.height - now.clientHeight - 1;
    if (isAtEnd || (now.top < before.top && !isForced)) this.isFollowing = isAtEnd;
  }

  moved() {
    if (!this.frame) return;
    this.last = measuresOf(this.frame);
    this.anchor = this.isFollowing ? null : this.firstInSight();
    this.onAway(!this.isFollowing);
    for (const listener of this.listeners) listener();
  }

  /** @returns {{node: Element, top: number} | null} */
  firstInSight() {
    if (!this.frame) return null;
    const { top: edge, bottom: lowerEdge } = this.frame.getBoundingClientRect();
    for (const node of this.frame.querySelectorAll("[data-message-id]")) {
      const { top, bottom } = node.getBoundingClientRect();
      if (bottom > edge) return top < lowerEdge ? { node, top: top - edge } : null;
    }
    return null;
  }

  /** @param {Element} node */
  topOf(node) {
    return node.getBoundingClientRect().top - (this.frame?.getBoundingClientRect().top ?? 0);
  }
}

/** @param {HTMLElement} element */
function measuresOf({ scrollTop, scrollHeight, clientHeight }) {
  return { top: scrollTop, height: scrollHeight, clientHeight };
}
