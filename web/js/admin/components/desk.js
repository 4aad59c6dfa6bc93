/**
 * What every section of the dashboard works with, handed down once, and what all of them do: read a list page by page,
 * read something again and again, and carry something out and say how it went.
 *
 * @import { PageSession } from "../../page_session.js"
 * @import { Store } from "../../store.js"
 * @import { Saying } from "../../texts.js"
 * @import { AdminApi } from "../api.js"
 * @import { History } from "../history.js"
 * @import { AdminState } from "../state.js"
 */

import { useContext, useEffect, useRef, useState } from "../../../vendor/preact/hooks.js";
import { createContext } from "../../../vendor/preact/preact.js";
import { messageOf } from "../../api.js";
import { Listing } from "../listing.js";

/** @typedef {{api: AdminApi, store: Store<AdminState>, history: History, session: PageSession<AdminState>}} Desk */

export const DeskContext = createContext(/** @type {Desk} */ (/** @type {unknown} */ (null)));

export function useDesk() {
  return useContext(DeskContext);
}

/** Says something on the page for a while. @returns {(saying: Saying) => void} */
export function useNotice() {
  const { store } = useDesk();
  return (saying) => store.set({ notice: saying });
}

/**
 * A list that comes in pages, read anew when one of `inputs` changes.
 *
 * @template T
 * @template {{items: T[], next_cursor: string | null}} P
 * @param {(cursor: string | null) => Promise<P>} load
 * @param {readonly unknown[]} inputs
 */
export function useListing(load, inputs) {
  const [, redraw] = useState(0);
  const [listing] = useState(() => /** @type {Listing<T, P>} */ (new Listing(() => redraw((count) => count + 1))));
  useEffect(() => {
    void listing.open(load);
    return () => listing.close();
  }, inputs);
  return {
    ...listing.shown,
    hasMore: listing.hasMore,
    more: () => listing.more(),
    reload: () => listing.reload(),
    fail: (/** @type {unknown} */ problem) => listing.fail(problem),
  };
}

/**
 * Does something over and over while it `isWanted`, each time so long after the time before has ended.
 *
 * @param {() => Promise<void>} action
 * @param {number} pauseMs
 * @param {boolean} [isWanted]
 */
export function useRepeated(action, pauseMs, isWanted = true) {
  useEffect(() => {
    let timer = 0;
    let isOver = !isWanted;
    const next = () => {
      if (!isOver) timer = window.setTimeout(() => void action().then(next), pauseMs);
    };
    next();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [isWanted]);
}

/**
 * One thing that is read whole, and read again when one of `inputs` changes.
 *
 * @template T
 * @param {() => Promise<T>} load
 * @param {readonly unknown[]} inputs
 */
export function useLoaded(load, inputs) {
  const [state, setState] = useState(/** @type {{value: T | null, problem: Saying | null}} */ ({ value: null, problem: null }));
  const round = useRef(0);
  const reload = async () => {
    round.current += 1;
    const mine = round.current;
    try {
      const value = await load();
      if (mine === round.current) setState({ value, problem: null });
    } catch (problem) {
      if (mine === round.current) setState((before) => ({ ...before, problem: messageOf(problem) }));
    }
  };
  useEffect(() => {
    void reload();
    return () => {
      round.current += 1;
    };
  }, inputs);
  return { ...state, reload, replace: (/** @type {T} */ value) => setState({ value, problem: null }) };
}
