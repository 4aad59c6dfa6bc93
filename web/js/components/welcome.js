/**
 * Where a new chat begins: with whom one speaks, and whether it stays.
 *
 * @import { Commands } from "../commands.js"
 * @import { Beginning, Persona } from "../wire.d.ts"
 * @import { Item } from "./menu.js"
 */

import { useEffect } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import * as chat from "../texts/chat.js";
import { Icon, Mark } from "./icon.js";
import { useTexts } from "./language.js";
import { Menu } from "./menu.js";

const HINT_CHARS = 70;

/** @param {{personas: readonly Persona[], beginning: Beginning, commands: Commands}} props */
export function Welcome({ personas, beginning, commands }) {
  const { t } = useTexts(chat);
  useEffect(() => void commands.learnPersonas(), [commands]);
  return html`
    <div class="welcome">
      <${Mark} />
      <h2>${t("welcome")}</h2>
      ${personas.length > 0 && html`<${PersonaChoice} personas=${personas} chosen=${beginning.persona} commands=${commands} />`}
      <p class="welcome-note" role="status">${beginning.temporary ? t("temporaryMeans") : ""}</p>
    </div>
  `;
}

/** @param {{personas: readonly Persona[], chosen: string | null, commands: Commands}} props */
function PersonaChoice({ personas, chosen, commands }) {
  const { t } = useTexts(chat);
  /** @type {Item[]} */
  const items = [
    { label: t("noPersona"), hint: t("noPersonaHint"), isChecked: chosen === null, onChoose: () => commands.begin({ persona: null }) },
    {},
    ...personas.map(({ name, system_prompt: prompt, prefix }) => ({
      label: name,
      hint: `${t(`prefix_${prefix.state}`)} · ${prompt.replace(/\s+/g, " ").slice(0, HINT_CHARS)}`,
      isChecked: chosen === name,
      onChoose: () => commands.begin({ persona: name }),
    })),
  ];
  const words = chosen ?? t("noPersona");
  return html`
    <${Menu} label=${t("personaIs", { name: words })} title=${t("persona")} items=${items} class="button persona-choice">
      <${Icon} name="person" /><span dir="auto">${words}</span><${Icon} name="updown" />
    <//>
  `;
}
