/** The AsyncAPI document: what a client may send over the socket, what that is answered with, and what the server sends. */

import { useState } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import { exampleOf, frames, matches } from "./document.js";
import { DocumentPage, Entry, Prose } from "./parts.js";
import { ShapeView } from "./shape_view.js";

/**
 * @import { Frame, Json } from "./document.js"
 * @param {{document: Json}} props
 */
export function SocketView({ document }) {
  const [filter, setFilter] = useState("");
  const all = frames(document);
  const shown = all.filter(({ name, message }) => matches(filter, `${name} ${message.summary}`));
  const groupOf = (/** @type {Frame} */ frame) => (frame.isFromClient ? "The client sends" : "The server sends");
  const links = shown.map((frame) => ({ id: frame.id, group: groupOf(frame), label: html`<code>${frame.name}</code>` }));
  const groups = [...new Set(shown.map(groupOf))];
  const { channels, components } = document;
  const [channel] = /** @type {Json[]} */ (Object.values(channels));
  return html`<${DocumentPage}
    title=${`${document.info.title}: ${channel?.address}`}
    version=${document.info.version}
    description=${document.info.description}
    here="/schema/asyncapi"
    file="/schema/asyncapi.json"
    filter=${filter}
    onFilter=${setFilter}
    links=${links}
  >
    <p class="schema-text"><${Prose} text=${channel?.description} /></p>
    <h2>Who it is</h2>
    <ul class="answers">
      ${Object.entries(components.securitySchemes).map(
        ([name, scheme]) => html`<li><code>${name}</code> <${Prose} text=${scheme.description} /></li>`,
      )}
    </ul>
    ${groups.map(
      (group) => html`<h2>${group}</h2>
        ${shown
          .filter((frame) => groupOf(frame) === group)
          .map((frame) => html`<${FrameEntry} key=${frame.id} document=${document} frame=${frame} all=${all} />`)}`,
    )}
  <//>`;
}

/** @param {{document: Json, frame: Frame, all: Frame[]}} props */
function FrameEntry({ document, frame, all }) {
  const { id, name, message, isFromClient, answers } = frame;
  const linkTo = (/** @type {string} */ answer) => all.find((other) => !other.isFromClient && other.name === answer)?.id ?? "";
  return html`<${Entry} id=${id} title=${html`<code>${name}</code>`} summary=${message.summary}>
    ${answers.length > 0 &&
    html`<p>
      Answered with${" "}
      ${answers.map((answer, index) => html`${index > 0 && " or "}<a href=${`#${linkTo(answer)}`}><code>${answer}</code></a>`)}, which has the
      frame's id as <code>reply_to</code>.
    </p>`}
    <h3>Fields</h3>
    <${ShapeView} document=${document} schema=${message.payload} />
    ${isFromClient &&
    html`<h3>The least it has</h3>
      <pre tabindex="0" aria-label="Example">${JSON.stringify(exampleOf(document, message.payload), null, 2)}</pre>`}
  <//>`;
}
