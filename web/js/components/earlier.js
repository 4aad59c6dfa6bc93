/**
 * Loads what came before, when it is scrolled to or pressed.
 *
 * @import { Commands } from "../commands.js"
 */

import { useEffect, useLayoutEffect, useRef, useState } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import * as chat from "../texts/chat.js";
import { useTexts } from "./language.js";

/** @param {{commands: Commands}} props */
export function Earlier({ commands }) {
  const { t } = useTexts(chat);
  const button = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const isBusy = useRef(false);
  const [isLoading, setLoading] = useState(false);
  const load = async () => {
    if (isBusy.current) return;
    isBusy.current = true;
    setLoading(true);
    await commands.loadEarlier();
    isBusy.current = false;
    setLoading(false);
  };
  useEffect(() => {
    const observer = new IntersectionObserver(([entry]) => entry?.isIntersecting && void load());
    if (button.current) observer.observe(button.current);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(
    () => () => {
      // When all is there the button goes; a focus on it stays in the conversation.
      if (document.activeElement !== button.current) return;
      /** @type {HTMLElement | null | undefined} */ (button.current?.closest(".thread"))?.focus();
    },
    [],
  );
  return html`
    <button type="button" class="button earlier" ref=${button} aria-disabled=${isLoading ? "true" : null} onClick=${load}>
      ${t(isLoading ? "loading" : "showEarlier")}
    </button>
  `;
}
