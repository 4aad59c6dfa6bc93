/** The colour an administrator has chosen, and the text that can be read on it. Pure. */

/** @param {string} colour as in #0b655c */
function luminance(colour) {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((start) => {
    const value = Number.parseInt(colour.slice(start, start + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** White or nearly black, whichever stands out more: one of them always does, 4.5 to 1 at least. @param {string} colour */
export function inkOn(colour) {
  const light = luminance(colour);
  return 1.05 / (light + 0.05) >= (light + 0.05) / 0.05 ? "#ffffff" : "#000000";
}
