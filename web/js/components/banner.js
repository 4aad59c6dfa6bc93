/**
 * One quiet line about the connection, and only when there is something to say for longer than a blink.
 *
 * @import { Connection } from "../socket.js"
 */

import { useEffect, useState } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";

const PATIENCE_MS = 1200;

const WORDS = {
  lost: "Connection lost. Reconnecting; what you write is kept and sent then.",
  kicked: "An administrator ended this session.",
  forbidden: "The server does not accept this page's address for live answers.",
  outdated: "The server has been updated. Reload the page to go on.",
};

/** @param {{connection: Connection, onReconnect: () => void}} props */
export function Banner({ connection, onReconnect }) {
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
          <span>${words}</span>
          ${connection === "outdated"
            ? html`<button type="button" class="button" onClick=${() => location.reload()}>Reload</button>`
            : html`<button type="button" class="button" onClick=${onReconnect}>Reconnect now</button>`}
        </div>
      `}
    </div>
  `;
}
