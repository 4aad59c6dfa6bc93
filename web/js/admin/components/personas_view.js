/**
 * Personas: what they say, how far their prompt is computed ahead; make, change, delete one, and look at its versions.
 *
 * @import { Persona } from "../wire.d.ts"
 */

import { useState } from "../../../vendor/preact/hooks.js";
import { useTexts } from "../../components/language.js";
import { html } from "../../html.js";
import * as texts from "../../texts/admin_bots.js";
import { dateTime, number } from "../format.js";
import { DataTable } from "./data_table.js";
import { useDesk, useListing, useNotice, useRepeated } from "./desk.js";
import { Dialog } from "./dialog.js";
import { PersonaDialog } from "./persona_dialog.js";
import { PersonaVersions } from "./persona_versions.js";

const BUILDING_MS = 2000;

export function PersonasView() {
  const { t, language } = useTexts(texts);
  const { api } = useDesk();
  const notice = useNotice();
  const [opened, setOpened] = useState(/** @type {{what: "edit" | "delete" | "versions", persona: Persona} | {what: "new"} | null} */ (null));
  const listing = useListing((cursor) => api.personas(cursor), []);
  const close = () => setOpened(null);
  const open = (/** @type {"edit" | "delete" | "versions"} */ what, /** @type {Persona} */ persona) => () => setOpened({ what, persona });
  const isBuilding = listing.items.some((persona) => persona.prefix.state === "building");
  useRepeated(listing.reload, BUILDING_MS, isBuilding);
  const remove = async () => {
    if (opened?.what !== "delete") return;
    await api.deletePersona(opened.persona.name);
    notice(t("deleted", { name: opened.persona.name }));
    void listing.reload();
  };
  const prefixWords = (/** @type {Persona["prefix"]} */ { state, source }) =>
    source === "computed" || source === "disk" ? t("prefixFrom", { state: t(`prefix.${state}`), source: t(`source.${source}`) }) : t(`prefix.${state}`);
  return html`
    <div class="toolbar">
      <p class="section-note">${t("personasHint")}</p>
      <button type="button" class="button button-primary push" onClick=${() => setOpened({ what: "new" })}>${t("newPersona")}</button>
    </div>
    <${DataTable}
      label=${t("personas")}
      items=${listing.items}
      listing=${listing}
      whenEmpty=${t("noPersonas")}
      keyOf=${(/** @type {Persona} */ persona) => persona.name}
      columns=${[
        { head: t("column.name"), cell: (/** @type {Persona} */ persona) => html`<span class="cell-name">${persona.name}</span>` },
        { head: t("column.prompt"), cell: (/** @type {Persona} */ persona) => html`<div class="wrap clamp" dir="auto">${persona.system_prompt}</div>` },
        { head: t("column.prefix"), cell: (/** @type {Persona} */ { prefix }) => html`<span class="state-mark state-${prefix.state}">${prefixWords(prefix)}</span>` },
        { head: t("column.tokens"), isNumber: true, cell: (/** @type {Persona} */ { prefix }) => number(prefix.tokens, language) },
        { head: t("column.pages"), isNumber: true, cell: (/** @type {Persona} */ { prefix }) => number(prefix.pages, language) },
        { head: t("column.changed"), cell: (/** @type {Persona} */ persona) => html`<span class="cell-soft">${dateTime(persona.updated_at, language)}</span>` },
        {
          head: t("column.actions"),
          isHeadHidden: true,
          isNumber: true,
          cell: (/** @type {Persona} */ persona) => html`
            <span class="cell-buttons">
              <button type="button" class="button button-small" aria-label=${t("editOf", { name: persona.name })} onClick=${open("edit", persona)}>${t("edit")}</button>
              <button type="button" class="button button-small" aria-label=${t("versionsOf", { name: persona.name })} onClick=${open("versions", persona)}>${t("versions")}</button>
              <button type="button" class="button button-small button-danger" aria-label=${t("deleteOf", { name: persona.name })} onClick=${open("delete", persona)}>${t("delete")}</button>
            </span>
          `,
        },
      ]}
    />
    ${(opened?.what === "new" || opened?.what === "edit") &&
    html`<${PersonaDialog} persona=${opened.what === "edit" ? opened.persona : null} onClose=${close} onSaved=${listing.reload} />`}
    ${opened?.what === "versions" && html`<${PersonaVersions} persona=${opened.persona} onClose=${close} onSaved=${listing.reload} />`}
    ${opened?.what === "delete" &&
    html`
      <${Dialog} title=${t("deleteTitle", { name: opened.persona.name })} action=${t("delete")} isDanger onSubmit=${remove} onClose=${close}>
        <p>${t("deleteText")}</p>
      <//>
    `}
  `;
}
