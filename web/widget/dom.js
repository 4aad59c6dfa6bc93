/** Elements without HTML: names, properties and children. The site's policy may forbid strings that become markup. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {Record<string, string | boolean | EventListener>} [properties] attributes; `onclick` and the like are listeners
 * @param {(Node | string | null)[]} children
 * @returns {HTMLElementTagNameMap[Name]}
 */
export function element(name, properties = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (typeof value === "function") node.addEventListener(key.slice(2), value);
    else if (typeof value === "boolean") node.toggleAttribute(key, value);
    else node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

/** A line drawing on a grid of 24. Decoration only: the button around one carries the words. @param {string} path */
export function drawing(path) {
  const icon = document.createElementNS(SVG, "svg");
  const attributes = { viewBox: "0 0 24 24", "aria-hidden": "true", focusable: "false", class: "icon" };
  for (const [key, value] of Object.entries(attributes)) icon.setAttribute(key, value);
  const line = document.createElementNS(SVG, "path");
  line.setAttribute("d", path);
  icon.append(line);
  return icon;
}

/** Shows a text where it is not shown yet, so that nothing is announced twice. @param {Node} node @param {string} text */
export function showText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
