/**
 * Above the messages: what the conversation is called, what is particular about it, and the menu of what can be done with it.
 *
 * @import { Commands } from "../commands.js"
 * @import { Beginning, Conversation } from "../wire.d.ts"
 * @import { Question } from "./conversation_menu.js"
 * @import { Drawer } from "./drawer.js"
 */

import { useState } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import * as chat from "../texts/chat.js";
import { ConversationMenu } from "./conversation_menu.js";
import { Icon } from "./icon.js";
import { useTexts } from "./language.js";
import { TitleEditor } from "./title_editor.js";

/**
 * @typedef {object} Props
 * @property {string} title
 * @property {Conversation | null} conversation
 * @property {boolean} isNew
 * @property {Beginning} beginning
 * @property {Commands} commands
 * @property {Drawer} drawer
 * @property {(question: Question, conversation: Conversation) => void} onAsk
 * @property {() => void} onFind
 */

/** @param {Props} props */
export function Bar({ title, conversation, isNew, beginning, commands, drawer, onAsk, onFind }) {
  const { t } = useTexts(chat);
  const [renamingId, setRenamingId] = useState(/** @type {string | null} */ (null));
  const isRenaming = conversation !== null && renamingId === conversation.id;
  return html`
    <header class="bar">
      <button
        ref=${drawer.opener}
        type="button"
        class="icon-button only-narrow"
        aria-label=${t("conversations")}
        aria-expanded=${String(drawer.isOpen)}
        aria-controls="sidebar"
        onClick=${drawer.open}
      >
        <${Icon} name="menu" />
      </button>
      <div class="bar-title">
        ${isRenaming
          ? html`<${TitleEditor} conversation=${conversation} commands=${commands} onDone=${() => setRenamingId(null)} />`
          : html`<h1 dir="auto">${title}</h1>`}
        ${conversation && !isRenaming && html`<${Marks} conversation=${conversation} commands=${commands} />`}
      </div>
      ${conversation &&
      html`
        <${ConversationMenu}
          conversation=${conversation}
          commands=${commands}
          first=${[{ label: t("find"), icon: "search", onChoose: onFind }]}
          onRename=${() => setRenamingId(conversation.id)}
          onAsk=${onAsk}
        />
      `}
      ${isNew &&
      html`
        <button
          type="button"
          class="icon-button ${beginning.temporary ? "is-on" : ""}"
          aria-label=${t("temporaryChat")}
          title=${t("temporaryChat")}
          aria-pressed=${String(beginning.temporary)}
          onClick=${() => commands.begin({ temporary: !beginning.temporary })}
        >
          <${Icon} name="clock" />
        </button>
      `}
      <button type="button" class="icon-button only-narrow" aria-label=${t("newChat")} title=${t("newChat")} onClick=${() => commands.open(null)}>
        <${Icon} name="plus" />
      </button>
    </header>
  `;
}

/** Persona and tags; a tag leads to all conversations that have it. @param {{conversation: Conversation, commands: Commands}} props */
function Marks({ conversation, commands }) {
  const { t } = useTexts(chat);
  const { persona, tags } = conversation;
  if (!persona && !tags?.length) return null;
  return html`
    <span class="bar-marks">
      ${persona && html`<span class="chip is-quiet" title=${t("persona")}><${Icon} name="person" />${persona}</span>`}
      ${(tags ?? []).map(
        (tag) => html`
          <button key=${tag} type="button" class="chip is-quiet" title=${t("withTag", { tag })} onClick=${() => void commands.search.look({ tag, archived: false })}>
            <${Icon} name="tag" /><span dir="auto">${tag}</span>
          </button>
        `,
      )}
    </span>
  `;
}
