/**
 * The whole page: sign-in, or the list of conversations beside the one that is shown.
 *
 * @import { Commands } from "../commands.js"
 * @import { Session } from "../session.js"
 * @import { State } from "../state.js"
 * @import { Store } from "../store.js"
 * @import { Saying } from "../texts.js"
 */

import { useCallback, useEffect, useRef, useState } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import * as chat from "../texts/chat.js";
import * as signInTexts from "../texts/sign_in.js";
import { Banner } from "./banner.js";
import { Icon, Mark } from "./icon.js";
import { useTexts } from "./language.js";
import { SignIn } from "./sign_in.js";
import { Sidebar } from "./sidebar.js";
import { Thread } from "./thread.js";

const NOTICE_MS = 8000;

/** @param {{store: Store<State>, session: Session, commands: Commands}} props */
export function AppView({ store, session, commands }) {
  const { t } = useTexts(signInTexts);
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
      return html`<${ChatPage} state=${state} session=${session} commands=${commands} />`;
  }
}

/** @param {{onRetry: () => void}} props */
function Unreachable({ onRetry }) {
  const { t } = useTexts(signInTexts);
  return html`
    <main class="sign-in">
      <div class="sign-in-form">
        <div class="sign-in-head"><${Mark} /><h1>${t("unreachableTitle")}</h1></div>
        <p>${t("unreachableText")}</p>
        <button type="button" class="button button-primary" onClick=${onRetry}>${t("tryNow")}</button>
      </div>
    </main>
  `;
}

/** @param {{state: State, session: Session, commands: Commands}} props */
function ChatPage({ state, session, commands }) {
  const { t, say } = useTexts(chat);
  const drawer = useDrawer();
  const title = state.list.items.find((item) => item.id === state.currentId)?.title || t("newChat");
  const signOut = useCallback(() => void session.signOut(), [session]);
  const startNew = () => commands.open(null);
  useEffect(() => {
    document.title = state.currentId === null ? "Kvasir" : `${title} · Kvasir`;
  }, [title, state.currentId]);
  useEffect(() => {
    const keyDown = (/** @type {KeyboardEvent} */ event) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
      event.preventDefault();
      startNew();
      document.getElementById("composer")?.focus();
    };
    document.addEventListener("keydown", keyDown);
    return () => document.removeEventListener("keydown", keyDown);
  }, [commands]);
  return html`
    <div class="page ${drawer.isOpen ? "is-drawer-open" : ""}">
      <a class="skip" href="#composer" onClick=${skipToComposer}>${t("skipToComposer")}</a>
      <aside class="sidebar" id="sidebar" inert=${drawer.isHidden} aria-label=${t("sidebar")}>
        <${Sidebar}
          list=${state.list}
          currentId=${state.currentId}
          username=${state.user?.username ?? ""}
          commands=${commands}
          onChosen=${drawer.close}
          onSignOut=${signOut}
        />
      </aside>
      <div class="scrim" onClick=${drawer.close}></div>
      <main class="main" inert=${drawer.isOpen}>
        <header class="bar">
          <button
            ref=${drawer.opener}
            type="button"
            class="icon-button only-narrow"
            aria-label=${t("conversations")}
            aria-expanded=${String(drawer.isOpen)}
            aria-controls="sidebar"
            onClick=${drawer.open}
          >
            <${Icon} name="menu" />
          </button>
          <h1 dir="auto">${title}</h1>
          <button type="button" class="icon-button only-narrow" aria-label=${t("newChat")} onClick=${startNew}><${Icon} name="plus" /></button>
        </header>
        <${Banner} connection=${state.connection} onReconnect=${() => session.chat?.socket.open()} />
        <${Thread} state=${state} commands=${commands} />
      </main>
      <${Notice} text=${state.notice} onDismiss=${() => commands.dismissNotice()} />
      <div class="visually-hidden" role="status">${say(state.announcement)}</div>
    </div>
  `;
}

/** @param {Event} event */
function skipToComposer(event) {
  // The fragment of the address names the conversation, so the link must not change it.
  event.preventDefault();
  document.getElementById("composer")?.focus();
}

/** @param {{text: Saying | null, onDismiss: () => void}} props */
function Notice({ text, onDismiss }) {
  const { t, say } = useTexts(chat);
  useEffect(() => {
    if (text === null) return undefined;
    const timer = setTimeout(onDismiss, NOTICE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return html`
    <div class="notice-place" role="alert">
      ${text !== null &&
      html`
        <div class="notice">
          <span dir="auto">${say(text)}</span>
          <button type="button" class="icon-button" aria-label=${t("dismiss")} onClick=${onDismiss}><${Icon} name="close" /></button>
        </div>
      `}
    </div>
  `;
}

/** On a narrow screen the sidebar is a drawer; what is out of sight is out of reach of the keyboard too. */
function useDrawer() {
  const opener = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const [isWanted, setWanted] = useState(false);
  const [isNarrow, setNarrow] = useState(() => narrow().matches);
  const isOpen = isNarrow && isWanted;
  const close = useCallback(() => setWanted(false), []);
  useEffect(() => {
    const query = narrow();
    const change = () => setNarrow(query.matches);
    query.addEventListener("change", change);
    return () => query.removeEventListener("change", change);
  }, []);
  useEffect(() => {
    if (!isOpen) return undefined;
    /** @type {HTMLElement | null} */ (document.querySelector("#sidebar button"))?.focus();
    const keyDown = (/** @type {KeyboardEvent} */ event) => {
      // A dialog over the drawer is nearer.
      if (event.key === "Escape" && !document.querySelector("dialog[open]")) close();
    };
    document.addEventListener("keydown", keyDown);
    return () => {
      document.removeEventListener("keydown", keyDown);
      opener.current?.focus();
    };
  }, [isOpen]);
  return { opener, isOpen, isHidden: isNarrow && !isOpen, open: () => setWanted(true), close };
}

function narrow() {
  return matchMedia("(max-width: 52rem)");
}
