/**
 * A persona, new or changed: its prompt and the sampling settings people reach for. Others that it has stay as they are.
 *
 * @import { Persona } from "../wire.d.ts"
 */

import { useState } from "../../../vendor/preact/hooks.js";
import { useTexts } from "../../components/language.js";
import { html } from "../../html.js";
import { newId } from "../../ids.js";
import * as adminTexts from "../../texts/admin.js";
import * as texts from "../../texts/admin_bots.js";
import { useDesk, useNotice } from "./desk.js";
import { Dialog, Field } from "./dialog.js";

const PARAMS = /** @type {const} */ ([
  { name: "temperature", min: 0, max: 2, step: "any" },
  { name: "top_p", min: 0, max: 1, step: "any" },
  { name: "max_tokens", min: 1, max: 1_000_000, step: "1" },
  { name: "seed", min: 0, max: undefined, step: "1" },
]);
const EDITED = new Set(/** @type {string[]} */ (PARAMS.map((param) => param.name)));

/** @param {{persona: Persona | null, onClose: () => void, onSaved: () => unknown}} props */
export function PersonaDialog({ persona, onClose, onSaved }) {
  const { t } = useTexts(texts);
  const { t: general } = useTexts(adminTexts);
  const { api } = useDesk();
  const notice = useNotice();
  const [idempotencyKey] = useState(newId);
  const [hasKeywords, setHasKeywords] = useState((persona?.handoff_keywords ?? null) !== null);
  const kept = Object.entries(persona?.params ?? {}).filter(([name]) => !EDITED.has(name));
  const save = async (/** @type {FormData} */ fields) => {
    const given = PARAMS.map(({ name }) => [name, String(fields.get(name)).trim()]).filter(([, text]) => text !== "");
    const params = Object.fromEntries([...kept, ...given.map(([name, text]) => [name, Number(text)])]);
    const system_prompt = String(fields.get("system_prompt"));
    const name = persona?.name ?? String(fields.get("name")).trim();
    const words = String(fields.get("keywords")).split("\n").map((word) => word.trim()).filter(Boolean);
    const handoff_keywords = fields.has("own_keywords") ? words : null;
    if (persona === null) await api.createPersona({ name, system_prompt, params, handoff_keywords }, idempotencyKey);
    else await api.changePersona(name, { system_prompt, params, handoff_keywords });
    notice(t("saved", { name }));
    onSaved();
  };
  return html`
    <${Dialog} title=${persona?.name ?? t("newPersona")} action=${persona === null ? t("create") : general("save")} isWide onSubmit=${save} onClose=${onClose}>
      ${persona === null &&
      html`<${Field} label=${t("nameField")} hint=${t("nameHint")}><input name="name" required maxlength="64" pattern="[a-z0-9][a-z0-9._\\-]*" autocomplete="off" autocapitalize="none" spellcheck=${false} autofocus /><//>`}
      <${Field} label=${t("promptField")} hint=${persona === null ? undefined : t("promptHint")}>
        <textarea name="system_prompt" required rows="8" dir="auto" autofocus=${persona !== null} defaultValue=${persona?.system_prompt ?? ""}></textarea>
      <//>
      <p>${t("paramsTitle")}</p>
      <div class="field-grid">
        ${PARAMS.map(
          ({ name, min, max, step }) => html`
            <${Field} key=${name} label=${t(`param.${name}`)}>
              <input name=${name} type="number" min=${min} max=${max} step=${step} inputmode="decimal" defaultValue=${persona?.params[name] ?? ""} />
            <//>
          `,
        )}
      </div>
      <label class="check">
        <input type="checkbox" name="own_keywords" checked=${hasKeywords} onChange=${(/** @type {any} */ event) => setHasKeywords(event.target.checked)} />${t("ownKeywords")}
      </label>
      <div hidden=${!hasKeywords}>
        <${Field} label=${t("keywordsField")} hint=${t("keywordsHint")}>
          <textarea name="keywords" class="short" rows="3" dir="auto" defaultValue=${(persona?.handoff_keywords ?? []).join("\n")}></textarea>
        <//>
      </div>
      ${kept.length > 0 && html`<p>${t("keptParams", { names: kept.map(([name]) => name).join(", ") })}</p>`}
    <//>
  `;
}
