/**
 * What every section of the dashboard works with, handed down once, and the two things all of them do: read a list page by page,
 * and carry something out and say how it went.
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
 * A list that comes in pages, read again when one of `inputs` changes. While it is read again what was there stays on the screen.
 *
 * @template T
 * @template {{items: T[], next_cursor: string | null}} P
 * @param {(cursor: string | null) => Promise<P>} load
 * @param {readonly unknown[]} inputs
 */
export function useListing(load, inputs) {
  const [state, setState] = useState(
    /** @type {{items: T[], page: P | null, isLoading: boolean, problem: Saying | null}} */ ({ items: [], page: null, isLoading: true, problem: null }),
  );
  const round = useRef(0);
  const read = async (/** @type {string | null} */ cursor) => {
    round.current += 1;
    const mine = round.current;
    setState((before) => ({ ...before, isLoading: true }));
    try {
      const page = await load(cursor);
      if (mine !== round.current) return;
      setState((before) => ({ items: cursor === null ? page.items : [...before.items, ...page.items], page, isLoading: false, problem: null }));
    } catch (problem) {
      if (mine === round.current) setState((before) => ({ ...before, isLoading: false, problem: messageOf(problem) }));
    }
  };
  useEffect(() => {
    void read(null);
    return () => {
      round.current += 1;
    };
  }, inputs);
  const next = state.page?.next_cursor ?? null;
  const fail = (/** @type {unknown} */ problem) => setState((before) => ({ ...before, problem: messageOf(problem) }));
  return { ...state, hasMore: next !== null, more: () => read(next), reload: () => read(null), fail };
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
