/**
 * Canned answers: all of them, to be written, changed and deleted.
 *
 * @import { Desk } from "../desk.js"
 * @import { Canned } from "../wire.d.ts"
 */

import { useLayoutEffect, useRef, useState } from "../../../vendor/preact/hooks.js";
import { Dialog } from "../../components/dialog.js";
import { Icon } from "../../components/icon.js";
import { useTexts } from "../../components/language.js";
import { html } from "../../html.js";
import * as texts from "../../texts/inbox.js";

const TITLE_MAX_CHARS = 100;
const CONTENT_MAX_CHARS = 20_000;

/** @param {{canned: readonly Canned[], desk: Desk, onClose: () => void}} props */
export function CannedDialog({ canned, desk, onClose }) {
  const { t } = useTexts(texts);
  /** Which one is changed; `new` for one that is not there yet. */
  const [editing, setEditing] = useState(/** @type {Canned | "new" | null} */ (null));
  return html`
    <${Dialog} title=${t("canned")} class="canned-dialog" onClose=${onClose}>
      ${editing === null
        ? html`
            ${canned.length === 0 && html`<p>${t("cannedNone")}</p>`}
            <ul class="canned-all">
              ${canned.map(
                (one) => html`
                  <li key=${one.id}>
                    <div class="canned-words"><strong dir="auto">${one.title}</strong><span dir="auto">${one.content}</span></div>
                    <button type="button" class="icon-button" aria-label=${t("edit", { title: one.title })} onClick=${() => setEditing(one)}><${Icon} name="pencil" /></button>
                    <button type="button" class="icon-button" aria-label=${t("delete", { title: one.title })} onClick=${() => desk.deleteCanned(one)}><${Icon} name="trash" /></button>
                  </li>
                `,
              )}
            </ul>
            <div class="dialog-buttons">
              <button type="button" class="button" onClick=${onClose}>${t("close")}</button>
              <button type="button" class="button button-primary" onClick=${() => setEditing("new")}>${t("cannedNew")}</button>
            </div>
          `
        : html`<${Editor} one=${editing === "new" ? null : editing} desk=${desk} onDone=${() => setEditing(null)} />`}
    <//>
  `;
}

/** @param {{one: Canned | null, desk: Desk, onDone: () => void}} props */
function Editor({ one, desk, onDone }) {
  const { t } = useTexts(texts);
  const [title, setTitle] = useState(one?.title ?? "");
  const [content, setContent] = useState(one?.content ?? "");
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  useLayoutEffect(() => field.current?.focus(), []);
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (title.trim() && content.trim() && (await desk.saveCanned(one, title.trim(), content))) onDone();
  };
  return html`
    <form class="canned-editor" onSubmit=${save}>
      <label class="field">
        <span>${t("cannedTitle")}</span>
        <input ref=${field} dir="auto" maxlength=${TITLE_MAX_CHARS} value=${title} onInput=${(/** @type {any} */ event) => setTitle(event.target.value)} />
      </label>
      <label class="field">
        <span>${t("cannedContent")}</span>
        <textarea dir="auto" rows="5" maxlength=${CONTENT_MAX_CHARS} value=${content} onInput=${(/** @type {any} */ event) => setContent(event.target.value)}></textarea>
      </label>
      <div class="dialog-buttons">
        <button type="button" class="button" onClick=${onDone}>${t("cancel")}</button>
        <button type="submit" class="button button-primary" disabled=${!title.trim() || !content.trim()}>${t("save")}</button>
      </div>
    </form>
  `;
}
