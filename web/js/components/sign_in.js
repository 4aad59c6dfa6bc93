/**
 * The page before one is signed in.
 *
 * @import { Session } from "../session.js"
 * @import { Saying } from "../texts.js"
 * @import { WaysIn } from "../wire.d.ts"
 */

import { useEffect, useLayoutEffect, useRef, useState } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import * as texts from "../texts/sign_in.js";
import { Mark } from "./icon.js";
import { useTexts } from "./language.js";

/** @param {{session: Pick<Session, "waysIn" | "signIn" | "signUp">, notice: Saying | null}} props */
export function SignIn({ session, notice }) {
  const { t, say } = useTexts(texts);
  const [problem, setProblem] = useState(/** @type {Saying | null} */ (null));
  const [isBusy, setBusy] = useState(false);
  const [ways, setWays] = useState(/** @type {WaysIn} */ ({ signup: "closed", oidc: null }));
  const [isNew, setNew] = useState(false);
  useEffect(() => void session.waysIn().then(setWays), [session]);
  const name = useRef(/** @type {HTMLInputElement | null} */ (null));
  // The attribute autofocus works once per page, and this form comes back when a sign-in has ended.
  useLayoutEffect(() => {
    name.current?.focus();
    // What the conversation was called is for whoever was signed in.
    document.title = "Kvasir";
  }, []);
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const fields = new FormData(/** @type {HTMLFormElement} */ (event.target));
    setBusy(true);
    setProblem(null);
    const [username, password] = [String(fields.get("username")).trim(), String(fields.get("password"))];
    setProblem(await (isNew ? session.signUp(username, password) : session.signIn(username, password)));
    setBusy(false);
  };
  const change = () => {
    setNew(!isNew);
    setProblem(null);
    name.current?.focus();
  };
  const action = t(isNew ? "createAccount" : "signIn");
  return html`
    <main class="sign-in">
      <form class="sign-in-form" onSubmit=${submit}>
        <div class="sign-in-head"><${Mark} /><h1>${t(isNew ? "titleNew" : "title")}</h1></div>
        ${notice !== null && html`<p class="sign-in-notice" role="status">${say(notice)}</p>`}
        <label class="field">
          <span>${t("name")}</span>
          <input ref=${name} name="username" autocomplete="username" autocapitalize="none" spellcheck=${false} required maxlength="64" />
        </label>
        <label class="field">
          <span>${t("password")}</span>
          <input name="password" type="password" autocomplete=${isNew ? "new-password" : "current-password"} minlength=${isNew ? 8 : 0} required />
        </label>
        <p class="sign-in-problem" role="alert">${problem === null ? "" : say(problem)}</p>
        <button type="submit" class="button button-primary" disabled=${isBusy}>${isBusy ? t("oneMoment") : action}</button>
        ${ways.oidc !== null && html`<a class="button" href="/oidc/login">${t("signInWith", { provider: ways.oidc })}</a>`}
        ${ways.signup === "open" &&
        html`<button type="button" class="button" onClick=${change}>${t(isNew ? "haveAccount" : "titleNew")}</button>`}
        <p class="sign-in-help">${t("help")}</p>
      </form>
    </main>
  `;
}
