/**
 * One account: its role, whether it is disabled, and for how long its conversations are kept. Only what was changed is sent.
 *
 * @import { Account } from "../wire.d.ts"
 */

import { useTexts } from "../../components/language.js";
import { html } from "../../html.js";
import * as texts from "../../texts/admin_people.js";
import { useDesk, useLoaded, useNotice } from "./desk.js";
import { Dialog, Field } from "./dialog.js";

const ROLES = /** @type {const} */ (["user", "agent", "admin"]);

/** @param {{account: Account, onClose: () => void, onSaved: () => unknown}} props */
export function UserDialog({ account, onClose, onSaved }) {
  const { t, say } = useTexts(texts);
  const { api } = useDesk();
  const notice = useNotice();
  const retention = useLoaded(() => api.retention(account.id), [account.id]);
  const days = retention.value?.source === "user" ? String(retention.value.days) : "";
  const save = async (/** @type {FormData} */ fields) => {
    const [role, disabled] = [String(fields.get("role") ?? account.role), fields.has("disabled")];
    const wantedDays = String(fields.get("days") ?? days);
    if (wantedDays !== days) await api.setRetention(account.id, wantedDays === "" ? null : Number(wantedDays));
    const change = {
      ...(role === account.role ? {} : { role }),
      ...(disabled === (account.disabled_at !== null) ? {} : { disabled }),
    };
    if (Object.keys(change).length > 0) await api.changeUser(account.id, change);
    notice(t("userSaved", { username: account.username }));
    onSaved();
  };
  return html`
    <${Dialog} title=${t("editTitle", { username: account.username })} action=${t("edit")} onSubmit=${save} onClose=${onClose}>
      ${account.role !== "visitor" &&
      html`
        <${Field} label=${t("roleField")}>
          <select name="role" autofocus>${ROLES.map((name) => html`<option value=${name} selected=${name === account.role}>${t(`role.${name}`)}</option>`)}</select>
        <//>
      `}
      <label class="check"><input type="checkbox" name="disabled" defaultChecked=${account.disabled_at !== null} />${t("disabledField")}</label>
      ${retention.problem !== null && html`<p class="fault-line">${say(retention.problem)}</p>`}
      ${retention.value !== null &&
      html`
        <${Field} label=${t("retention")} hint=${retention.value.source === "server" ? `${t("retentionHint")} ${t("retentionServer", { days: retention.value.days })}` : t("retentionHint")}>
          <input name="days" type="number" min="0" max="36500" step="1" defaultValue=${days} />
        <//>
      `}
    <//>
  `;
}
