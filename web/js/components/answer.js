/**
 * One answer: its text as it grows, the plain truth about its state, and what can be done with it.
 *
 * @import { Commands } from "../commands.js"
 * @import { Message } from "../wire.d.ts"
 */

import { useLayoutEffect, useRef, useState } from "../../vendor/preact/hooks.js";
import { html, memo } from "../html.js";
import { isFinal } from "../message.js";
import * as chat from "../texts/chat.js";
import { AnswerState, endedBadly } from "./answer_state.js";
import { BranchArrows } from "./branch_arrows.js";
import { CopyButton } from "./copy_button.js";
import { CostLine } from "./cost_line.js";
import { Thumbs, WhatWasWrong } from "./feedback.js";
import { Icon } from "./icon.js";
import { useKeepSelection } from "./keep_selection.js";
import { useTexts } from "./language.js";
import { Markdown } from "./markdown_view.js";
import { focusComposer } from "./textarea.js";

/**
 * @typedef {object} Props
 * @property {Message} message
 * @property {Commands} commands
 * @property {boolean} isConnected
 * @property {boolean} isModelSilent a person answers, or is waited for
 * @property {number} place from 1, among those that are shown
 * @property {number} count -1: not known yet
 * @property {number} siblingIndex
 * @property {number} siblingCount
 * @property {string | null} previousId
 * @property {string | null} nextId
 */

export const Answer = memo(
  /** @param {Props} props */ (props) => {
    const { message, commands, isConnected, isModelSilent } = props;
    const { author } = message;
    const { t } = useTexts(chat);
    const [askingId, setAskingId] = useState(/** @type {string | null} */ (null));
    const body = useRef(/** @type {any} */ (null));
    useLayoutEffect(() => {
      if (body.current) body.current.rawText = message.content;
    });
    useKeepSelection(body);
    const isOver = isFinal(message);
    const regenerate = () => {
      void commands.regenerate(message);
      focusComposer();
    };
    return html`
      <article
        class="message from-assistant"
        data-message-id=${message.id}
        data-role="assistant"
        data-status=${message.status}
        aria-label=${author ? t("personSaid", { name: author.name }) : t("kvasirSaid")}
        aria-posinset=${props.place}
        aria-setsize=${props.count}
        tabindex="-1"
        aria-busy=${isOver ? null : "true"}
      >
        ${author && html`<p class="author"><${Icon} name="person" /><span dir="auto">${author.name}</span></p>`}
        <div class="prose ${isOver ? "" : "is-growing"}" ref=${body}>
          <${Markdown} text=${message.content} isGrowing=${!isOver} />
        </div>
        <${AnswerState} message=${message} isConnected=${isConnected} onRegenerate=${regenerate} />
        ${isOver &&
        html`
          <div class="actions">
            <${BranchArrows} ...${props} />
            ${message.content !== "" && html`<${CopyButton} text=${message.content} label=${t("copyAnswer")} />`}
            ${!endedBadly(message) &&
            !author &&
            !isModelSilent &&
            html`
              <button
                type="button"
                class="icon-button"
                aria-label=${t("regenerateAnswer")}
                title=${t("regenerateAnswer")}
                onClick=${regenerate}
              >
                <${Icon} name="refresh" />
              </button>
            `}
            ${message.content !== "" && html`<${Thumbs} message=${message} commands=${commands} onAsk=${(/** @type {boolean} */ isAsked) => setAskingId(isAsked ? message.id : null)} />`}
            <${CostLine} usage=${message.usage} />
          </div>
          ${askingId === message.id && html`<${WhatWasWrong} message=${message} commands=${commands} onDone=${() => setAskingId(null)} />`}
        `}
      </article>
    `;
  },
);
