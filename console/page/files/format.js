// Numbers, sizes and times as short texts.

const UNITS = ["", "k", "M", "G", "T"];

/** A number with three digits at most, such as "12.3k"; "–" if it is not known. */
export function count(number) {
  if (number === undefined || number === null || Number.isNaN(number)) return "–";
  let unit = 0;
  let size = Math.abs(number);
  while (size >= 999.5 && unit < UNITS.length - 1) {
    size /= 1000;
    unit += 1;
  }
  const digits = size >= 100 || Number.isInteger(size) ? 0 : size >= 10 ? 1 : size >= 0.995 ? 2 : size >= 0.01 ? 2 : 0;
  return `${number < 0 ? "−" : ""}${trimmed(size.toFixed(digits))}${UNITS[unit]}`;
}

/** A rate, such as "12.3k/s". */
export function rate(number) {
  return number === undefined || number === null ? "–" : `${count(number)}/s`;
}

/** A number of bytes, such as "1.5 MB". */
export function bytes(number) {
  return number === undefined || number === null ? "–" : `${count(number).replace(/([kMGT]?)$/, " $1B")}`;
}

/** A share as a percentage. */
export function share(number) {
  return number === undefined || number === null ? "–" : `${Math.round(number * 100)} %`;
}

/** A number of seconds, such as "1.3 s" or "4 min". */
export function seconds(number) {
  if (number === undefined || number === null) return "–";
  if (number < 0.95) return number < 0.0005 ? "0 s" : `${Math.round(number * 1000)} ms`;
  if (number < 60) return `${trimmed(number.toFixed(1))} s`;
  if (number < 3600) return `${Math.floor(number / 60)} min`;
  if (number < 172800) return `${Math.floor(number / 3600)} h ${Math.floor((number % 3600) / 60)} min`;
  return `${Math.floor(number / 86400)} days`;
}

/** The time of day of a moment in seconds since 1970. */
export function clock(at) {
  return at === undefined ? "–" : new Date(at * 1000).toLocaleTimeString([], { hour12: false });
}

/** A frontier: its earliest times, or that it has ended. */
export function frontier(times) {
  if (!times) return "–";
  if (times.length === 0) return "ended";
  return times.length > 3 ? `${times.slice(0, 3).join(" ")} +${times.length - 3}` : times.join(" ");
}

/** A lag in epochs and seconds, such as "2 ep · 1.3 s"; empty without one. */
export function lag(live) {
  if (!live || !live.lag_epochs) return "";
  return `${count(live.lag_epochs)} ep · ${seconds(live.lag_seconds)}`;
}

/** A noun with its number. */
export function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

function trimmed(text) {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** The first time of a frontier, and how many more there are. */
export function firstTime(times) {
  if (!times) return "–";
  return times.length > 1 ? `${times[0]} +${times.length - 1}` : (times[0] ?? "");
}

/** A text of at most so many signs. */
export function shortened(text, signs) {
  return text.length > signs ? `${text.slice(0, Math.max(1, signs - 1))}…` : text;
}
