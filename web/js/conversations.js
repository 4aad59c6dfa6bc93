/**
 * The list of conversations: newest first, loaded page by page. Pure.
 *
 * @import { Conversation, Listing } from "./wire.d.ts"
 */

/**
 * @typedef {object} ConversationList
 * @property {readonly Conversation[]} items
 * @property {string | null} cursor where the next page begins; null at the end
 * @property {boolean} isLoaded
 */

/** @typedef {"today" | "yesterday" | "lastSevenDays" | "lastThirtyDays" | "earlier"} Age */

/** @type {ConversationList} */
export const EMPTY_LIST = { items: [], cursor: null, isLoaded: false };

/**
 * A page of the list. The first one replaces what it covers, so that what was deleted elsewhere goes. What lies further below
 * is kept; the list goes on behind it only where the two meet, because an old conversation may also have come in by itself,
 * from a bookmark, and between it and the page there are others.
 *
 * @param {ConversationList} list
 * @param {Listing<Conversation>} page
 * @param {{isFirst: boolean}} options
 * @returns {ConversationList}
 */
export function withPage(list, page, { isFirst }) {
  if (!isFirst) return { items: ordered([...list.items, ...page.items]), cursor: page.next_cursor, isLoaded: true };
  const oldest = page.items.at(-1)?.updated_at;
  const isBelow = (/** @type {Conversation} */ item) => oldest !== undefined && item.updated_at < oldest;
  const kept = page.next_cursor === null ? [] : list.items.filter(isBelow);
  const doMeet = list.isLoaded && kept.length > 0 && list.items.some((item) => item.id === page.items.at(-1)?.id);
  const newest = page.items.map((item) => newerOf(list.items.find((known) => known.id === item.id), item));
  return {
    items: ordered([...newest, ...kept]),
    cursor: doMeet ? list.cursor : page.next_cursor,
    isLoaded: true,
  };
}

/**
 * The list with this conversation in its place; archived and temporary ones have none.
 *
 * @param {ConversationList} list
 * @param {Conversation} conversation
 * @returns {ConversationList}
 */
export function withConversation(list, conversation) {
  if (conversation.archived || conversation.temporary) return withoutConversation(list, conversation.id);
  const known = list.items.find((item) => item.id === conversation.id);
  if (newerOf(known, conversation) === known) return list;
  return { ...list, items: ordered([conversation, ...list.items]) };
}

/**
 * @param {ConversationList} list
 * @param {string} id
 * @returns {ConversationList}
 */
export function withoutConversation(list, id) {
  return { ...list, items: list.items.filter((item) => item.id !== id) };
}

/**
 * What is known of conversations, by their ids, with newer views of some of them.
 *
 * @param {ReadonlyMap<string, Conversation>} known
 * @param {readonly Conversation[]} conversations
 * @returns {ReadonlyMap<string, Conversation>}
 */
export function withKnown(known, conversations) {
  const next = new Map(known);
  for (const { hit: _, ...conversation } of conversations) {
    next.set(conversation.id, newerOf(next.get(conversation.id), conversation));
  }
  return next;
}

/**
 * Every tag of these conversations, once, in the order of the alphabet.
 *
 * @param {Iterable<Conversation>} conversations
 * @param {string} language
 */
export function tagsOf(conversations, language) {
  const tags = new Set([...conversations].flatMap((conversation) => conversation.tags ?? []));
  return [...tags].sort(new Intl.Collator(language).compare);
}

/**
 * What somebody has typed as tags, with commas between them; a tag that there is stays one, also where it has a comma in it.
 *
 * @param {string} text
 * @param {readonly string[]} known
 */
export function tagsTyped(text, known) {
  const whole = text.trim();
  const tags = known.includes(whole) ? [whole] : whole.split(/[,，]/).map((tag) => tag.trim());
  return [...new Set(tags.filter((tag) => tag !== ""))];
}

/**
 * The list in sections of time, as people remember it.
 *
 * @param {readonly Conversation[]} items
 * @param {Date} now
 * @returns {{title: Age, items: Conversation[]}[]}
 */
export function byAge(items, now) {
  // Not every day has 24 hours: the calendar counts back, not the clock.
  const midnight = (/** @type {number} */ daysAgo) => new Date(now.getFullYear(), now.getMonth(), now.getDate() - daysAgo).getTime();
  /** @type {[Age, number][]} */
  const sections = [
    ["today", midnight(0)],
    ["yesterday", midnight(1)],
    ["lastSevenDays", midnight(6)],
    ["lastThirtyDays", midnight(29)],
    ["earlier", Number.NEGATIVE_INFINITY],
  ];
  const sectionOf = (/** @type {Conversation} */ item) =>
    sections.find(([, since]) => Date.parse(item.updated_at) >= since)?.[0] ?? "earlier";
  return sections
    .map(([title]) => ({ title, items: items.filter((item) => sectionOf(item) === title) }))
    .filter((section) => section.items.length > 0);
}

/**
 * Views of one conversation may come out of order: an answer to a request can be older than what a socket has told meanwhile.
 *
 * @param {Conversation | undefined} known
 * @param {Conversation} come
 * @returns {Conversation}
 */
function newerOf(known, come) {
  return known && (known.version > come.version || known.updated_at > come.updated_at) ? known : come;
}

/** @param {readonly Conversation[]} items */
function ordered(items) {
  const byId = new Map();
  for (const item of items) if (!byId.has(item.id)) byId.set(item.id, item);
  return [...byId.values()].sort((a, b) => (a.updated_at < b.updated_at ? 1 : a.updated_at > b.updated_at ? -1 : 0));
}
