/**
 * What can be done with a conversation, as a menu: the same beside its line in the list and above its messages.
 *
 * @import { Commands } from "../commands.js"
 * @import { Conversation } from "../wire.d.ts"
 * @import { Item } from "./menu.js"
 */

import { exportAddress } from "../api.js";
import { html } from "../html.js";
import * as chat from "../texts/chat.js";
import { Icon } from "./icon.js";
import { useTexts } from "./language.js";
import { Menu } from "./menu.js";

/** A question that a dialog asks about a conversation. @typedef {"tags" | "delete"} Question */

/**
 * @typedef {object} Props
 * @property {Conversation} conversation
 * @property {Commands} commands
 * @property {() => void} onRename
 * @property {(question: Question, conversation: Conversation) => void} onAsk
 * @property {readonly Item[]} [first] what else there is, where it is shown
 */

/** @param {Props} props */
export function ConversationMenu({ conversation, commands, onRename, onAsk, first = [] }) {
  const { t } = useTexts(chat);
  const { archived, temporary, state } = conversation;
  const isModelAnswering = state !== "queued" && state !== "human";
  /** @type {Item[]} */
  const items = [
    ...first,
    { label: t("rename"), icon: "pencil", onChoose: onRename },
    { label: t("tags"), icon: "tag", onChoose: () => onAsk("tags", conversation) },
    temporary
      ? { label: t("keep"), icon: "archive", onChoose: () => void commands.conversations.keep(conversation) }
      : { label: t(archived ? "unarchive" : "archive"), icon: "archive", onChoose: () => void commands.conversations.archive(conversation, !archived) },
    ...(isModelAnswering ? [{ label: t("askForPerson"), icon: /** @type {const} */ ("person"), onChoose: () => void commands.conversations.askForPerson(conversation) }] : []),
    {},
    { label: t("exportMarkdown"), icon: "download", href: exportAddress(conversation.id, "markdown"), isDownload: true },
    { label: t("exportJson"), icon: "download", href: exportAddress(conversation.id, "json"), isDownload: true },
    { label: t("exportNdjson"), icon: "download", href: exportAddress(conversation.id, "ndjson"), isDownload: true },
    {},
    { label: t("delete"), icon: "trash", isDanger: true, onChoose: () => onAsk("delete", conversation) },
  ];
  return html`
    <${Menu} label=${t("moreOf", { title: conversation.title || t("untitled") })} title=${t("more")} items=${items}>
      <${Icon} name="more" />
    <//>
  `;
}
