/** The fields of a schema as a table; what a field consists of unfolds below it. */

import { useState } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import { fieldsOf, limitsOf, resolved, typeOf } from "./document.js";
import { Prose } from "./parts.js";

/**
 * @import { Field, Json } from "./document.js"
 * @param {{document: Json, schema: Json}} props
 */
export function ShapeView({ document, schema }) {
  const fields = fieldsOf(document, schema);
  if (fields.length === 0) {
    return html`<p><code>${typeOf(document, schema)}</code> ${limitsOf(document, schema).join(", ")}</p>`;
  }
  return html`<${Fields} document=${document} fields=${fields} />`;
}

/** @param {{document: Json, fields: Field[]}} props */
export function Fields({ document, fields }) {
  return html`<ul class="fields">
    ${fields.map((field) => html`<${FieldView} document=${document} field=${field} />`)}
  </ul>`;
}

/** @param {{document: Json, field: Field}} props */
function FieldView({ document, field }) {
  const [isOpen, setOpen] = useState(false);
  const inner = fieldsOf(document, field.schema);
  const target = resolved(document, field.schema);
  const limits = limitsOf(document, field.schema);
  const type = typeOf(document, field.schema);
  return html`<li>
    <div class="field-line">
      <code class="field-name">${field.name}</code>
      ${inner.length > 0
        ? html`<button type="button" class="field-type" aria-expanded=${String(isOpen)} onClick=${() => setOpen(!isOpen)}>
            ${type}
          </button>`
        : html`<span class="field-type">${type}</span>`}
      ${field.isRequired && html`<span class="field-required">required</span>`}
    </div>
    ${(target.description || field.schema.description) &&
    html`<p><${Prose} text=${field.schema.description ?? target.description} /></p>`}
    ${limits.length > 0 && html`<p class="field-limits">${limits.join(" · ")}</p>`}
    ${isOpen && html`<${Fields} document=${document} fields=${inner} />`}
  </li>`;
}
