/** On a narrow screen the sidebar is a drawer; what is out of sight is out of reach of the keyboard too. */

import { useCallback, useEffect, useRef, useState } from "../../vendor/preact/hooks.js";

/** @typedef {ReturnType<typeof useDrawer>} Drawer */

export function useDrawer() {
  const opener = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const [isWanted, setWanted] = useState(false);
  const [isNarrow, setNarrow] = useState(() => narrow().matches);
  const isOpen = isNarrow && isWanted;
  const close = useCallback(() => setWanted(false), []);
  useEffect(() => {
    const query = narrow();
    const change = () => setNarrow(query.matches);
    query.addEventListener("change", change);
    return () => query.removeEventListener("change", change);
  }, []);
  useEffect(() => {
    if (!isOpen) return undefined;
    /** @type {HTMLElement | null} */ (document.querySelector("#sidebar button"))?.focus();
    const keyDown = (/** @type {KeyboardEvent} */ event) => {
      // A dialog over the drawer is nearer.
      if (event.key === "Escape" && !event.defaultPrevented && !document.querySelector("dialog[open]")) close();
    };
    document.addEventListener("keydown", keyDown);
    return () => {
      document.removeEventListener("keydown", keyDown);
      opener.current?.focus();
    };
  }, [isOpen]);
  return { opener, isOpen, isHidden: isNarrow && !isOpen, open: () => setWanted(true), close };
}

function narrow() {
  return matchMedia("(max-width: 52rem)");
}
