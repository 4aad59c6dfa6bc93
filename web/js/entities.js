/**
 * Character references of markdown text (`&amp;`, `&#39;`) as the characters they stand for. Pure. Only the references a
 * model is likely to write are named here; any other stays as it was written, which is never wrong, only less pretty.
 */

/** @type {Record<string, string>} */
const NAMED = {
  amp: "&",
  apos: "'",
  bull: "•",
  cent: "¢",
  copy: "©",
  deg: "°",
  divide: "÷",
  euro: "€",
  gt: ">",
  ge: "≥",
  hellip: "…",
  laquo: "«",
  larr: "←",
  ldquo: "“",
  le: "≤",
  lsquo: "‘",
  lt: "<",
  mdash: "—",
  middot: "·",
  minus: "−",
  nbsp: "\u00a0",
  ndash: "–",
  ne: "≠",
  para: "¶",
  plusmn: "±",
  pound: "£",
  quot: '"',
  raquo: "»",
  rarr: "→",
  rdquo: "”",
  reg: "®",
  rsquo: "’",
  sect: "§",
  times: "×",
  trade: "™",
  yen: "¥",
};

const REFERENCE = /&(?:#([0-9]{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-zA-Z]{2,8}));/g;

/**
 * @param {string} text
 * @returns {string}
 */
export function decodeEntities(text) {
  if (!text.includes("&")) return text;
  return text.replace(REFERENCE, (written, decimal, hexadecimal, name) => {
    if (name !== undefined) return Object.hasOwn(NAMED, name) ? String(NAMED[name]) : written;
    return character(decimal === undefined ? Number.parseInt(hexadecimal, 16) : Number.parseInt(decimal, 10));
  });
}

/** @param {number} codePoint */
function character(codePoint) {
  const isCharacter = codePoint > 0 && codePoint <= 0x10ffff && !(codePoint >= 0xd800 && codePoint <= 0xdfff);
  return isCharacter ? String.fromCodePoint(codePoint) : "\ufffd";
}
