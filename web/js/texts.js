/**
 * The words of the pages in every language there is: which language it is, and a text with its values put in. Pure.
 *
 * Each area has a dictionary, `texts/AREA.js`, that exports `en` and `zh` with the same keys. Views ask for one with
 * `useTexts` (`components/language.js`). Modules that are no views make a `Saying`, which a view puts into words, so that
 * what is on the screen follows when the language is changed.
 */

/** What each language calls itself. */
export const LANGUAGES = Object.freeze({ en: "English", zh: "中文" });

/**
 * A text may hold `{names}` of values. Where its words depend on a number, it has a form for each case the language knows, and
 * the number is the value `count`.
 *
 * @typedef {keyof typeof LANGUAGES} Language
 * @typedef {string | {one?: string, other: string}} Text
 * @typedef {Readonly<Record<string, Text>>} Entries
 * @typedef {Readonly<Record<string, string | number>>} Values
 */

/**
 * Something to be said: words as they are, such as a server's sentence, or a key of a dictionary; `or` where it has none.
 *
 * @typedef {string | {key: string, values?: Values, or?: string}} Saying
 */

/**
 * @template {string} Key
 * @typedef {object} Texts
 * @property {Language} language
 * @property {(key: Key, values?: Values) => string} t
 * @property {(saying: Saying) => string} say
 */

/**
 * The language of a page: the one that was chosen, else the first of the browser's that there is, else English.
 *
 * @param {string} chosen a language, or `auto`
 * @param {readonly string[]} preferred the browser's languages, as `zh-Hans-CN`
 * @returns {Language}
 */
export function languageFor(chosen, preferred) {
  const wanted = [chosen, ...preferred.map((tag) => tag.toLowerCase().split("-")[0] ?? "")];
  return /** @type {Language} */ (wanted.find((language) => Object.hasOwn(LANGUAGES, language)) ?? "en");
}

/**
 * @template {Entries} E
 * @param {{en: E, zh: Readonly<Record<keyof E, Text>>}} dictionary
 * @param {Language} language
 * @returns {Texts<keyof E & string>}
 */
export function textsOf(dictionary, language) {
  const entries = /** @type {Entries} */ (dictionary[language]);
  const plurals = new Intl.PluralRules(language);
  const t = (/** @type {string} */ key, /** @type {Values} */ values = {}) => filled(entries[key] ?? key, values, plurals, language);
  return {
    language,
    t,
    say: (saying) => {
      if (typeof saying === "string") return saying;
      const { key, values, or } = saying;
      return or !== undefined && !Object.hasOwn(entries, key) ? or : t(key, values);
    },
  };
}

/**
 * @param {Text} text
 * @param {Values} values
 * @param {Intl.PluralRules} plurals
 * @param {Language} language
 */
function filled(text, values, plurals, language) {
  const isOne = typeof text !== "string" && plurals.select(Number(values["count"])) === "one";
  const words = typeof text === "string" ? text : (isOne ? text.one : undefined) ?? text.other;
  return words.replace(/\{(\w+)\}/g, (whole, name) => {
    const value = values[name];
    if (value === undefined) return whole;
    return typeof value === "number" ? value.toLocaleString(language) : value;
  });
}
