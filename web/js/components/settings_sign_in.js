/**
 * Where one is signed in, ending that from here, one's password, and the end of the account.
 *
 * @import { AccountApi } from "../account_api.js"
 * @import { Commands } from "../commands.js"
 * @import { Session } from "../session.js"
 * @import { State } from "../state.js"
 * @import { Saying } from "../texts.js"
 */

import { useState } from "../../vendor/preact/hooks.js";
import { messageOf } from "../api.js";
import { deviceOf } from "../device.js";
import { html } from "../html.js";
import * as texts from "../texts/settings.js";
import { useTexts } from "./language.js";
import { Loading, allOf, useLoaded } from "./loaded.js";
import { DeletionSection } from "./settings_deletion.js";

/** @param {{state: State, session: Session, account: AccountApi, commands: Commands}} props */
export function SignInPage({ state, session, account, commands }) {
  const { t } = useTexts(texts);
  const loaded = useLoaded(() => allOf((cursor) => account.signIns(cursor)));
  const end = async (/** @type {string} */ id) => {
    await commands.attempt(() => account.endSignIn(id));
    await loaded.reload();
  };
  return html`
    <section aria-labelledby="settings-heading">
      <h2 id="settings-heading">${t("page_sign-in")}</h2>
      <p class="settings-text">${t("signInsText")}</p>
      <${Loading} loaded=${loaded} />
      <ul class="cards">
        ${(loaded.value ?? []).map(
          (place) => html`
            <li key=${place.id} class="card" data-sign-in=${place.id}>
              <div class="card-words">
                <span dir="auto" title=${place.label}>${deviceOf(place.label) || t("unknownDevice")}</span>
                <small>
                  <span>${t("since", { time: dateOf(place.created_at) })}</span>
                  <span>${place.last_used_at === null ? t("neverUsed") : t("lastUsed", { time: dateOf(place.last_used_at) })}</span>
                </small>
              </div>
              ${place.is_current
                ? html`<span class="chip">${t("thisBrowser")}</span>`
                : html`<button type="button" class="button" aria-label=${t("endOf", { name: deviceOf(place.label) })} onClick=${() => end(place.id)}>${t("end")}</button>`}
            </li>
          `,
        )}
      </ul>
    </section>
    <${PasswordForm} username=${state.user?.username ?? ""} account=${account} onChanged=${loaded.reload} />
    <${DeletionSection} username=${state.user?.username ?? ""} session=${session} />
  `;

  /** @param {string} time */
  function dateOf(time) {
    return new Date(time).toLocaleString(document.documentElement.lang, { dateStyle: "medium", timeStyle: "short" });
  }
}

/** @param {{username: string, account: AccountApi, onChanged: () => void}} props */
function PasswordForm({ username, account, onChanged }) {
  const { t, say } = useTexts(texts);
  const [outcome, setOutcome] = useState(/** @type {{saying: Saying, isFault: boolean} | null} */ (null));
  const [isBusy, setBusy] = useState(false);
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    const fields = new FormData(form);
    const current = String(fields.get("current"));
    setBusy(true);
    try {
      await account.changePassword(current === "" ? null : current, String(fields.get("new")));
      form.reset();
      setOutcome({ saying: { key: "passwordChanged" }, isFault: false });
      onChanged();
    } catch (problem) {
      setOutcome({ saying: messageOf(problem), isFault: true });
    }
    setBusy(false);
  };
  return html`
    <section aria-labelledby="password-heading">
      <h2 id="password-heading">${t("password")}</h2>
      <p class="settings-text">${t("passwordText")}</p>
      <form class="settings-form" onSubmit=${submit}>
        <input class="visually-hidden" name="username" autocomplete="username" value=${username} readonly tabindex="-1" aria-hidden="true" />
        <label class="field">
          <span>${t("currentPassword")}</span>
          <input name="current" type="password" autocomplete="current-password" />
        </label>
        <label class="field">
          <span>${t("newPassword")}</span>
          <input name="new" type="password" autocomplete="new-password" minlength="8" required />
        </label>
        <p class=${outcome?.isFault ? "sign-in-problem" : "settings-text"} role="status">${outcome === null ? "" : say(outcome.saying)}</p>
        <button type="submit" class="button" disabled=${isBusy}>${t("changePassword")}</button>
      </form>
    </section>
  `;
}
