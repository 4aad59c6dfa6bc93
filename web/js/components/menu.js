/**
 * A button that opens a menu. In the browser's top layer, so that no edge of a list cuts it off; the arrow keys move in it, Esc, Tab
 * and a press elsewhere close it, and the focus goes back to the button.
 */

import { useEffect, useId, useLayoutEffect, useRef, useState } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import { Icon } from "./icon.js";

const GAP_PX = 4;

/**
 * One line of a menu: something to do, a link, a choice that is made or not, or a line between two groups.
 *
 * @typedef {object} Item
 * @property {string} [label] none: a line between groups
 * @property {string} [hint] a second, smaller line
 * @property {import("./icon.js").IconName} [icon]
 * @property {() => void} [onChoose]
 * @property {string} [href]
 * @property {boolean} [isDownload]
 * @property {boolean} [isChecked] given: one of several choices
 * @property {boolean} [isDanger]
 */

/**
 * @typedef {object} Props
 * @property {string} label
 * @property {string} [title]
 * @property {readonly Item[]} items
 * @property {string} [class]
 * @property {any} children what the button shows
 */

/** @param {Props} props */
export function Menu({ label, title = label, items, class: className = "icon-button", children }) {
  const id = useId();
  const button = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const [isOpen, setOpen] = useState(false);
  const close = (/** @type {boolean} */ isFocusWanted) => {
    if (isFocusWanted) button.current?.focus();
    setOpen(false);
  };
  useLayoutEffect(() => {
    if (!isOpen || !list.current || !button.current) return undefined;
    list.current.showPopover();
    place(list.current, button.current);
    const entries = entriesOf(list.current);
    (entries.find((entry) => entry.getAttribute("aria-checked") === "true") ?? entries[0])?.focus();
    return undefined;
  }, [isOpen]);
  useEffect(() => {
    if (!isOpen) return undefined;
    const pressed = (/** @type {Event} */ event) => {
      const target = /** @type {Node} */ (event.target);
      if (!list.current?.contains(target) && !button.current?.contains(target)) close(false);
    };
    const moved = () => close(false);
    document.addEventListener("pointerdown", pressed, true);
    addEventListener("resize", moved);
    return () => {
      document.removeEventListener("pointerdown", pressed, true);
      removeEventListener("resize", moved);
    };
  }, [isOpen]);
  const keyDown = (/** @type {KeyboardEvent} */ event) => {
    const entries = entriesOf(/** @type {HTMLElement} */ (list.current));
    const place = entries.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const to = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: -1 }[event.key];
    if (to !== undefined) entries.at(to % entries.length)?.focus();
    else if (event.key === "Escape" || event.key === "Tab") close(true);
    else return;
    event.stopPropagation();
    if (event.key !== "Tab") event.preventDefault();
  };
  const choose = (/** @type {Item} */ item) => {
    close(true);
    item.onChoose?.();
  };
  return html`
    <button
      ref=${button}
      type="button"
      class=${className}
      aria-label=${label}
      title=${title}
      aria-haspopup="menu"
      aria-expanded=${String(isOpen)}
      aria-controls=${isOpen ? id : null}
      onClick=${() => setOpen(!isOpen)}
      onKeyDown=${(/** @type {KeyboardEvent} */ event) => {
        if (event.key !== "ArrowDown" || isOpen) return;
        event.preventDefault();
        setOpen(true);
      }}
    >
      ${children}
    </button>
    ${isOpen &&
    html`
      <div ref=${list} id=${id} class="menu" popover="manual" role="menu" aria-label=${label} onKeyDown=${keyDown}>
        ${items.map((item, index) =>
          item.label === undefined
            ? html`<hr key=${index} />`
            : html`<${Entry} key=${index} item=${item} onChoose=${() => choose(item)} />`,
        )}
      </div>
    `}
  `;
}

/** @param {{item: Item, onChoose: () => void}} props */
function Entry({ item, onChoose }) {
  const { label, hint, icon, href, isDownload, isChecked, isDanger } = item;
  const inside = html`
    <span class="menu-icon">${isChecked ? html`<${Icon} name="check" />` : icon && html`<${Icon} name=${icon} />`}</span>
    <span class="menu-words"><span dir="auto">${label}</span>${hint && html`<small dir="auto">${hint}</small>`}</span>
  `;
  const className = `menu-entry ${isDanger ? "is-danger" : ""}`;
  if (href !== undefined) {
    return html`<a role="menuitem" tabindex="-1" class=${className} href=${href} download=${isDownload ? "" : null} onClick=${onChoose}>${inside}</a>`;
  }
  const role = isChecked === undefined ? "menuitem" : "menuitemradio";
  const checked = isChecked === undefined ? null : String(isChecked);
  return html`<button type="button" role=${role} tabindex="-1" aria-checked=${checked} class=${className} onClick=${onChoose}>${inside}</button>`;
}

/** @param {HTMLElement} list */
function entriesOf(list) {
  return /** @type {HTMLElement[]} */ ([...list.querySelectorAll("[role^=menuitem]")]);
}

/**
 * Below the button, or above it where there is more room; never out of the window.
 *
 * @param {HTMLElement} list
 * @param {HTMLElement} button
 */
function place(list, button) {
  const from = button.getBoundingClientRect();
  const below = innerHeight - from.bottom;
  const isAbove = below < list.offsetHeight + GAP_PX && from.top > below;
  const top = isAbove ? Math.max(GAP_PX, from.top - list.offsetHeight - GAP_PX) : from.bottom + GAP_PX;
  const isAtEnd = from.left + list.offsetWidth > innerWidth - GAP_PX;
  const left = isAtEnd ? from.right - list.offsetWidth : from.left;
  list.style.top = `${Math.round(top)}px`;
  list.style.left = `${Math.round(Math.max(GAP_PX, left))}px`;
  list.style.maxHeight = `${Math.round((isAbove ? from.top : innerHeight - top) - 2 * GAP_PX)}px`;
}
