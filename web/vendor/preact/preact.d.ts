// Written for Kvasir: only what web/js uses of Preact, so that `tsc` can check our own files.
export interface VNode<P = any> {
  type: any;
  props: P;
  key: any;
}
export type ComponentChild = VNode | object | string | number | bigint | boolean | null | undefined;
export type ComponentChildren = ComponentChild | ComponentChild[];
export interface RefObject<T> {
  current: T | null;
}
export class Component<P = {}, S = {}> {
  constructor(props: P);
  props: Readonly<P>;
  state: Readonly<S>;
  setState(update: Partial<S>): void;
  shouldComponentUpdate?(next: Readonly<P>): boolean;
  componentDidCatch?(problem: unknown): void;
  render(props: P, state: S): ComponentChildren;
}
export function h(type: any, props: Record<string, any> | null, ...children: ComponentChildren[]): VNode;
export function render(node: ComponentChildren, parent: Element): void;
export const Fragment: (props: { children?: ComponentChildren }) => ComponentChildren;
export interface Context<T> {
  Provider: (props: { value: T; children?: ComponentChildren }) => ComponentChildren;
}
export function createContext<T>(initial: T): Context<T>;
