// Words for spans, instants and states. Nothing here knows of the page.

const pad = (number) => String(number).padStart(2, "0");

/** A span as people read it: `12 ms`, `1.4 s`, `4 min 09 s`, `2 h 14 min`, `3 d 4 h`. */
export function span(ms) {
  const s = Math.floor(ms / 1000);
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (s < 10) return `${(ms / 1000).toFixed(1).replace(".0", "")} s`;
  return seconds(s);
}

/** The same without parts of a second, for what changes once a second. */
export function seconds(s) {
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${pad(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${pad(Math.floor((s % 3600) / 60))} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export function ago(ms) {
  const s = Math.floor(ms / 1000);
  return s < 1 ? "just now" : `${seconds(s)} ago`;
}

/** What is told of a fire that lies `ms` ahead; a claim takes a moment, so a second late is still now. */
export function until(ms) {
  if (ms > 0) return `in ${seconds(Math.ceil(ms / 1000))}`;
  return ms > -2000 ? "now" : `late by ${seconds(Math.floor(-ms / 1000))}`;
}

const formats = new Map();

function format(zone) {
  if (!formats.has(zone)) formats.set(zone, make(zone) ?? make("UTC"));
  return formats.get(zone);
}

function make(timeZone) {
  const day = { weekday: "short", day: "numeric", month: "short" };
  const time = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
  const of = (fields) => new Intl.DateTimeFormat("en-GB", { ...fields, timeZone });
  try {
    return { day: of(day), date: of({ ...day, year: "numeric" }), year: of({ year: "numeric" }), time: of(time) };
  } catch {
    return undefined; // A zone that this browser does not know.
  }
}

/** The zone of whoever looks. */
export const HERE = Intl.DateTimeFormat().resolvedOptions().timeZone ?? "UTC";

/** Date and time in a zone, without what they share with `now`: the year, or the day. */
export function clock(instant, now, zone = HERE) {
  const { day, date, year, time } = format(zone);
  if (date.format(instant) === date.format(now)) return time.format(instant);
  const brief = year.format(instant) === year.format(now) ? day : date;
  return `${brief.format(instant).replace(",", "")}, ${time.format(instant)}`;
}

/** Each state's shape and tone; the word itself is always shown, too. */
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
  return { shape, tone, word: words(name) };
}

/** A name of the interface as words. */
export const words = (name) => String(name).replaceAll("_", " ");

/** Whether a job's last run went wrong. */
export const isBad = (run) => run !== null && run !== undefined && state(run.state).tone === "bad";
