/**
 * One quiet line about the connection, and only when there is something to say for longer than a blink.
 *
 * @import { Connection } from "../socket.js"
 */

import { useEffect, useState } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import * as chat from "../texts/chat.js";
import { useTexts } from "./language.js";

const PATIENCE_MS = 1200;

const WORDS = /** @type {const} */ ({
  lost: "connectionLost",
  kicked: "connectionKicked",
  forbidden: "connectionForbidden",
  outdated: "connectionOutdated",
});

/** @param {{connection: Connection, unsentCount: number, onReconnect: () => void}} props */
export function Banner({ connection, unsentCount, onReconnect }) {
  const { t } = useTexts(chat);
  const words = WORDS[/** @type {keyof typeof WORDS} */ (connection)];
  const [isDue, setDue] = useState(false);
  useEffect(() => {
    if (words === undefined) {
      setDue(false);
      return undefined;
    }
    const timer = setTimeout(() => setDue(true), PATIENCE_MS);
    return () => clearTimeout(timer);
  }, [words]);
  return html`
    <div class="banner-place" role="status">
      ${words !== undefined &&
      isDue &&
      html`
        <div class="banner">
          <span>${t(words)}${connection === "lost" && unsentCount > 0 ? ` ${t("waitingToBeSent", { count: unsentCount })}` : ""}</span>
          ${connection === "outdated"
            ? html`<button type="button" class="button" onClick=${() => location.reload()}>${t("reload")}</button>`
            : html`<button type="button" class="button" onClick=${onReconnect}>${t("reconnectNow")}</button>`}
        </div>
      `}
    </div>
  `;
}
