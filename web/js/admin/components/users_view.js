/**
 * Everybody's accounts: make one, change role and state, reset a password, set limits and how long conversations are kept, delete.
 *
 * @import { Account } from "../wire.d.ts"
 */

import { useState } from "../../../vendor/preact/hooks.js";
import { useTexts } from "../../components/language.js";
import { html } from "../../html.js";
import * as texts from "../../texts/admin_people.js";
import { dateTime } from "../format.js";
import { DataTable } from "./data_table.js";
import { useDesk, useListing, useNotice } from "./desk.js";
import { Dialog, Field } from "./dialog.js";
import { LimitsDialog } from "./limits_dialog.js";
import { UserDialog } from "./user_dialog.js";

const ROLES = /** @type {const} */ (["user", "agent", "admin"]);

export function UsersView() {
  const { t, language } = useTexts(texts);
  const { api, store } = useDesk();
  const notice = useNotice();
  const [role, setRole] = useState("");
  const [opened, setOpened] = useState(/** @type {{what: "edit" | "password" | "limits" | "delete", account: Account} | {what: "new"} | null} */ (null));
  const listing = useListing((cursor) => api.users(cursor, role), [role]);
  const close = () => setOpened(null);
  const open = (/** @type {"edit" | "password" | "limits" | "delete"} */ what, /** @type {Account} */ account) => () => setOpened({ what, account });
  const create = async (/** @type {FormData} */ fields) => {
    const password = String(fields.get("password"));
    const made = await api.createUser({
      username: String(fields.get("username")).trim(),
      role: String(fields.get("role")),
      ...(password === "" ? {} : { password }),
    });
    notice(t("userMade", { username: made.username }));
    void listing.reload();
  };
  const remove = async () => {
    if (opened?.what !== "delete") return;
    await api.deleteUser(opened.account.id);
    notice(t("userDeleted", { username: opened.account.username }));
    void listing.reload();
  };
  return html`
    <div class="toolbar">
      <div class="filter">
        <select aria-label=${t("roleField")} value=${role} onChange=${(/** @type {any} */ event) => setRole(event.target.value)}>
          <option value="">${t("role.all")}</option>
          ${/** @type {const} */ ([...ROLES, "visitor"]).map((name) => html`<option value=${name}>${t(`role.${name}`)}</option>`)}
        </select>
      </div>
      <button type="button" class="button button-primary push" onClick=${() => setOpened({ what: "new" })}>${t("newUser")}</button>
    </div>
    <${DataTable}
      label=${t("users")}
      items=${listing.items}
      listing=${listing}
      keyOf=${(/** @type {Account} */ account) => account.id}
      columns=${[
        { head: t("column.name"), cell: (/** @type {Account} */ account) => html`<span class="cell-name" dir="auto">${account.username}</span>` },
        { head: t("column.role"), cell: (/** @type {Account} */ account) => t(`role.${account.role}`) },
        {
          head: t("column.status"),
          cell: (/** @type {Account} */ { disabled_at }) => html`<span class="state-mark state-${disabled_at === null ? "enabled" : "disabled"}">${t(disabled_at === null ? "active" : "disabled")}</span>`,
        },
        { head: t("column.password"), cell: (/** @type {Account} */ account) => html`<span class="cell-soft">${t(account.has_password ? "hasPassword" : "byLink")}</span>` },
        { head: t("column.created"), cell: (/** @type {Account} */ account) => html`<span class="cell-soft">${dateTime(account.created_at, language)}</span>` },
        {
          head: t("column.actions"),
          isHeadHidden: true,
          isNumber: true,
          cell: (/** @type {Account} */ account) => html`
            <span class="cell-buttons">
              <button type="button" class="button button-small" aria-label=${t("editOf", { username: account.username })} onClick=${open("edit", account)}>${t("edit")}</button>
              <button type="button" class="button button-small" aria-label=${t("limitsOf", { username: account.username })} onClick=${open("limits", account)}>${t("limits")}</button>
              <button type="button" class="button button-small" aria-label=${t("passwordOf", { username: account.username })} onClick=${open("password", account)}>${t("password")}</button>
              ${account.id !== store.state.user?.id &&
              html`<button type="button" class="button button-small button-danger" aria-label=${t("deleteOf", { username: account.username })} onClick=${open("delete", account)}>${t("delete")}</button>`}
            </span>
          `,
        },
      ]}
    />
    ${opened?.what === "new" &&
    html`
      <${Dialog} title=${t("newUser")} action=${t("create")} onSubmit=${create} onClose=${close}>
        <${Field} label=${t("nameField")}><input name="username" required maxlength="64" autocomplete="off" autocapitalize="none" spellcheck=${false} autofocus /><//>
        <${Field} label=${t("roleField")}><select name="role">${ROLES.map((name) => html`<option value=${name}>${t(`role.${name}`)}</option>`)}</select><//>
        <${Field} label=${t("passwordField")} hint=${t("passwordHint")}><input name="password" type="password" minlength="8" autocomplete="new-password" /><//>
      <//>
    `}
    ${opened?.what === "edit" && html`<${UserDialog} account=${opened.account} onClose=${close} onSaved=${listing.reload} />`}
    ${opened?.what === "limits" && html`<${LimitsDialog} kind="users" id=${opened.account.id} name=${opened.account.username} onClose=${close} />`}
    ${opened?.what === "delete" &&
    html`
      <${Dialog} title=${t("deleteTitle", { username: opened.account.username })} action=${t("delete")} isDanger onSubmit=${remove} onClose=${close}>
        <p>${t("deleteText")}</p>
      <//>
    `}
    ${opened?.what === "password" && html`<${PasswordDialog} account=${opened.account} onClose=${close} />`}
  `;
}

/** @param {{account: Account, onClose: () => void}} props */
function PasswordDialog({ account, onClose }) {
  const { t } = useTexts(texts);
  const { api } = useDesk();
  const notice = useNotice();
  const reset = async (/** @type {FormData} */ fields) => {
    await api.resetPassword(account.id, String(fields.get("password")));
    notice(t("passwordReset", { username: account.username }));
  };
  return html`
    <${Dialog} title=${t("resetTitle", { username: account.username })} action=${t("reset")} onSubmit=${reset} onClose=${onClose}>
      <${Field} label=${t("newPasswordField")} hint=${t("newPasswordHint")}><input name="password" type="password" required minlength="8" autocomplete="new-password" autofocus /><//>
    <//>
  `;
}
