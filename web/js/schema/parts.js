/** What both documents are shown with: text with code in it, a foldable entry, and the page around them. */

import { useEffect, useState } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";

/** Text in which `backquotes` mark code. @param {{text: string | undefined}} props */
export function Prose({ text = "" }) {
  return text.split("`").map((part, index) => (index % 2 ? html`<code>${part}</code>` : part));
}

/**
 * One entry, folded until somebody opens it or follows a link to it. Its content is only made then.
 *
 * @param {{id: string, title: any, summary: string, children: any}} props
 */
export function Entry({ id, title, summary, children }) {
  const [isOpen, setOpen] = useState(location.hash === `#${id}`);
  useEffect(() => {
    const follow = () => {
      if (location.hash === `#${id}`) setOpen(true);
    };
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, [id]);
  const fold = (/** @type {any} */ event) => setOpen(event.currentTarget.open);
  return html`<details class="entry" id=${id} open=${isOpen} onToggle=${fold}>
    <summary><span class="entry-title">${title}</span> <span class="entry-summary"><${Prose} text=${summary} /></span></summary>
    ${isOpen && html`<div class="entry-body">${children}</div>`}
  </details>`;
}

/**
 * @typedef {{id: string, label: any, group: string}} Link
 * @param {{title: string, version: string, description: string, here: string, filter: string, onFilter: (text: string) => void,
 *   links: Link[], file: string, children: any}} props
 */
export function DocumentPage({ title, version, description, here, filter, onFilter, links, file, children }) {
  useEffect(() => {
    document.getElementById(location.hash.slice(1))?.scrollIntoView();
  }, []);
  const groups = [...new Set(links.map((link) => link.group))];
  const tab = (/** @type {string} */ path, /** @type {string} */ name) =>
    html`<a href=${path} aria-current=${here === path ? "page" : undefined}>${name}</a>`;
  return html`
    <header class="schema-head">
      <a class="schema-home" href="/">Kvasir</a>
      <nav class="schema-tabs" aria-label="Documents">${tab("/schema", "REST")}${tab("/schema/asyncapi", "WebSocket")}</nav>
    </header>
    <div class="schema-columns">
      <nav class="schema-side" aria-label="Contents">
        <label class="field">
          <span>Filter</span>
          <input type="search" value=${filter} onInput=${(/** @type {any} */ event) => onFilter(event.currentTarget.value)} />
        </label>
        ${groups.map(
          (group) => html`<h2>${group}</h2>
            <ul>
              ${links.filter((link) => link.group === group).map((link) => html`<li><a href=${`#${link.id}`}>${link.label}</a></li>`)}
            </ul>`,
        )}
      </nav>
      <main class="schema-main">
        <h1>${title} <small>version ${version}</small></h1>
        <p class="schema-text"><${Prose} text=${description} /></p>
        <p class="schema-text">For programs: <a href=${file}>${file}</a></p>
        ${children} ${links.length === 0 && html`<p class="schema-text" role="status">Nothing has these words.</p>`}
      </main>
    </div>
  `;
}
