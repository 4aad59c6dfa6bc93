/**
 * What a search or a filter shows in place of the list: conversations with all the words of a query, with a tag, or archived ones.
 * Pure; `search_commands.js` asks the server.
 *
 * @import { Conversation, Listing } from "./wire.d.ts"
 */

/**
 * @typedef {object} Wanted
 * @property {string} query
 * @property {string | null} tag
 * @property {boolean} archived only archived ones; a search without it looks into all
 */

/**
 * `isBusy`: a newer answer than `items` is being asked for.
 *
 * @typedef {Wanted & {items: readonly Conversation[], cursor: string | null, isLoaded: boolean, isBusy: boolean}} Found
 */

/**
 * Nothing was found yet. What an earlier search found stays until then, so that the list does not blink while somebody types.
 *
 * @param {Found | null} before
 * @param {Wanted} wanted
 * @returns {Found | null} null where nothing is wanted but the list itself
 */
export function looking(before, wanted) {
  if (wanted.query.trim() === "" && wanted.tag === null && !wanted.archived) return null;
  return { items: before?.items ?? [], cursor: null, isLoaded: before?.isLoaded ?? false, ...wanted, isBusy: true };
}

/**
 * @param {Found} found
 * @param {Listing<Conversation>} page
 * @param {{isFirst: boolean}} options
 * @returns {Found}
 */
export function withFoundPage(found, page, { isFirst }) {
  const before = isFirst ? [] : found.items;
  const news = page.items.filter((item) => !before.some((one) => one.id === item.id));
  return { ...found, items: [...before, ...news], cursor: page.next_cursor, isLoaded: true, isBusy: false };
}

/**
 * A conversation has changed: it keeps its place and its hit, or leaves where it is not wanted any more.
 *
 * @param {Found | null} found
 * @param {Conversation} conversation
 * @returns {Found | null}
 */
export function withFoundChange(found, conversation) {
  if (found === null) return null;
  const fits =
    (found.tag === null || conversation.tags.includes(found.tag)) && (!found.archived || conversation.archived) && !conversation.temporary;
  const items = found.items.flatMap((item) => (item.id !== conversation.id ? [item] : fits ? [{ ...item, ...conversation }] : []));
  return { ...found, items };
}

/**
 * @param {Found | null} found
 * @param {string} id
 * @returns {Found | null}
 */
export function withoutFound(found, id) {
  return found === null ? null : { ...found, items: found.items.filter((item) => item.id !== id) };
}

/**
 * How to ask for it.
 *
 * @param {Wanted} wanted
 */
export function askingFor({ query, tag, archived }) {
  const q = query.trim() === "" ? null : query.trim();
  return { q, tag, archived: archived ? true : q === null ? false : null };
}
