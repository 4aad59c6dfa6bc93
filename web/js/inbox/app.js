/** The beginning of the agents' inbox: builds its parts and joins them to the browser. Loaded by `boot.js` through `inbox.html`. */

import { render } from "../../vendor/preact/preact.js";
import { Api } from "../api.js";
import { Preferring } from "../components/language.js";
import { html } from "../html.js";
import { newId } from "../ids.js";
import { PageSession } from "../page_session.js";
import { Preferences } from "../preferences.js";
import { Store } from "../store.js";
import { InboxView } from "./components/inbox_view.js";
import { Desk } from "./desk.js";
import { DeskApi } from "./desk_api.js";
import { InboxFeed } from "./feed.js";
import { NOTHING_YET, initialState } from "./state.js";

const HIDDEN_PAGE_MS = 250;
const TICK_MS = 5000;

const preferences = new Preferences(localStorage, document.documentElement, navigator.languages);
const store = new Store(initialState(Date.now()), (callback) => {
  if (document.hidden) setTimeout(callback, HIDDEN_PAGE_MS);
  else requestAnimationFrame(callback);
});
const api = new Api((address, options) => fetch(address, options));
const tabs = new BroadcastChannel("kvasir");
const timers = {
  setTimer: (/** @type {() => void} */ callback, /** @type {number} */ ms) => window.setTimeout(callback, ms),
  clearTimer: (/** @type {number | undefined} */ timer) => window.clearTimeout(timer),
  random: Math.random,
};
const idInAddress = () => /^#\/([0-9a-f-]{36})$/.exec(location.hash)?.[1] ?? null;
const desk = new Desk(new DeskApi(api), store, {
  ...timers,
  nowMs: Date.now,
  newId,
  showAddress: (id) => idInAddress() !== id && history.pushState(null, "", id === null ? location.pathname : `#/${id}`),
});
const feed = new InboxFeed({
  ...timers,
  open: () => new EventSource("/api/v1/inbox/events"),
  onEvent: (name, data) => desk.heard(name, data),
  onBroken: () => {
    desk.broken();
    void session.check();
  },
});
const session = new PageSession(api, store, {
  ...timers,
  isFor: (user) => user.role === "agent" || user.role === "admin",
  blank: NOTHING_YET,
  begin: () => {
    feed.start();
    desk.open(idInAddress());
  },
  end: () => feed.stop(),
  tellTabs: (message) => tabs.postMessage(message),
});

setInterval(() => store.set({ nowMs: Date.now() }), TICK_MS);
addEventListener("popstate", () => desk.open(idInAddress()));
addEventListener("online", () => feed.awaken());
addEventListener("storage", () => preferences.read());
document.addEventListener("visibilitychange", () => !document.hidden && feed.awaken());
tabs.addEventListener("message", ({ data }) => {
  if (data !== "conversations") void session.check();
});

void session.start();
const frame = /** @type {Element} */ (document.getElementById("app"));
frame.replaceChildren();
render(html`<${Preferring} preferences=${preferences}><${InboxView} store=${store} session=${session} desk=${desk} /><//>`, frame);
