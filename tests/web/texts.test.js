// The words of the pages: the same in every language, and whole.

import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { test } from "node:test";
import { MemoryStorage } from "./support.js";
import { Preferences, choicesIn } from "../../web/js/preferences.js";
import { LANGUAGES, languageFor, textsOf } from "../../web/js/texts.js";

const FOLDER = new URL("../../web/js/texts/", import.meta.url);
const AREAS = readdirSync(FOLDER).filter((name) => name.endsWith(".js"));

const formsOf = (text) => (typeof text === "string" ? [text] : Object.values(text));
const valuesIn = (text) => [...new Set(formsOf(text).flatMap((form) => form.match(/\{\w+\}/g) ?? []))].sort();

for (const area of AREAS) {
  test(`${area}: every language says the same things, with the same values`, async () => {
    const dictionary = await import(new URL(area, FOLDER).href);
    assert.deepEqual(Object.keys(dictionary).sort(), Object.keys(LANGUAGES).sort());
    const keys = Object.keys(dictionary.en).sort();
    for (const language of Object.keys(LANGUAGES)) {
      assert.deepEqual(Object.keys(dictionary[language]).sort(), keys, language);
      for (const key of keys) {
        const text = dictionary[language][key];
        assert.ok(formsOf(text).every((form) => form.trim() !== ""), `${language}: ${key} is empty`);
        if (!key.startsWith("problem.")) assert.deepEqual(valuesIn(text), valuesIn(dictionary.en[key]), `${language}: ${key}`);
      }
    }
  });
}

test("the language is the chosen one, else the first of the browser's that there is", () => {
  assert.equal(languageFor("zh", ["en-GB"]), "zh");
  assert.equal(languageFor("auto", ["fr-CA", "zh-Hant-TW", "en"]), "zh");
  assert.equal(languageFor("auto", ["EN-us"]), "en");
  assert.equal(languageFor("constructor", ["tlh", "__proto__"]), "en");
});

const EN = { plain: "So it is", named: "{who} has {count}", apples: { one: "{count} apple", other: "{count} apples" } };
const ZH = { plain: "如此", named: "{who} 有 {count}", apples: "{count} 个苹果" };

test("a text takes its values, and the form its number needs", () => {
  const { t } = textsOf({ en: EN, zh: ZH }, "en");
  assert.equal(t("named", { who: "Ada", count: 1234567 }), "Ada has 1,234,567");
  assert.deepEqual([t("apples", { count: 1 }), t("apples", { count: 0 })], ["1 apple", "0 apples"]);
  assert.equal(textsOf({ en: EN, zh: ZH }, "zh").t("apples", { count: 1 }), "1 个苹果");
  // A value is put in as it is: what a person has written is no template.
  assert.equal(t("named", { who: "{count} $& $1", count: 2 }), "{count} $& $1 has 2");
  assert.equal(t("named"), "{who} has {count}");
});

test("what is to be said is words as they are, or a key, or words for want of a key", () => {
  const { say } = textsOf({ en: EN, zh: ZH }, "zh");
  assert.equal(say("as it came"), "as it came");
  assert.equal(say({ key: "plain", or: "never" }), "如此");
  assert.equal(say({ key: "problem.of_tomorrow", or: "The server said so." }), "The server said so.");
});

test("preferences are kept, told to the style sheets, and what makes no sense is not taken", () => {
  const storage = new MemoryStorage();
  const root = { lang: "", dataset: {} };
  const preferences = new Preferences(storage, root, ["en-US"]);
  assert.deepEqual([root.lang, root.dataset], ["en", { theme: "system", textSize: "normal" }]);
  let told = 0;
  preferences.subscribe(() => (told += 1));
  preferences.change({ language: "zh", theme: "dark" });
  assert.deepEqual([root.lang, root.dataset.theme, told], ["zh", "dark", 1]);
  const otherTab = new Preferences(storage, { lang: "", dataset: {} }, ["en-US"]);
  assert.equal(otherTab.language, "zh");
  otherTab.change({ textSize: "large" });
  preferences.read();
  assert.equal(root.dataset.textSize, "large");
  assert.equal(choicesIn('{"theme":"purple","sendKey":"mod-enter"}').theme, "system");
  assert.equal(choicesIn('{"theme":"purple","sendKey":"mod-enter"}').sendKey, "mod-enter");
  for (const text of [null, "", "{", "7", "null", '"x"', "[]"]) assert.equal(choicesIn(text).language, "auto");
});
