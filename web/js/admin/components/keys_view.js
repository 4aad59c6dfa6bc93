/**
 * Everybody's API keys, ended ones too: whose they are, when they were used, their limits; revoke one.
 *
 * @import { ApiKey } from "../wire.d.ts"
 */

import { useState } from "../../../vendor/preact/hooks.js";
import { useTexts } from "../../components/language.js";
import { html } from "../../html.js";
import * as texts from "../../texts/admin_people.js";
import { dateTime } from "../format.js";
import { DataTable } from "./data_table.js";
import { useDesk, useListing, useNotice } from "./desk.js";
import { Dialog } from "./dialog.js";
import { LimitsDialog } from "./limits_dialog.js";

export function KeysView() {
  const { t, language } = useTexts(texts);
  const { api } = useDesk();
  const notice = useNotice();
  const [opened, setOpened] = useState(/** @type {{what: "revoke" | "limits", key: ApiKey} | null} */ (null));
  const listing = useListing((cursor) => api.keys(cursor, ""), []);
  const close = () => setOpened(null);
  const revoke = async () => {
    if (opened === null) return;
    await api.revokeKey(opened.key.id);
    notice(t("keyRevoked"));
    void listing.reload();
  };
  const statusOf = (/** @type {ApiKey} */ key) =>
    key.revoked_at !== null ? "revoked" : key.expires_at !== null && Date.parse(key.expires_at) < Date.now() ? "ended" : "active";
  return html`
    <p class="section-note">${t("keysHint")}</p>
    <${DataTable}
      label=${t("keys")}
      items=${listing.items}
      listing=${listing}
      keyOf=${(/** @type {ApiKey} */ key) => key.id}
      columns=${[
        { head: t("column.name"), cell: (/** @type {ApiKey} */ key) => html`<span class="cell-name" dir="auto">${key.name}</span>` },
        { head: t("column.user"), cell: (/** @type {ApiKey} */ key) => html`<span class="cell-name" dir="auto">${key.username}</span>` },
        {
          head: t("column.status"),
          cell: (/** @type {ApiKey} */ key) => html`<span class="state-mark state-${statusOf(key) === "active" ? "enabled" : "disabled"}">${t(statusOf(key))}</span>`,
        },
        { head: t("column.lastUsed"), cell: (/** @type {ApiKey} */ key) => (key.last_used_at === null ? t("never") : dateTime(key.last_used_at, language)) },
        { head: t("column.created"), cell: (/** @type {ApiKey} */ key) => html`<span class="cell-soft">${dateTime(key.created_at, language)}</span>` },
        { head: t("column.expires"), cell: (/** @type {ApiKey} */ key) => html`<span class="cell-soft">${key.expires_at === null ? t("never") : dateTime(key.expires_at, language)}</span>` },
        {
          head: t("column.actions"),
          isHeadHidden: true,
          isNumber: true,
          cell: (/** @type {ApiKey} */ key) =>
            statusOf(key) === "active" &&
            html`
              <span class="cell-buttons">
                <button type="button" class="button button-small" aria-label=${t("limitsOf", { username: key.name })} onClick=${() => setOpened({ what: "limits", key })}>${t("limits")}</button>
                <button type="button" class="button button-small button-danger" aria-label=${t("revokeOf", { name: key.name })} onClick=${() => setOpened({ what: "revoke", key })}>${t("revoke")}</button>
              </span>
            `,
        },
      ]}
    />
    ${opened?.what === "limits" && html`<${LimitsDialog} kind="keys" id=${opened.key.id} name=${opened.key.name} onClose=${close} />`}
    ${opened?.what === "revoke" &&
    html`
      <${Dialog} title=${t("revokeTitle", { name: opened.key.name })} action=${t("revoke")} isDanger onSubmit=${revoke} onClose=${close}>
        <p>${t("revokeText", { username: opened.key.username })}</p>
      <//>
    `}
  `;
}
