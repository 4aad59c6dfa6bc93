/**
 * What the engine keeps ready of one's own conversations, where, for how long still; and dropping it.
 *
 * @import { AccountApi } from "../account_api.js"
 * @import { Commands } from "../commands.js"
 * @import { State } from "../state.js"
 * @import { LiveSession } from "../wire.d.ts"
 */

import { useEffect } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import { hashOf } from "../route.js";
import * as texts from "../texts/settings.js";
import { useTexts } from "./language.js";
import { Loading, useLoaded } from "./loaded.js";

const REFRESH_MS = 5000;

/** @param {{state: State, account: AccountApi, commands: Commands}} props */
export function SessionsPage({ state, account, commands }) {
  const { t } = useTexts(texts);
  const loaded = useLoaded(async () => {
    const { items } = await account.sessions();
    await Promise.all(items.map(({ id }) => commands.learnOf(id)));
    return items;
  });
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && void loaded.reload(), REFRESH_MS);
    return () => clearInterval(timer);
  }, []);
  const drop = async (/** @type {LiveSession} */ session) => {
    await commands.attempt(() => account.dropSession(session.id));
    await loaded.reload();
  };
  const sessions = loaded.value ?? [];
  return html`
    <section aria-labelledby="settings-heading">
      <h2 id="settings-heading">${t("page_sessions")}</h2>
      <p class="settings-text">${t("sessionsText")}</p>
      <${Loading} loaded=${loaded} />
      ${loaded.value !== null && sessions.length === 0 && html`<p class="settings-empty">${t("noSessions")}</p>`}
      <ul class="cards">
        ${sessions.map(
          (session) => html`
            <li key=${session.id} class="card" data-session=${session.id}>
              <div class="card-words">
                <a href=${hashOf(session.id)} dir="auto">${state.known.get(session.id)?.title || t("untitled")}</a>
                <small>
                  <span class="tier is-${session.state}">${t(`tier_${session.state}`)}</span>
                  <span>${t("tokensKept", { count: session.tokens })}</span>
                  <span>${timeLeft(session)}</span>
                </small>
              </div>
              <button
                type="button"
                class="button"
                disabled=${session.state === "active"}
                aria-label=${t("dropOf", { title: state.known.get(session.id)?.title || t("untitled") })}
                onClick=${() => drop(session)}
              >
                ${t("drop")}
              </button>
            </li>
          `,
        )}
      </ul>
    </section>
  `;

  /** @param {LiveSession} session */
  function timeLeft({ state: where, seconds_to_timeout: secondsLeft }) {
    if (secondsLeft === null) return t("inUse");
    const key = where === "device" ? "toHostIn" : where === "host" ? "toDiskIn" : "goneIn";
    return t(key, { time: duration(secondsLeft) });
  }

  /** @param {number} seconds */
  function duration(seconds) {
    if (seconds < 90) return t("secondsLong", { count: Math.max(0, Math.round(seconds)) });
    if (seconds < 5400) return t("minutesLong", { count: Math.round(seconds / 60) });
    return t("hoursLong", { count: Math.round(seconds / 3600) });
  }
}
