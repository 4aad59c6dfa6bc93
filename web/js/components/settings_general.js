/**
 * How the pages are to be in this browser.
 *
 * @import { Choices, Preferences } from "../preferences.js"
 */

import { html } from "../html.js";
import { CHOICES } from "../preferences.js";
import { LANGUAGES } from "../texts.js";
import * as texts from "../texts/settings.js";
import { useChoices, useTexts } from "./language.js";

/** @param {{preferences: Preferences}} props */
export function GeneralPage({ preferences }) {
  const { t } = useTexts(texts);
  const choices = useChoices();
  const names = /** @type {(keyof Choices)[]} */ (Object.keys(CHOICES));
  return html`
    <section aria-labelledby="settings-heading">
      <h2 id="settings-heading">${t("page_general")}</h2>
      <p class="settings-text">${t("generalText")}</p>
      <div class="choices">
        ${names.map(
          (name) => html`
            <label key=${name} class="choice">
              <span class="choice-words"><span>${t(`choice_${name}`)}</span><small>${t(`choice_${name}_hint`)}</small></span>
              <select value=${choices[name]} onChange=${(/** @type {any} */ event) => preferences.change({ [name]: event.target.value })}>
                ${CHOICES[name].map((value) => html`<option key=${value} value=${value} selected=${value === choices[name]}>${wordsOf(name, value)}</option>`)}
              </select>
            </label>
          `,
        )}
      </div>
    </section>
  `;

  /**
   * @param {keyof Choices} name
   * @param {string} value
   */
  function wordsOf(name, value) {
    // Each language is called what it calls itself, so that it is found by whoever reads no other.
    if (name === "language" && value !== "auto") return LANGUAGES[/** @type {keyof typeof LANGUAGES} */ (value)];
    return t(/** @type {keyof typeof texts.en} */ (`choice_${name}_${value}`));
  }
}
