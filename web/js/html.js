/**
 * The template tag every view is written with, and `memo`. Vnodes only: nothing in web/ ever makes HTML out of a string.
 */

import htm from "../vendor/htm/htm.js";
import { Component, h } from "../vendor/preact/preact.js";

export const html = htm.bind(h);

/**
 * A component that renders again only when a property is another value than before.
 *
 * @template {Record<string, any>} P
 * @param {(props: P) => any} view
 * @returns {new (props: P) => Component<P>}
 */
export function memo(view) {
  return class extends Component {
    /** @param {Readonly<P>} next */
    shouldComponentUpdate(next) {
      const before = /** @type {Record<string, unknown>} */ (this.props);
      const names = new Set([...Object.keys(before), ...Object.keys(next)]);
      return [...names].some((name) => before[name] !== next[name]);
    }

    /** @param {P} props */
    render(props) {
      return h(view, props);
    }
  };
}
