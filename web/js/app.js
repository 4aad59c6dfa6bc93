/**
 * The beginning: builds every part of the page and joins it to the browser. Loaded by `boot.js`; the only module that does anything when it is loaded.
 *
 * @import { State } from "./state.js"
 */

import { render } from "../vendor/preact/preact.js";
import { Api } from "./api.js";
import { Chat } from "./chat.js";
import { Commands } from "./commands.js";
import { AppView } from "./components/app_view.js";
import { Preferring } from "./components/language.js";
import { html } from "./html.js";
import { newId } from "./ids.js";
import { Outbox } from "./outbox.js";
import { Place } from "./place.js";
import { Preferences } from "./preferences.js";
import { Sender } from "./sender.js";
import { ENDED_NOTICE, Session } from "./session.js";
import { LiveSocket } from "./socket.js";
import { initialState } from "./state.js";
import { Store } from "./store.js";

const HIDDEN_PAGE_MS = 250;

const preferences = new Preferences(localStorage, document.documentElement, navigator.languages);

/** @type {Store<State>} */
const store = new Store(initialState(newId()), (callback) => {
  // A hidden page gets no frames; its title and what a screen reader is told still have to follow.
  if (document.hidden) setTimeout(callback, HIDDEN_PAGE_MS);
  else requestAnimationFrame(callback);
});
const api = new Api((address, options) => fetch(address, options));
const place = new Place(location, sessionStorage);
const tabs = new BroadcastChannel("kvasir");
const timers = {
  setTimer: (/** @type {() => void} */ callback, /** @type {number} */ ms) => window.setTimeout(callback, ms),
  clearTimer: (/** @type {number | undefined} */ timer) => window.clearTimeout(timer),
  random: Math.random,
};

const session = new Session(api, store, {
  ...timers,
  tellTabs: (message) => tabs.postMessage(message),
  makeChat: (user, owner) =>
    new Chat(api, store, new Outbox(localStorage, user.id), {
      makeSocket: (chat) =>
        new LiveSocket({
          ...timers,
          connect: () => new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`),
          resumePoints: () => chat.resumePoints(),
          onFrame: (frame) => chat.receive(frame),
          onConnection: (connection) => chat.connectionChanged(connection),
          onHandshakeRefused: () => void owner.check(),
        }),
      makeSender: (chat) =>
        new Sender(api, chat.outbox, {
          ...timers,
          onConversation: (unsent, conversation) => chat.conversationMade(unsent, conversation),
          onAccepted: (unsent, accepted) => {
            chat.outboxChanged();
            if (unsent.conversation_id !== null) chat.accepted(unsent.conversation_id, accepted, { isMine: true });
            tabs.postMessage("conversations");
          },
          onChange: () => chat.outboxChanged(),
          onSignedOut: () => owner.end(ENDED_NOTICE),
        }),
      onSignedOut: () => owner.end(ENDED_NOTICE),
      showAddress: (conversationId) => place.show(conversationId),
      tellTabs: (message) => tabs.postMessage(message),
      now: Date.now,
    }),
});
const commands = new Commands(() => session.chat, Date.now);

const [navigation] = performance.getEntriesByType("navigation");
store.set({ currentId: place.first(/** @type {any} */ (navigation)?.type === "reload"), settings: place.settings() });
addEventListener("hashchange", () => {
  store.set({ settings: place.settings() });
  // Settings are shown over the conversation, which stays what it is.
  if (place.settings() !== null) return;
  const conversationId = place.current();
  if (session.chat) commands.open(conversationId);
  else store.set({ currentId: conversationId, threadId: newId() });
});
addEventListener("online", () => session.chat?.socket.awaken());
addEventListener("offline", () => session.chat?.socket.reconnect());
addEventListener("storage", () => {
  session.chat?.outboxChanged();
  preferences.read();
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  if (session.chat) {
    session.chat.socket.awaken();
    session.chat.refresh();
  } else if (store.state.phase === "signed_out") {
    void session.check();
  }
});
tabs.addEventListener("message", ({ data }) => {
  if (data === "conversations") session.chat?.refresh();
  else void session.check();
});

const query = location.search;
// The message of a used sign-in link is for once: it must not come back with a reload.
if (query !== "") history.replaceState(null, "", location.pathname + location.hash);
void session.start(query);
const frame = /** @type {Element} */ (document.getElementById("app"));
frame.replaceChildren();
render(
  html`<${Preferring} preferences=${preferences}><${AppView} store=${store} session=${session} commands=${commands} preferences=${preferences} /><//>`,
  frame,
);
