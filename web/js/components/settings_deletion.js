/**
 * The end of one's own account. Asks for the name, so that nobody does it by mistake, and for the password, so that nobody else does.
 *
 * @import { Session } from "../session.js"
 * @import { Saying } from "../texts.js"
 */

import { useState } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import * as texts from "../texts/settings.js";
import { Dialog } from "./dialog.js";
import { useTexts } from "./language.js";

/** @param {{username: string, session: Session}} props */
export function DeletionSection({ username, session }) {
  const { t } = useTexts(texts);
  const [isAsked, setAsked] = useState(false);
  return html`
    <section aria-labelledby="deletion-heading">
      <h2 id="deletion-heading">${t("deletion")}</h2>
      <p class="settings-text">${t("deletionText")}</p>
      <div class="settings-form">
        <button type="button" class="button button-danger" onClick=${() => setAsked(true)}>${t("deleteAccount")}</button>
      </div>
    </section>
    ${isAsked && html`<${DeletionDialog} username=${username} session=${session} onClose=${() => setAsked(false)} />`}
  `;
}

/** @param {{username: string, session: Session, onClose: () => void}} props */
function DeletionDialog({ username, session, onClose }) {
  const { t, say } = useTexts(texts);
  const [problem, setProblem] = useState(/** @type {Saying | null} */ (null));
  const [isBusy, setBusy] = useState(false);
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    if (isBusy) return;
    const fields = new FormData(/** @type {HTMLFormElement} */ (event.target));
    if (String(fields.get("name")).trim() !== username) {
      setProblem({ key: "otherName", values: { username } });
      return;
    }
    const password = String(fields.get("password"));
    setBusy(true);
    setProblem(null);
    // Where it goes well, the page is no longer there.
    setProblem(await session.deleteAccount(password === "" ? null : password));
    setBusy(false);
  };
  return html`
    <${Dialog} title=${t("deletionTitle", { username })} description=${t("deletionWarning")} onClose=${onClose}>
      <form class="settings-form" onSubmit=${submit}>
        <label class="field">
          <span>${t("nameToDelete")}</span>
          <input name="name" required autocomplete="off" autocapitalize="none" spellcheck=${false} autofocus />
        </label>
        <label class="field">
          <span>${t("currentPassword")}</span>
          <input name="password" type="password" autocomplete="current-password" />
        </label>
        <p class=${problem === null ? "settings-text" : "sign-in-problem"} role="alert">${problem === null ? "" : say(problem)}</p>
        <div class="dialog-buttons">
          <button type="button" class="button" onClick=${onClose}>${t("cancel")}</button>
          <button type="submit" class="button button-danger" disabled=${isBusy}>${t("deleteForGood")}</button>
        </div>
      </form>
    <//>
  `;
}
