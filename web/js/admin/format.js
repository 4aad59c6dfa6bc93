/** Numbers, sizes and times as people read them, in the language of the page. Pure. */

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
export const NOTHING = "–";

/** @param {number | null | undefined} value @param {string} language @param {number} [digits] */
export function number(value, language, digits = 0) {
  if (value === null || value === undefined) return NOTHING;
  return value.toLocaleString(language, { maximumFractionDigits: digits, minimumFractionDigits: 0 });
}

/** A time in milliseconds, shorter the longer it is. @param {number | null | undefined} ms @param {string} language */
export function milliseconds(ms, language) {
  if (ms === null || ms === undefined) return NOTHING;
  if (ms >= 10_000) return `${number(ms / 1000, language, 1)} s`;
  return `${number(ms, language, ms < 10 ? 2 : ms < 100 ? 1 : 0)} ms`;
}

/** @param {number | null | undefined} bytes @param {string} language */
export function size(bytes, language) {
  if (bytes === null || bytes === undefined) return NOTHING;
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${number(value, language, value < 10 && unit > 0 ? 1 : 0)} ${UNITS[unit]}`;
}

/** A share from 0 to 1. @param {number | null | undefined} share @param {string} language */
export function percent(share, language) {
  return share === null || share === undefined ? NOTHING : `${number(share * 100, language, 1)} %`;
}

/** A length of time in two units at most, as `4 min 05 s`. @param {number | null | undefined} seconds */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return NOTHING;
  const whole = Math.max(0, Math.floor(seconds));
  const [days, hours, minutes, rest] = [Math.floor(whole / 86_400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60, whole % 60];
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${two(minutes)} min`;
  if (minutes > 0) return `${minutes} min ${two(rest)} s`;
  return `${rest} s`;
}

/** @param {number} value */
function two(value) {
  return String(value).padStart(2, "0");
}

/** The day and the minute. @param {string | null | undefined} moment @param {string} language */
export function dateTime(moment, language) {
  if (!moment) return NOTHING;
  return new Date(moment).toLocaleString(language, { dateStyle: "medium", timeStyle: "short" });
}

/** The time of day, with seconds. @param {number} at_s @param {string} language */
export function timeOfDay(at_s, language) {
  return new Date(at_s * 1000).toLocaleTimeString(language, { hourCycle: "h23", hour: "2-digit", minute: "2-digit", second: "2-digit" });
}
