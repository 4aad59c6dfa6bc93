/**
 * Widgets: chats on pages of other sites. Make, change, delete one; its script tag; its secret, which is shown once.
 *
 * @import { Persona, Widget } from "../wire.d.ts"
 */

import { useState } from "../../../vendor/preact/hooks.js";
import { useTexts } from "../../components/language.js";
import { html } from "../../html.js";
import * as adminTexts from "../../texts/admin.js";
import * as texts from "../../texts/admin_widgets.js";
import { dateTime } from "../format.js";
import { DataTable } from "./data_table.js";
import { useDesk, useListing, useLoaded, useNotice } from "./desk.js";
import { Dialog, Field } from "./dialog.js";

const LANGUAGES = /** @type {const} */ (["en,zh", "zh,en", "en", "zh"]);
const KEEP_PREVIOUS_S = 3600;

/** @typedef {{what: "edit" | "code" | "delete", widget: Widget} | {what: "new"} | {what: "secret", name: string, secret: string} | null} Opened */

export function WidgetsView() {
  const { t, language } = useTexts(texts);
  const { api } = useDesk();
  const notice = useNotice();
  const [opened, setOpened] = useState(/** @type {Opened} */ (null));
  const listing = useListing((cursor) => api.widgets(cursor), []);
  const close = () => setOpened(null);
  const open = (/** @type {"edit" | "code" | "delete"} */ what, /** @type {Widget} */ widget) => () => setOpened({ what, widget });
  const remove = async () => {
    if (opened?.what !== "delete") return;
    await api.deleteWidget(opened.widget.id);
    notice(t("deleted", { name: opened.widget.name }));
    void listing.reload();
  };
  return html`
    <div class="toolbar">
      <p class="section-note">${t("hint")}</p>
      <button type="button" class="button button-primary push" onClick=${() => setOpened({ what: "new" })}>${t("newWidget")}</button>
    </div>
    <${DataTable}
      label=${t("widgets")}
      items=${listing.items}
      listing=${listing}
      whenEmpty=${t("none")}
      keyOf=${(/** @type {Widget} */ widget) => widget.id}
      columns=${[
        { head: t("column.name"), cell: (/** @type {Widget} */ widget) => html`<span class="cell-name" dir="auto">${widget.name}</span>` },
        { head: t("column.origins"), cell: (/** @type {Widget} */ widget) => html`<div class="wrap">${widget.allowed_origins.join(", ")}</div>` },
        { head: t("column.persona"), cell: (/** @type {Widget} */ widget) => widget.persona ?? html`<span class="cell-soft">${t("noPersona")}</span>` },
        { head: t("column.anonymous"), cell: (/** @type {Widget} */ widget) => t(widget.anonymous ? "yes" : "no") },
        { head: t("column.changed"), cell: (/** @type {Widget} */ widget) => html`<span class="cell-soft">${dateTime(widget.updated_at, language)}</span>` },
        {
          head: t("column.actions"),
          isHeadHidden: true,
          isNumber: true,
          cell: (/** @type {Widget} */ widget) => html`
            <span class="cell-buttons">
              <button type="button" class="button button-small" aria-label=${t("editOf", { name: widget.name })} onClick=${open("edit", widget)}>${t("edit")}</button>
              <button type="button" class="button button-small" aria-label=${t("codeOf", { name: widget.name })} onClick=${open("code", widget)}>${t("code")}</button>
              <button type="button" class="button button-small button-danger" aria-label=${t("deleteOf", { name: widget.name })} onClick=${open("delete", widget)}>${t("delete")}</button>
            </span>
          `,
        },
      ]}
    />
    ${opened?.what === "new" &&
    html`<${WidgetDialog} widget=${null} onClose=${close} onSaved=${listing.reload} onSecret=${(/** @type {string} */ name, /** @type {string} */ secret) => setOpened({ what: "secret", name, secret })} />`}
    ${opened?.what === "edit" && html`<${WidgetDialog} widget=${opened.widget} onClose=${close} onSaved=${listing.reload} onSecret=${close} />`}
    ${opened?.what === "code" && html`<${CodeDialog} widget=${opened.widget} onClose=${close} onSecret=${(/** @type {string} */ secret) => setOpened({ what: "secret", name: opened.widget.name, secret })} />`}
    ${opened?.what === "secret" &&
    html`
      <${Dialog} key="secret" title=${t("secretTitle", { name: opened.name })} onClose=${close}>
        <p>${t("secretText")}</p>
        <p class="secret">${opened.secret}</p>
      <//>
    `}
    ${opened?.what === "delete" &&
    html`
      <${Dialog} title=${t("deleteTitle", { name: opened.widget.name })} action=${t("delete")} isDanger onSubmit=${remove} onClose=${close}>
        <p>${t("deleteText")}</p>
      <//>
    `}
  `;
}

/** @param {{widget: Widget | null, onClose: () => void, onSaved: () => unknown, onSecret: (name: string, secret: string) => void}} props */
function WidgetDialog({ widget, onClose, onSaved, onSecret }) {
  const { t } = useTexts(texts);
  const { t: general } = useTexts(adminTexts);
  const { api } = useDesk();
  const notice = useNotice();
  const personas = useLoaded(() => api.personas(null), []);
  const names = (personas.value?.items ?? []).map((/** @type {Persona} */ persona) => persona.name);
  const save = async (/** @type {FormData} */ fields) => {
    const of = (/** @type {string} */ name) => String(fields.get(name)).trim();
    const wanted = {
      name: of("name"),
      allowed_origins: of("origins").split(/\s+/).filter(Boolean),
      persona: of("persona") === "" ? null : of("persona"),
      anonymous: fields.has("anonymous"),
      title: of("title"),
      greeting: of("greeting"),
      colour: of("colour"),
      languages: of("languages").split(","),
    };
    const made = widget === null ? await api.createWidget(wanted) : null;
    if (widget !== null) await api.changeWidget(widget.id, wanted);
    notice(t("saved"));
    onSaved();
    // After the dialog has closed itself.
    if (made !== null) setTimeout(() => onSecret(made.name, made.secret));
  };
  const current = widget?.languages.join(",") ?? "en,zh";
  const persona = widget?.persona ?? "";
  return html`
    <${Dialog} title=${widget?.name ?? t("newWidget")} action=${widget === null ? t("create") : general("save")} isWide onSubmit=${save} onClose=${onClose}>
      <${Field} label=${t("nameField")}><input name="name" required maxlength="100" defaultValue=${widget?.name ?? ""} autocomplete="off" autofocus /><//>
      <${Field} label=${t("originsField")} hint=${t("originsHint")}>
        <textarea name="origins" class="short" required rows="3" spellcheck=${false} autocapitalize="none" defaultValue=${widget?.allowed_origins.join("\n") ?? ""}></textarea>
      <//>
      <div class="field-grid">
        <${Field} label=${t("personaField")}>
          <select name="persona">
            <option value="">${t("noPersona")}</option>
            ${[...new Set([...(persona === "" ? [] : [persona]), ...names])].map((name) => html`<option value=${name} selected=${name === persona}>${name}</option>`)}
          </select>
        <//>
        <${Field} label=${t("titleField")}><input name="title" required maxlength="100" defaultValue=${widget?.title ?? "Chat"} /><//>
        <${Field} label=${t("languagesField")}>
          <select name="languages">${LANGUAGES.map((languages) => html`<option value=${languages} selected=${languages === current}>${t(`languages.${languages}`)}</option>`)}</select>
        <//>
        <${Field} label=${t("colourField")}><input name="colour" type="color" defaultValue=${widget?.colour ?? "#0b655c"} /><//>
      </div>
      <${Field} label=${t("greetingField")}><input name="greeting" maxlength="1000" defaultValue=${widget?.greeting ?? ""} /><//>
      <label class="check"><input type="checkbox" name="anonymous" defaultChecked=${widget?.anonymous ?? false} />${t("anonymousField")}</label>
    <//>
  `;
}

/** @param {{widget: Widget, onClose: () => void, onSecret: (secret: string) => void}} props */
function CodeDialog({ widget, onClose, onSecret }) {
  const { t } = useTexts(texts);
  const { api } = useDesk();
  const code = `<script src="${location.origin}/widget.js" data-widget="${widget.id}" async></` + `script>`;
  const rotate = async () => {
    const { secret } = await api.rotateWidgetSecret(widget.id, KEEP_PREVIOUS_S);
    setTimeout(() => onSecret(secret));
  };
  return html`
    <${Dialog} title=${t("codeTitle", { name: widget.name })} action=${t("rotate")} isWide onSubmit=${rotate} onClose=${onClose}>
      <p>${t("codeText")}</p>
      <p class="secret">${code}</p>
      <p>${t("rotateText")}</p>
    <//>
  `;
}
