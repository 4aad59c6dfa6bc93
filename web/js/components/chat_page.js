/**
 * The page of whoever is signed in: the list of conversations beside the one that is shown, or beside the settings.
 *
 * @import { Commands } from "../commands.js"
 * @import { Preferences } from "../preferences.js"
 * @import { Session } from "../session.js"
 * @import { State } from "../state.js"
 * @import { Conversation } from "../wire.d.ts"
 * @import { Question } from "./conversation_menu.js"
 */

import { useCallback, useEffect, useMemo, useState } from "../../vendor/preact/hooks.js";
import { tagsOf } from "../conversations.js";
import { html } from "../html.js";
import * as chat from "../texts/chat.js";
import { Banner } from "./banner.js";
import { Bar } from "./bar.js";
import { DeleteDialog, TagsDialog } from "./conversation_dialogs.js";
import { ConversationNote } from "./conversation_note.js";
import { useDrawer } from "./drawer.js";
import { HelpDialog } from "./help_dialog.js";
import { useTexts } from "./language.js";
import { Notice } from "./notice.js";
import { SettingsPage } from "./settings_page.js";
import { useShortcuts } from "./shortcuts.js";
import { Sidebar } from "./sidebar.js";
import { Thread } from "./thread.js";

/** @param {{state: State, session: Session, commands: Commands, preferences: Preferences}} props */
export function ChatPage({ state, session, commands, preferences }) {
  const { t, say, language } = useTexts(chat);
  const drawer = useDrawer();
  const [asked, setAsked] = useState(/** @type {{question: Question, id: string} | null} */ (null));
  const [isHelpOpen, setHelpOpen] = useState(false);
  const [isFinding, setFinding] = useState(false);
  const { currentId, known, settings, unsent } = state;
  const current = currentId === null ? null : known.get(currentId) ?? null;
  const title = settings !== null ? t("settings") : currentId === null ? t("newChat") : current?.title || t("newChat");
  const tags = useMemo(() => tagsOf(known.values(), language), [known, language]);
  const signOut = useCallback(() => void session.signOut(), [session]);
  const ask = useCallback((/** @type {Question} */ question, /** @type {Conversation} */ { id }) => setAsked({ question, id }), []);
  const openHelp = useCallback(() => setHelpOpen(true), []);
  const asking = asked === null ? null : known.get(asked.id) ?? null;
  useEffect(() => {
    document.title = currentId === null && settings === null ? "Kvasir" : `${title} · Kvasir`;
  }, [title, currentId, settings]);
  useEffect(() => setFinding(false), [currentId]);
  useShortcuts({ commands, onHelp: openHelp, onFind: () => setFinding(true), canFind: currentId !== null && settings === null });
  return html`
    <div class="page ${drawer.isOpen ? "is-drawer-open" : ""}">
      <a class="skip" href=${settings === null ? "#composer" : "#settings"} onClick=${skip}>
        ${t(settings === null ? "skipToComposer" : "skipToSettings")}
      </a>
      <aside class="sidebar" id="sidebar" inert=${drawer.isHidden} aria-label=${t("sidebar")}>
        <${Sidebar}
          list=${state.list}
          found=${state.found}
          tags=${tags}
          unsentIds=${waitingIds(unsent)}
          currentId=${settings === null ? currentId : null}
          user=${state.user}
          commands=${commands}
          onChosen=${drawer.close}
          onAsk=${ask}
          onHelp=${openHelp}
          onSignOut=${signOut}
        />
      </aside>
      <div class="scrim" onClick=${drawer.close}></div>
      <main class="main" inert=${drawer.isOpen}>
        <${Bar}
          title=${title}
          conversation=${settings === null ? current : null}
          isNew=${settings === null && currentId === null}
          beginning=${state.beginning}
          commands=${commands}
          drawer=${drawer}
          onAsk=${ask}
          onFind=${() => setFinding(true)}
        />
        <${Banner} connection=${state.connection} unsentCount=${unsent.length} onReconnect=${() => session.chat?.socket.open()} />
        ${settings !== null
          ? html`<${SettingsPage} page=${settings} state=${state} session=${session} commands=${commands} preferences=${preferences} />`
          : html`
              ${current && html`<${ConversationNote} conversation=${current} commands=${commands} />`}
              <${Thread} state=${state} commands=${commands} isFinding=${isFinding} onFound=${() => setFinding(false)} />
            `}
      </main>
      <${Notice} text=${state.notice} onDismiss=${() => commands.dismissNotice()} />
      <div class="visually-hidden" role="status">${say(state.announcement)}</div>
      ${isHelpOpen && html`<${HelpDialog} onClose=${() => setHelpOpen(false)} />`}
      ${asking && asked?.question === "delete" && html`<${DeleteDialog} conversation=${asking} commands=${commands} onDone=${() => setAsked(null)} />`}
      ${asking &&
      asked?.question === "tags" &&
      html`<${TagsDialog} conversation=${asking} suggestions=${tags} commands=${commands} onDone=${() => setAsked(null)} />`}
    </div>
  `;
}

/** @param {Event} event */
function skip(event) {
  // The fragment of the address names the conversation, so the link must not change it.
  event.preventDefault();
  /** @type {HTMLElement | null} */ (document.querySelector("#composer, #settings"))?.focus();
}

/** Where something did not get through at once; what is just on its way is no news. @param {State["unsent"]} unsent */
function waitingIds(unsent) {
  const stuck = unsent.filter((one) => one.refused !== null || one.delayed !== undefined);
  return [...new Set(stuck.flatMap((one) => one.conversation_id ?? []))].join(" ");
}
