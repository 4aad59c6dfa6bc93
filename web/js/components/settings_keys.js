/**
 * API keys: making one, which is shown this once, and revoking.
 *
 * @import { AccountApi } from "../account_api.js"
 * @import { Commands } from "../commands.js"
 * @import { ApiKey } from "../wire.d.ts"
 */

import { useLayoutEffect, useRef, useState } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import * as texts from "../texts/settings.js";
import { ConfirmDialog } from "./confirm_dialog.js";
import { CopyButton } from "./copy_button.js";
import { useTexts } from "./language.js";
import { Loading, allOf, useLoaded } from "./loaded.js";

const NAME_CHARS_MAX = 100;
const LIFETIMES_DAYS = [30, 90, 365];

/** @param {{account: AccountApi, commands: Commands}} props */
export function KeysPage({ account, commands }) {
  const { t } = useTexts(texts);
  const loaded = useLoaded(() => allOf((cursor) => account.keys(cursor)));
  const [made, setMade] = useState(/** @type {(ApiKey & {key: string}) | null} */ (null));
  const [doomed, setDoomed] = useState(/** @type {ApiKey | null} */ (null));
  const make = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    const fields = new FormData(form);
    const days = Number(fields.get("days"));
    await commands.attempt(async () => {
      setMade(await account.makeKey(String(fields.get("name")).trim(), days === 0 ? null : days));
      form.reset();
    });
    await loaded.reload();
  };
  const revoke = async () => {
    const key = doomed;
    setDoomed(null);
    if (key === null) return;
    await commands.attempt(() => account.revokeKey(key.id));
    if (made?.id === key.id) setMade(null);
    await loaded.reload();
  };
  return html`
    <section aria-labelledby="settings-heading">
      <h2 id="settings-heading">${t("page_keys")}</h2>
      <p class="settings-text">${t("keysText")}</p>
      ${made && html`<${NewKey} made=${made} onDone=${() => setMade(null)} />`}
      <form class="field-line" onSubmit=${make}>
        <label class="field">
          <span>${t("keyName")}</span>
          <input name="name" dir="auto" autocomplete="off" maxlength=${NAME_CHARS_MAX} required pattern=".*\\S.*" />
        </label>
        <label class="field is-narrow">
          <span>${t("holdsFor")}</span>
          <select name="days">
            <option value="0">${t("untilRevoked")}</option>
            ${LIFETIMES_DAYS.map((days) => html`<option key=${days} value=${days}>${t("days", { count: days })}</option>`)}
          </select>
        </label>
        <button type="submit" class="button button-primary">${t("makeKey")}</button>
      </form>
      <${Loading} loaded=${loaded} />
      ${loaded.value?.length === 0 && html`<p class="settings-empty">${t("noKeys")}</p>`}
      <ul class="cards">
        ${(loaded.value ?? []).map(
          (key) => html`
            <li key=${key.id} class="card" data-key=${key.id}>
              <div class="card-words">
                <span dir="auto">${key.name}</span>
                <small>
                  <span>${t("madeOn", { time: dateOf(key.created_at) })}</span>
                  <span>${key.last_used_at === null ? t("neverUsed") : t("lastUsed", { time: dateOf(key.last_used_at) })}</span>
                  ${key.expires_at !== null && html`<span>${t("holdsUntil", { time: dateOf(key.expires_at) })}</span>`}
                </small>
              </div>
              <button type="button" class="button" aria-label=${t("revokeOf", { name: key.name })} onClick=${() => setDoomed(key)}>${t("revoke")}</button>
            </li>
          `,
        )}
      </ul>
      ${doomed &&
      html`
        <${ConfirmDialog}
          title=${t("revokeTitle")}
          text=${t("revokeText", { name: doomed.name })}
          action=${t("revoke")}
          onConfirm=${revoke}
          onCancel=${() => setDoomed(null)}
        />
      `}
    </section>
  `;

  /** @param {string} time */
  function dateOf(time) {
    return new Date(time).toLocaleDateString(document.documentElement.lang, { dateStyle: "medium" });
  }
}

/** The key itself, this once. @param {{made: ApiKey & {key: string}, onDone: () => void}} props */
function NewKey({ made, onDone }) {
  const { t } = useTexts(texts);
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  useLayoutEffect(() => {
    field.current?.focus();
    field.current?.select();
  }, [made.key]);
  return html`
    <div class="new-key" role="group" aria-label=${t("newKey")}>
      <p>${t("newKeyText", { name: made.name })}</p>
      <div class="field-line">
        <input ref=${field} class="key-field" readonly aria-label=${t("newKey")} value=${made.key} onFocus=${(/** @type {any} */ event) => event.target.select()} />
        <${CopyButton} text=${made.key} label=${t("copyKey")} />
        <button type="button" class="button" onClick=${onDone}>${t("keptIt")}</button>
      </div>
    </div>
  `;
}
