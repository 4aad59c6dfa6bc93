/**
 * Colours for what is painted on a canvas, which knows no style sheet: the names of base.css as the page shows them now.
 */

import { useEffect, useMemo, useState } from "../../../vendor/preact/hooks.js";
import { useChoices } from "../../components/language.js";

/**
 * @template {string} Name
 * @param {readonly Name[]} names as in base.css, without the dashes
 * @returns {Record<Name, string>}
 */
function coloursOf(names) {
  const probe = document.createElement("span");
  document.body.append(probe);
  const entries = names.map((name) => {
    probe.style.color = `var(--${name})`;
    return [name, getComputedStyle(probe).color];
  });
  probe.remove();
  return /** @type {Record<Name, string>} */ (Object.fromEntries(entries));
}

/**
 * The same, and again when the page changes between light and dark.
 *
 * @template {string} Name
 * @param {readonly Name[]} names
 * @returns {Record<Name, string>}
 */
export function useColours(names) {
  const { theme } = useChoices();
  const [isDark, setDark] = useState(() => darkQuery().matches);
  useEffect(() => {
    const query = darkQuery();
    const change = () => setDark(query.matches);
    query.addEventListener("change", change);
    return () => query.removeEventListener("change", change);
  }, []);
  return useMemo(() => coloursOf(names), [theme, isDark]);
}

function darkQuery() {
  return matchMedia("(prefers-color-scheme: dark)");
}
