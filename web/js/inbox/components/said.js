/**
 * One message as agents see it: the person at the one side, whoever answers at the other, by name.
 *
 * @import { SaidMessage } from "../wire.d.ts"
 */

import { useTexts } from "../../components/language.js";
import { Markdown } from "../../components/markdown_view.js";
import { html, memo } from "../../html.js";
import * as texts from "../../texts/inbox.js";

const TIME = /** @type {const} */ ({ hour: "2-digit", minute: "2-digit" });

export const Said = memo(
  /** @param {{message: SaidMessage, name: string, me: string}} props */ ({ message, name, me }) => {
    const { t, language } = useTexts(texts);
    const isPerson = message.role === "user";
    const { author } = message;
    const who = isPerson ? name : author ? (author.id === me ? t("you") : author.name) : t("assistant");
    const kind = isPerson ? "of-person" : author ? "of-agent" : "of-bot";
    const isGrowing = message.status === "in_progress" || message.status === "queued";
    const isCut = message.status !== "completed" && !isGrowing;
    return html`
      <article class="said ${kind}" data-message-id=${message.id} data-status=${message.status}>
        <p class="said-who">
          <span dir="auto">${who}</span> <time datetime=${message.created_at}>${new Date(message.created_at).toLocaleTimeString(language, TIME)}</time>
        </p>
        <div class="said-text ${isPerson || author ? "" : "prose"}" dir="auto">
          ${message.content === "" && isGrowing ? t("answering") : isPerson || author ? message.content : html`<${Markdown} text=${message.content} isGrowing=${false} />`}
        </div>
        ${isCut && html`<p class="said-note">${t("unfinished")}</p>`}
      </article>
    `;
  },
);
