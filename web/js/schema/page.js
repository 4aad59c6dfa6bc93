/** The page of `/schema` and `/schema/asyncapi`: fetches the document of its path from this server, and shows it. */

import { render } from "../../vendor/preact/preact.js";
import { html } from "../html.js";
import { RestView } from "./rest_view.js";
import { SocketView } from "./socket_view.js";

const isSocket = location.pathname.startsWith("/schema/asyncapi");
const place = /** @type {HTMLElement} */ (document.getElementById("schema"));

try {
  const reply = await fetch(isSocket ? "/schema/asyncapi.json" : "/schema/openapi.json");
  if (!reply.ok) throw new Error(`the server answered ${reply.status}`);
  const described = await reply.json();
  place.replaceChildren();
  render(isSocket ? html`<${SocketView} document=${described} />` : html`<${RestView} document=${described} />`, place);
} catch (problem) {
  console.error(problem);
  place.textContent = "The description of the API could not be loaded. Reload the page to try again.";
}
