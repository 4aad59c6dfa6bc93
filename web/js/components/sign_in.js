/**
 * The page before one is signed in.
 *
 * @import { Session } from "../session.js"
 */

import { useLayoutEffect, useRef, useState } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import { Mark } from "./icon.js";

/** @param {{session: Session, notice: string | null}} props */
export function SignIn({ session, notice }) {
  const [problem, setProblem] = useState(/** @type {string | null} */ (null));
  const [isBusy, setBusy] = useState(false);
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
    setProblem(await session.signIn(String(fields.get("username")).trim(), String(fields.get("password"))));
    setBusy(false);
  };
  return html`
    <main class="sign-in">
      <form class="sign-in-form" onSubmit=${submit}>
        <div class="sign-in-head"><${Mark} /><h1>Sign in to Kvasir</h1></div>
        ${notice !== null && html`<p class="sign-in-notice" role="status">${notice}</p>`}
        <label class="field">
          <span>Name</span>
          <input ref=${name} name="username" autocomplete="username" autocapitalize="none" spellcheck=${false} required maxlength="64" />
        </label>
        <label class="field">
          <span>Password</span>
          <input name="password" type="password" autocomplete="current-password" required />
        </label>
        <p class="sign-in-problem" role="alert">${problem}</p>
        <button type="submit" class="button button-primary" disabled=${isBusy}>${isBusy ? "Signing in" : "Sign in"}</button>
        <p class="sign-in-help">No password? The server prints a sign-in link each time it starts.</p>
      </form>
    </main>
  `;
}
