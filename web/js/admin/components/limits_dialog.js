/**
 * The limits of one account or key. They are replaced as a whole, as the server takes them.
 *
 * @import { Quota, QuotaName } from "../wire.d.ts"
 */

import { useTexts } from "../../components/language.js";
import { html } from "../../html.js";
import * as adminTexts from "../../texts/admin.js";
import * as texts from "../../texts/admin_people.js";
import { useDesk, useLoaded, useNotice } from "./desk.js";
import { Dialog, Field } from "./dialog.js";

/** @type {readonly QuotaName[]} */
const NAMES = ["requests_per_minute", "tokens_per_minute", "requests_per_day", "tokens_per_day", "concurrent_answers", "sockets"];

/** @param {{kind: "users" | "keys", id: string, name: string, onClose: () => void}} props */
export function LimitsDialog({ kind, id, name, onClose }) {
  const { t, say } = useTexts(texts);
  const { t: general } = useTexts(adminTexts);
  const { api } = useDesk();
  const notice = useNotice();
  const { value, problem } = useLoaded(() => api.quota(kind, id), [kind, id]);
  const save = async (/** @type {FormData} */ fields) => {
    const entries = NAMES.map((limit) => {
      const text = String(fields.get(limit) ?? "").trim();
      return [limit, text === "" ? null : Number(text)];
    });
    await api.setQuota(kind, id, /** @type {Quota} */ (Object.fromEntries(entries)));
    notice(t("limitsSaved"));
  };
  return html`
    <${Dialog} title=${t("limitsTitle", { username: name })} action=${value === null ? undefined : general("save")} isWide onSubmit=${save} onClose=${onClose}>
      <p>${t(kind === "users" ? "limitsHint" : "limitsKeyHint")}</p>
      ${problem !== null && html`<p class="fault-line">${say(problem)}</p>`}
      ${value === null && problem === null && html`<p class="empty">${general("loading")}</p>`}
      ${value !== null &&
      html`
        <div class="field-grid">
          ${NAMES.map((limit) => html`<${Field} key=${limit} label=${t(`quota.${limit}`)}><input name=${limit} type="number" min="0" step="1" inputmode="numeric" defaultValue=${value[limit] ?? ""} /><//>`)}
        </div>
      `}
    <//>
  `;
}
