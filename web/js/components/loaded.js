/**
 * What a page of settings shows from the server: asked for when it is shown, again on demand, with the reason where it did not come.
 *
 * @import { Saying } from "../texts.js"
 * @import { Listing } from "../wire.d.ts"
 */

import { useCallback, useEffect, useRef, useState } from "../../vendor/preact/hooks.js";
import { messageOf } from "../api.js";
import { html } from "../html.js";
import * as texts from "../texts/settings.js";
import { useTexts } from "./language.js";

/**
 * @template T
 * @typedef {object} Loaded
 * @property {T | null} value what came last
 * @property {Saying | null} problem why nothing newer did
 * @property {() => Promise<void>} reload
 */

/**
 * @template T
 * @param {() => Promise<T>} load
 * @returns {Loaded<T>}
 */
export function useLoaded(load) {
  const [value, setValue] = useState(/** @type {T | null} */ (null));
  const [problem, setProblem] = useState(/** @type {Saying | null} */ (null));
  const isShown = useRef(true);
  const reload = useCallback(async () => {
    try {
      const next = await load();
      if (isShown.current) setValue(() => next);
      if (isShown.current) setProblem(null);
    } catch (cause) {
      if (isShown.current) setProblem(messageOf(cause));
    }
  }, []);
  useEffect(() => {
    void reload();
    return () => void (isShown.current = false);
  }, []);
  return { value, problem, reload };
}

/**
 * All pages of a list.
 *
 * @template Item
 * @param {(cursor: string | null) => Promise<Listing<Item>>} ask
 * @returns {Promise<Item[]>}
 */
export async function allOf(ask) {
  /** @type {Item[]} */
  const items = [];
  /** @type {string | null} */
  let cursor = null;
  do {
    const page = /** @type {Listing<Item>} */ (await ask(cursor));
    items.push(...page.items);
    cursor = page.next_cursor;
  } while (cursor !== null);
  return items;
}

/** Says that something is on its way, or why it is not. @param {{loaded: Loaded<any>}} props */
export function Loading({ loaded: { value, problem, reload } }) {
  const { t, say } = useTexts(texts);
  if (problem !== null) {
    return html`
      <p class="settings-problem" role="alert">
        <span>${say(problem)}</span><button type="button" class="button" onClick=${reload}>${t("tryAgain")}</button>
      </p>
    `;
  }
  return value === null ? html`<p class="settings-loading" role="status">${t("loading")}</p>` : null;
}
