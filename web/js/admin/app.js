/** The beginning of the dashboard: builds its parts and joins them to the browser. Loaded by `boot.js` through `admin.html`. */

import { render } from "../../vendor/preact/preact.js";
import { Api } from "../api.js";
import { Preferring } from "../components/language.js";
import { html } from "../html.js";
import { PageSession } from "../page_session.js";
import { Preferences } from "../preferences.js";
import { Store } from "../store.js";
import { AdminApi } from "./api.js";
import { AdminView } from "./components/admin_view.js";
import { History } from "./history.js";
import { LiveStats } from "./live.js";
import { sectionIn } from "./route.js";
import { INITIAL_LIVE, initialState } from "./state.js";

const HIDDEN_PAGE_MS = 250;

const preferences = new Preferences(localStorage, document.documentElement, navigator.languages);
const store = new Store(initialState(sectionIn(location.hash)), (callback) => {
  if (document.hidden) setTimeout(callback, HIDDEN_PAGE_MS);
  else requestAnimationFrame(callback);
});
const api = new Api((address, options) => fetch(address, options));
const adminApi = new AdminApi(api);
const history = new History();
const tabs = new BroadcastChannel("kvasir");
const timers = {
  setTimer: (/** @type {() => void} */ callback, /** @type {number} */ ms) => window.setTimeout(callback, ms),
  clearTimer: (/** @type {number | undefined} */ timer) => window.clearTimeout(timer),
  random: Math.random,
};
const live = new LiveStats({
  ...timers,
  open: () => new EventSource("/api/v1/admin/stats/events"),
  onStats: (stats) => {
    history.add(stats);
    store.set({ stats, beats: store.state.beats + 1 });
  },
  onLiveness: (liveness) => store.state.liveness !== liveness && store.set({ liveness }),
  onRefused: () => void session.check(),
});
const session = new PageSession(api, store, {
  ...timers,
  isFor: (user) => user.role === "admin",
  blank: { ...INITIAL_LIVE, notice: null },
  begin: () => live.start(),
  end: () => live.stop(),
  tellTabs: (message) => tabs.postMessage(message),
});

addEventListener("hashchange", () => store.set({ section: sectionIn(location.hash) }));
addEventListener("online", () => live.awaken());
addEventListener("storage", () => preferences.read());
document.addEventListener("visibilitychange", () => !document.hidden && live.awaken());
tabs.addEventListener("message", ({ data }) => {
  if (data !== "conversations") void session.check();
});

void session.start();
const frame = /** @type {Element} */ (document.getElementById("app"));
frame.replaceChildren();
render(
  html`<${Preferring} preferences=${preferences}>
    <${AdminView} store=${store} session=${session} api=${adminApi} history=${history} preferences=${preferences} />
  <//>`,
  frame,
);
