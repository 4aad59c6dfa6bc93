/**
 * The audit log, with its filters.
 *
 * @import { AuditEntry } from "../wire.d.ts"
 */

import { useState } from "../../../vendor/preact/hooks.js";
import { useTexts } from "../../components/language.js";
import { html } from "../../html.js";
import * as texts from "../../texts/admin_people.js";
import { dateTime } from "../format.js";
import { DataTable } from "./data_table.js";
import { useDesk, useListing } from "./desk.js";

const NO_FILTER = { action: "", actor_id: "", target_id: "" };

export function AuditView() {
  const { t, language } = useTexts(texts);
  const { api } = useDesk();
  const [filter, setFilter] = useState(NO_FILTER);
  const listing = useListing((cursor) => api.audit(cursor, filter), [filter]);
  const apply = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const fields = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const of = (/** @type {string} */ name) => String(fields.get(name)).trim();
    setFilter({ action: of("action"), actor_id: of("actor_id"), target_id: of("target_id") });
  };
  const only = (/** @type {Partial<typeof NO_FILTER>} */ part) => () => setFilter({ ...NO_FILTER, ...part });
  const isFiltered = filter.action !== "" || filter.actor_id !== "" || filter.target_id !== "";
  return html`
    <p class="section-note">${t("auditHint")}</p>
    <form class="toolbar" key=${JSON.stringify(filter)} onSubmit=${apply}>
      ${/** @type {const} */ ([["action", "actionFilter"], ["actor_id", "actorFilter"], ["target_id", "targetFilter"]]).map(
        ([name, text]) => html`<div class="filter" key=${name}><input aria-label=${t(text)} name=${name} placeholder=${t(text)} defaultValue=${filter[name]} spellcheck=${false} autocapitalize="none" /></div>`,
      )}
      <button type="submit" class="button">${t("apply")}</button>
      ${isFiltered && html`<button type="button" class="button" onClick=${only({})}>${t("clear")}</button>`}
    </form>
    <${DataTable}
      label=${t("audit")}
      items=${listing.items}
      listing=${listing}
      whenEmpty=${t("noAudit")}
      keyOf=${(/** @type {AuditEntry} */ entry) => entry.id}
      columns=${[
        { head: t("column.when"), cell: (/** @type {AuditEntry} */ entry) => dateTime(entry.created_at, language) },
        {
          head: t("column.actor"),
          cell: (/** @type {AuditEntry} */ { actor }) =>
            actor.id === null ? html`<span class="cell-soft">${actor.username}</span>` : html`<button type="button" class="link-button" onClick=${only({ actor_id: actor.id })}>${actor.username}</button>`,
        },
        {
          head: t("column.action"),
          cell: (/** @type {AuditEntry} */ entry) => html`<button type="button" class="link-button cell-code" onClick=${only({ action: entry.action })}>${entry.action}</button>`,
        },
        {
          head: t("column.target"),
          cell: (/** @type {AuditEntry} */ { target_id }) =>
            target_id === null ? html`<span class="cell-soft">–</span>` : html`<button type="button" class="link-button cell-code" title=${target_id} onClick=${only({ target_id })}>${target_id.slice(0, 20)}</button>`,
        },
        { head: t("column.details"), cell: (/** @type {AuditEntry} */ entry) => html`<div class="wrap cell-soft">${detailsOf(entry)}</div>` },
      ]}
    />
  `;
}

/** @param {AuditEntry} entry */
function detailsOf({ details }) {
  return Object.entries(details)
    .map(([name, value]) => `${name}: ${Array.isArray(value) ? value.join(", ") : String(value)}`)
    .join(" · ");
}
