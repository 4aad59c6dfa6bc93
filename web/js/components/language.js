/**
 * Hands the person's preferences down to every view, and gives views their words.
 *
 * @import { Preferences } from "../preferences.js"
 * @import { Entries, Text, Texts } from "../texts.js"
 */

import { useContext, useEffect, useMemo, useState } from "../../vendor/preact/hooks.js";
import { createContext } from "../../vendor/preact/preact.js";
import { html } from "../html.js";
import { choicesIn } from "../preferences.js";
import { textsOf } from "../texts.js";

const Language = createContext(/** @type {import("../texts.js").Language} */ ("en"));
const Chosen = createContext(choicesIn(null));

/** Around a whole page. @param {{preferences: Preferences, children?: any}} props */
export function Preferring({ preferences, children }) {
  const [, redraw] = useState(0);
  useEffect(() => preferences.subscribe(() => redraw((count) => count + 1)), [preferences]);
  return html`
    <${Language.Provider} value=${preferences.language}>
      <${Chosen.Provider} value=${preferences.choices}>${children}<//>
    <//>
  `;
}

/**
 * The words of an area: `const { t } = useTexts(chat)`, where `chat` is `import * as chat from "../texts/chat.js"`.
 *
 * @template {Entries} E
 * @param {{en: E, zh: Readonly<Record<keyof E, Text>>}} dictionary
 * @returns {Texts<keyof E & string>}
 */
export function useTexts(dictionary) {
  const language = useContext(Language);
  return useMemo(() => textsOf(dictionary, language), [dictionary, language]);
}

/** What the person has chosen in the settings. */
export function useChoices() {
  return useContext(Chosen);
}
