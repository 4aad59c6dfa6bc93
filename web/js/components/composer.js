/**
 * Where the person writes. What is typed is kept per conversation until it is sent, through reloads and lost connections.
 *
 * @import { Commands } from "../commands.js"
 * @import { Message } from "../wire.d.ts"
 */

import { useEffect, useLayoutEffect, useRef, useState } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import * as chat from "../texts/chat.js";
import { Icon, StopIcon } from "./icon.js";
import { useChoices, useTexts } from "./language.js";
import { fitHeight, focusComposer, isSendKey } from "./textarea.js";

/**
 * @typedef {object} Props
 * @property {string | null} conversationId
 * @property {Commands} commands
 * @property {Message | null} running the answer that can be stopped
 * @property {{text: string} | null} takenBack a message that goes back into the composer
 * @property {() => void} onSent
 */

/** @param {Props} props */
export function Composer({ conversationId, commands, running, takenBack, onSent }) {
  const { t } = useTexts(chat);
  const { sendKey } = useChoices();
  const area = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const [text, setText] = useState(() => commands.draft(conversationId));
  const change = (/** @type {string} */ next) => {
    setText(next);
    commands.putDraft(conversationId, next);
  };
  useLayoutEffect(() => {
    setText(commands.draft(conversationId));
    focusComposer();
  }, [conversationId]);
  useEffect(() => {
    if (!takenBack) return;
    change(text === "" ? takenBack.text : `${takenBack.text}\n${text}`);
    area.current?.focus();
  }, [takenBack]);
  useLayoutEffect(() => fitHeight(area.current), [text]);

  const isSendable = text.trim() !== "";
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!isSendable || !commands.send(text)) return;
    change("");
    onSent();
  };
  return html`
    <form class="composer" onSubmit=${submit}>
      <textarea
        ref=${area}
        id="composer"
        dir="auto"
        rows="1"
        placeholder=${t("askAnything")}
        aria-label=${t("message")}
        aria-describedby="composer-hint"
        enterkeyhint="send"
        value=${text}
        onInput=${(/** @type {any} */ event) => {
          change(event.target.value);
          commands.typing();
        }}
        onKeyDown=${(/** @type {KeyboardEvent} */ event) => isSendKey(event, sendKey) && submit(event)}
      ></textarea>
      <div class="composer-buttons">
        ${running &&
        html`
          <button
            type="button"
            class="round-button"
            aria-label=${t("stop")}
            title=${t("stopHint")}
            onClick=${() => {
              commands.stop(running);
              focusComposer();
            }}
          >
            <${StopIcon} />
          </button>
        `}
        <button type="submit" class="round-button is-primary" aria-label=${t("send")} title=${t(sendKey === "enter" ? "sendHint" : "sendHintMod")} disabled=${!isSendable}>
          <${Icon} name="send" />
        </button>
      </div>
    </form>
  `;
}
