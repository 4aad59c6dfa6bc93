/**
 * Whom agents talk with, and for how long somebody waits, as it is shown. Pure.
 *
 * @import { InboxItem } from "./wire.d.ts"
 */

/** How accounts of a widget's visitors begin; nobody else's do. */
const VISITOR = "visitor-";
const SHORT_CHARS = 4;

/**
 * What the site has said about a visitor is in the metadata of a visitor's conversation, which the server has written; in those of
 * other people it would be their own word.
 *
 * @param {InboxItem} item
 * @returns {{name: string | null, short: string, email: string | null, widget: string | null}}
 */
export function personOf(item) {
  const { name } = item.user;
  if (!name.startsWith(VISITOR)) return { name, short: "", email: null, widget: null };
  const { visitor = {}, widget = {} } = item.conversation.metadata ?? {};
  return {
    name: visitor.name ?? visitor.subject ?? null,
    short: name.slice(VISITOR.length, VISITOR.length + SHORT_CHARS),
    email: visitor.email ?? null,
    widget: widget.name ?? null,
  };
}

/**
 * @param {string | null} since
 * @param {number} nowMs
 * @returns {{key: "seconds" | "minutes" | "hours" | "days", count: number}}
 */
export function waitOf(since, nowMs) {
  const seconds = Math.max(0, Math.floor((nowMs - Date.parse(since ?? "")) / 1000)) || 0;
  if (seconds < 60) return { key: "seconds", count: seconds };
  if (seconds < 3600) return { key: "minutes", count: Math.floor(seconds / 60) };
  if (seconds < 86_400) return { key: "hours", count: Math.floor(seconds / 3600) };
  return { key: "days", count: Math.floor(seconds / 86_400) };
}

/**
 * The canned answers that a word after the stroke leaves: those whose title begins with it first.
 *
 * @template {{title: string, content: string}} Canned
 * @param {readonly Canned[]} answers
 * @param {string} word
 * @returns {Canned[]}
 */
export function matching(answers, word) {
  const wanted = word.toLowerCase();
  const begins = answers.filter(({ title }) => title.toLowerCase().startsWith(wanted));
  const holds = answers.filter(({ title, content }) => `${title}\n${content}`.toLowerCase().includes(wanted));
  return [...new Set([...begins, ...holds])];
}
