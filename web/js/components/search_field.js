/**
 * Where the list is searched and narrowed. A search begins while somebody types, and is asked of the server once they pause.
 *
 * @import { Commands } from "../commands.js"
 * @import { Found } from "../finding.js"
 * @import { Item } from "./menu.js"
 */

import { useEffect, useRef, useState } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import * as chat from "../texts/chat.js";
import { Icon } from "./icon.js";
import { useTexts } from "./language.js";
import { Menu } from "./menu.js";

const PAUSE_MS = 250;
const QUERY_CHARS_MAX = 500;

/** @param {{found: Found | null, tags: readonly string[], commands: Commands}} props */
export function SearchField({ found, tags, commands }) {
  const { t } = useTexts(chat);
  const [text, setText] = useState(found?.query ?? "");
  const timer = useRef(/** @type {number | undefined} */ (undefined));
  useEffect(() => () => clearTimeout(timer.current), []);
  useEffect(() => {
    if (found === null) setText("");
  }, [found === null]);
  const look = (/** @type {string} */ query, /** @type {number} */ afterMs) => {
    setText(query);
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => void commands.search.look({ query }), afterMs);
  };
  const keyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.isComposing) return;
    if (event.key === "Enter") look(text, 0);
    if (event.key === "Escape" && text !== "") {
      event.stopPropagation();
      event.preventDefault();
      look("", 0);
    }
    if (event.key === "ArrowDown") {
      event.preventDefault();
      /** @type {HTMLElement | null} */ (document.querySelector(".conversations a"))?.focus();
    }
  };
  const clear = () => {
    look("", 0);
    document.getElementById("search")?.focus();
  };
  const { tag = null, archived = false } = found ?? {};
  /** @type {Item[]} */
  const items = [
    { label: t("allConversations"), isChecked: tag === null && !archived, onChoose: () => void commands.search.look({ tag: null, archived: false }) },
    { label: t("archivedOnes"), isChecked: archived, onChoose: () => void commands.search.look({ tag: null, archived: true }) },
    ...(tags.length > 0 ? [{}] : []),
    ...tags.map((one) => ({
      label: one,
      isChecked: tag === one,
      onChoose: () => void commands.search.look({ tag: one, archived: false }),
    })),
  ];
  const isNarrowed = tag !== null || archived;
  return html`
    <div class="search" role="search">
      <label class="search-field">
        <${Icon} name="search" />
        <span class="visually-hidden">${t("search")}</span>
        <input
          id="search"
          type="search"
          dir="auto"
          autocomplete="off"
          maxlength=${QUERY_CHARS_MAX}
          placeholder=${t("search")}
          value=${text}
          onInput=${(/** @type {any} */ event) => look(event.target.value, PAUSE_MS)}
          onKeyDown=${keyDown}
        />
        ${text !== "" &&
        html`
          <button type="button" class="chip-button" aria-label=${t("clearSearch")} title=${t("clearSearch")} onClick=${clear}>
            <${Icon} name="close" />
          </button>
        `}
      </label>
      <${Menu} label=${t("filter")} items=${items} class="icon-button ${isNarrowed ? "is-on" : ""}"><${Icon} name="filter" /><//>
    </div>
    ${isNarrowed &&
    html`
      <p class="narrowed">
        <span dir="auto">${archived ? t("archivedOnes") : t("withTag", { tag: tag ?? "" })}</span>
        <button type="button" class="chip-button" aria-label=${t("showAll")} title=${t("showAll")} onClick=${() => void commands.search.look({ tag: null, archived: false })}>
          <${Icon} name="close" />
        </button>
      </p>
    `}
  `;
}
