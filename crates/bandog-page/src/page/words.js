// Texts for durations, instants and states, independent of the page.

import { LOCALE, t, word } from "./text.js";

const pad = (number) => String(number).padStart(2, "0");

/** A duration as text: `12 ms`, `1.4 s`, `4 min 09 s`, `2 h 14 min`, `3 d 4 h`. */
export function span(ms) {
  const s = Math.floor(ms / 1000);
  if (ms < 1000) return t("time.ms", { ms: Math.round(ms) });
  if (s < 10) return t("time.s", { s: (ms / 1000).toFixed(1).replace(".0", "") });
  return seconds(s);
}

/** A duration in seconds as text, for texts that change once a second. */
export function seconds(s) {
  if (s < 60) return t("time.s", { s });
  if (s < 3600) return t("time.min", { min: Math.floor(s / 60), s: pad(s % 60) });
  if (s < 86400) return t("time.h", { h: Math.floor(s / 3600), min: pad(Math.floor((s % 3600) / 60)) });
  return t("time.d", { d: Math.floor(s / 86400), h: Math.floor((s % 86400) / 3600) });
}

export function ago(ms) {
  const s = Math.floor(ms / 1000);
  return s < 1 ? t("time.just-now") : t("time.ago", { span: seconds(s) });
}

/** Whether a fire that is due in `ms` milliseconds is late. A run starts some time after its fire, so a fire that is less
 * than 2 s old is not late. */
export const isOverdue = (ms) => ms <= -2000;

/** Text for a fire that is due in `ms` milliseconds. */
export function until(ms) {
  if (ms > 0) return t("time.in", { span: seconds(Math.ceil(ms / 1000)) });
  return isOverdue(ms) ? t("time.overdue", { span: seconds(Math.floor(-ms / 1000)) }) : t("time.now");
}

const formats = new Map();

function format(zone) {
  if (!formats.has(zone)) formats.set(zone, make(zone) ?? make("UTC"));
  return formats.get(zone);
}

function make(timeZone) {
  const day = { weekday: "short", day: "numeric", month: "short" };
  const time = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
  const of = (fields) => new Intl.DateTimeFormat(LOCALE, { ...fields, timeZone });
  try {
    const short = of({ hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
    return { day: of(day), date: of({ ...day, year: "numeric" }), year: of({ year: "numeric" }), time: of(time), short, zone: of({ timeZoneName: "short" }) };
  } catch {
    return undefined; // This browser does not know the zone.
  }
}

/** The zone of the browser. */
export const HERE = Intl.DateTimeFormat().resolvedOptions().timeZone ?? "UTC";

/** A zone's short name at an instant: `CET`, `GMT-5`, `UTC`. */
function zoneName({ zone }, instant) {
  return zone.formatToParts(instant).find(({ type }) => type === "timeZoneName")?.value ?? "";
}

/** Date, time and zone. If the date is today, the date is left out. If the year is the present year, it is left out. */
export function clock(instant, now, zone = HERE) {
  const formats = format(zone);
  const { day, date, year, time } = formats;
  const text = `${time.format(instant)} ${zoneName(formats, instant)}`;
  if (date.format(instant) === date.format(now)) return text;
  const brief = year.format(instant) === year.format(now) ? day : date;
  return t("time.with-day", { day: brief.format(instant).replace(",", ""), time: text });
}

/** Hours and minutes in the browser's zone, with or without the name of the zone. */
export function minute(instant, withZone = false) {
  const formats = format(HERE);
  return formats.short.format(instant) + (withZone ? ` ${zoneName(formats, instant)}` : "");
}

/** Groups the runs. Successive failures are one group if their texts differ only in numbers, such as times. */
export function collapse(runs) {
  const groups = [];
  for (const run of runs) {
    const same = state(run.state).tone === "bad" ? [run.state, run.error, run.note].join("\n").replace(/\d+/g, "#") : undefined;
    const last = groups.at(-1);
    if (same !== undefined && last?.same === same) last.runs.push(run);
    else groups.push({ same, runs: [run] });
  }
  return groups.map((group) => group.runs);
}

/** The shape and the tone (colour) of each state. The page always shows the name of the state, too. */
const STATES = {
  queued: ["wait", "quiet"],
  running: ["run", "live"],
  ok: ["ok", "good"],
  failed: ["bad", "bad"],
  timed_out: ["bad", "bad"],
  lost: ["bad", "bad"],
  interrupted: ["warn", "warn"],
  missed: ["warn", "warn"],
  cancelled: ["none", "quiet"],
  skipped: ["none", "quiet"],
  reset: ["warn", "warn"],
};

export function state(name) {
  const [shape, tone] = STATES[name] ?? ["warn", "warn"];
  return { shape, tone, word: word("state", name) };
}
