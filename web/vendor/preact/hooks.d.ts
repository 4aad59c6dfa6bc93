// Written for Kvasir: only what web/js uses of Preact's hooks, so that `tsc` can check our own files.
import type { Context } from "./preact.js";
export type Cleanup = () => void;
export function useState<S>(initial: S | (() => S)): [S, (next: S | ((previous: S) => S)) => void];
export function useRef<T>(initial: T): { current: T };
export function useEffect(effect: () => void | Cleanup, inputs?: readonly unknown[]): void;
export function useLayoutEffect(effect: () => void | Cleanup, inputs?: readonly unknown[]): void;
export function useMemo<T>(make: () => T, inputs: readonly unknown[]): T;
export function useCallback<T extends (...args: any[]) => any>(callback: T, inputs: readonly unknown[]): T;
export function useId(): string;
export function useContext<T>(context: Context<T>): T;
