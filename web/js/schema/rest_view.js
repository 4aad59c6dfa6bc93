/** The OpenAPI document: every route with its parameters, body and answers, and a way to try it. */

import { useState } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import { matches, resolved, restOperations } from "./document.js";
import { DocumentPage, Entry, Prose } from "./parts.js";
import { Fields, ShapeView } from "./shape_view.js";
import { TryIt } from "./try_it.js";

/**
 * @import { Json, RestOperation } from "./document.js"
 * @param {{document: Json}} props
 */
export function RestView({ document }) {
  const [filter, setFilter] = useState("");
  const all = restOperations(document);
  const shown = all.filter(({ method, path, details }) => matches(filter, `${method} ${path} ${details.summary} ${details.description}`));
  const links = shown.map(({ id, method, path, group }) => ({ id, group, label: html`<${Route} method=${method} path=${path} />` }));
  const groups = [...new Set(shown.map((operation) => operation.group))];
  return html`<${DocumentPage}
    title=${document.info.title}
    version=${document.info.version}
    description=${document.info.description}
    here="/schema"
    file="/schema/openapi.json"
    filter=${filter}
    onFilter=${setFilter}
    links=${links}
  >
    ${groups.map(
      (group) => html`<h2>${group}</h2>
        ${shown
          .filter((operation) => operation.group === group)
          .map((operation) => html`<${Operation} key=${operation.id} document=${document} operation=${operation} />`)}`,
    )}
  <//>`;
}

/** @param {{method: string, path: string}} props */
function Route({ method, path }) {
  return html`<span class=${`method method-${method}`}>${method.toUpperCase()}</span> <code>${path.replace(/^\/api\/v1/, "")}</code>`;
}

/** @param {{document: Json, operation: RestOperation}} props */
function Operation({ document, operation }) {
  const { id, method, path, details } = operation;
  const title = html`<span class=${`method method-${method}`}>${method.toUpperCase()}</span> <code>${path}</code>`;
  return html`<${Entry} id=${id} title=${title} summary=${details.summary}>
    <${OperationBody} document=${document} operation=${operation} />
  <//>`;
}

/** @param {{document: Json, operation: RestOperation}} props */
function OperationBody({ document, operation }) {
  const { details } = operation;
  const parameters = (details.parameters ?? []).map((/** @type {Json} */ each) => {
    const parameter = resolved(document, each);
    const schema = { ...resolved(document, parameter.schema ?? {}), description: `${parameter.description ?? ""} (${parameter.in})`.trim() };
    return { name: parameter.name, schema, isRequired: Boolean(parameter.required) };
  });
  const bodies = Object.entries(resolved(document, details.requestBody ?? {}).content ?? {});
  return html`
    ${details.description && html`<p><${Prose} text=${details.description} /></p>`}
    ${parameters.length > 0 && html`<h3>Parameters</h3><${Fields} document=${document} fields=${parameters} />`}
    ${bodies.map(
      ([type, body]) => html`<h3>Body <small>${type}</small></h3>
        <${ShapeView} document=${document} schema=${body.schema ?? {}} />`,
    )}
    <h3>Answers</h3>
    <ul class="answers">
      ${Object.entries(details.responses ?? {}).map(
        ([status, answer]) => html`<${Answer} document=${document} status=${status} answer=${resolved(document, answer)} />`,
      )}
    </ul>
    <${TryIt} document=${document} operation=${operation} />
  `;
}

/** @param {{document: Json, status: string, answer: Json}} props */
function Answer({ document, status, answer }) {
  const contents = Object.entries(answer.content ?? {});
  const [isOpen, setOpen] = useState(false);
  const isError = status >= "400";
  return html`<li>
    <span class=${isError ? "status status-error" : "status"}>${status}</span> <${Prose} text=${answer.description} />
    ${contents.length > 0 &&
    html` <button type="button" class="field-type" aria-expanded=${String(isOpen)} onClick=${() => setOpen(!isOpen)}>
      ${contents.map(([type]) => type).join(", ")}
    </button>`}
    ${isOpen && contents.map(([, body]) => html`<${ShapeView} document=${document} schema=${body.schema ?? {}} />`)}
  </li>`;
}
