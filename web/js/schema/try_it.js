/**
 * Sends a request of one operation to this server, as whoever is signed in in this browser, and shows the answer as it comes: an
 * event stream grows until it ends or is stopped.
 *
 * @import { Json, RestOperation } from "./document.js"
 */

import { useRef, useState } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import { exampleOf, resolved } from "./document.js";

const SHOWN_MAX_CHARACTERS = 100_000;

/** @param {{document: Json, operation: RestOperation}} props */
export function TryIt({ document, operation }) {
  const { details, method, path } = operation;
  const parameters = /** @type {Json[]} */ (details.parameters ?? []).map((each) => resolved(document, each));
  const [type, body] = Object.entries(resolved(document, details.requestBody ?? {}).content ?? {})[0] ?? [];
  const example = body ? JSON.stringify(exampleOf(document, body.schema ?? {}), null, 2) : "";
  const [answer, setAnswer] = useState(/** @type {{status: string, text: string} | null} */ (null));
  const stop = useRef(/** @type {AbortController | null} */ (null));
  const [isRunning, setRunning] = useState(false);

  const send = async (/** @type {any} */ event) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const { url, options } = requestOf(method, path, parameters, type, given);
    const control = new AbortController();
    stop.current = control;
    setRunning(true);
    setAnswer({ status: "", text: "" });
    try {
      await receive(url, { ...options, signal: control.signal }, setAnswer);
    } catch (problem) {
      if (!control.signal.aborted) setAnswer({ status: "No answer came.", text: String(problem) });
    }
    setRunning(false);
  };

  return html`<form class="try" onSubmit=${send} autocomplete="off">
    <h3>Try it</h3>
    <p>It is sent to this server, as whoever is signed in in this browser.</p>
    ${parameters.map(
      (parameter) => html`<label class="field">
        <span>${parameter.name}${parameter.required ? " (required)" : ""}</span>
        <input name=${`${parameter.in}.${parameter.name}`} required=${Boolean(parameter.required)} />
      </label>`,
    )}
    ${body &&
    html`<label class="field">
      <span>Body, ${type}</span>
      <textarea name="body" rows=${Math.min(12, example.split("\n").length + 1)} spellcheck="false">${example}</textarea>
    </label>`}
    <div class="try-buttons">
      <button class="button button-primary" disabled=${isRunning}>Send</button>
      ${isRunning && html`<button type="button" class="button" onClick=${() => stop.current?.abort()}>Stop</button>`}
    </div>
    <div role="status">
      ${answer && html`<p class="try-status">${answer.status}</p>`}
      ${answer?.text && html`<pre tabindex="0" aria-label="Answer">${answer.text}</pre>`}
    </div>
  </form>`;
}

/**
 * The request that a filled form stands for.
 *
 * @param {string} method
 * @param {string} path
 * @param {Json[]} parameters
 * @param {string | undefined} type
 * @param {FormData} given
 * @returns {{url: string, options: RequestInit}}
 */
export function requestOf(method, path, parameters, type, given) {
  const headers = new Headers();
  const query = new URLSearchParams();
  let url = path;
  for (const parameter of parameters) {
    const value = String(given.get(`${parameter.in}.${parameter.name}`) ?? "");
    if (parameter.in === "path") url = url.replace(`{${parameter.name}}`, encodeURIComponent(value));
    else if (value !== "" && parameter.in === "query") query.append(parameter.name, value);
    else if (value !== "" && parameter.in === "header") headers.set(parameter.name, value);
  }
  if (query.size > 0) url += `?${query}`;
  /** @type {RequestInit} */
  const options = { method: method.toUpperCase(), headers, credentials: "same-origin" };
  if (type !== undefined) {
    headers.set("Content-Type", type);
    options.body = String(given.get("body") ?? "");
  }
  return { url, options };
}

/**
 * @param {string} url
 * @param {RequestInit} options
 * @param {(answer: {status: string, text: string}) => void} show
 */
async function receive(url, options, show) {
  const reply = await fetch(url, options);
  const status = `${reply.status} ${reply.statusText}`.trim();
  const isJson = /\bjson\b/.test(reply.headers.get("Content-Type") ?? "");
  let text = "";
  show({ status, text });
  const reader = reply.body?.pipeThrough(new TextDecoderStream()).getReader();
  for (let piece = await reader?.read(); piece && !piece.done; piece = await reader?.read()) {
    text = (text + piece.value).slice(-SHOWN_MAX_CHARACTERS);
    show({ status, text });
  }
  if (isJson && text !== "") show({ status, text: pretty(text) });
}

/** @param {string} text */
function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
