/**
 * The whole page: sign-in, or the chat, or why there is neither.
 *
 * @import { Commands } from "../commands.js"
 * @import { Preferences } from "../preferences.js"
 * @import { Session } from "../session.js"
 * @import { State } from "../state.js"
 * @import { Store } from "../store.js"
 */

import { useEffect, useState } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import * as texts from "../texts/sign_in.js";
import { ChatPage } from "./chat_page.js";
import { useTexts } from "./language.js";
import { SignIn } from "./sign_in.js";
import { Unreachable } from "./unreachable.js";

/** @param {{store: Store<State>, session: Session, commands: Commands, preferences: Preferences}} props */
export function AppView({ store, session, commands, preferences }) {
  const { t } = useTexts(texts);
  const [, redraw] = useState(0);
  useEffect(() => store.subscribe(() => redraw((count) => count + 1)), [store]);
  const state = store.state;
  switch (state.phase) {
    case "starting":
      return html`<main class="blank" aria-busy="true"><span class="visually-hidden">${t("loading")}</span></main>`;
    case "unreachable":
      return html`<${Unreachable} onRetry=${() => session.start("")} />`;
    case "signed_out":
      return html`<${SignIn} session=${session} notice=${state.signInNotice} />`;
    case "signed_in":
      return html`<${ChatPage} state=${state} session=${session} commands=${commands} preferences=${preferences} />`;
  }
}
