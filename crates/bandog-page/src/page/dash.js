// Drawings: the last runs of a job, the last day and the next hour of the store.

import { $, fill, put } from "./dom.js";
import { number, t, tn } from "./text.js";
import { clock, minute, span, state } from "./words.js";

const SLOTS = 50; // Number of bars in a row.
const STEP = 4; // Distance between bars, in units of the drawing.
const BASE = 18; // Position of the base line. Bars of failures are below this line, and all other bars above it.
const UP = 16; // Maximum height of a bar above the base line.
const DOWN = 11; // Maximum height of a bar below the base line.

const at = (text) => Date.parse(text);

/**
 * Draws a bar for each run of a job. The height of a bar shows the duration of the run. Bars of failures hang down and
 * end in a point. Bars of runs that neither succeeded nor failed are hollow.
 */
export function paintBars(svg, bars) {
  const known = bars ?? [];
  const mark = known.map(({ state: name, ended }) => name + ended).join();
  if (svg.dataset.mark === mark) return;
  svg.dataset.mark = mark;
  svg.bars = known;
  const longest = Math.max(1, ...known.map(({ took_ms: took }) => took));
  const paths = { good: [], bad: [], quiet: [] };
  known.forEach(({ state: name, took_ms: took }, place) => {
    const x = (SLOTS - known.length + place) * STEP;
    const size = Math.sqrt(took / longest);
    if (name === "ok") paths.good.push(`M${x} ${BASE}v${-(2 + size * (UP - 2)).toFixed(1)}h3V${BASE}Z`);
    else if (state(name).tone === "bad") paths.bad.push(`M${x - 0.25} ${BASE + 1}h3.5l-1.75 ${(4 + size * (DOWN - 4)).toFixed(1)}Z`);
    else paths.quiet.push(`M${x + 0.5} ${BASE}v${-(3 + size * (UP - 4)).toFixed(1)}h2V${BASE}Z`);
  });
  for (const [tone, parts] of Object.entries(paths)) $(`.${tone}`, svg).setAttribute("d", parts.join(""));
  const counts = new Map();
  for (const { state: name } of known) counts.set(name, (counts.get(name) ?? 0) + 1);
  const states = [...counts].map(([name, count]) => t("run.count", { count, state: state(name).word })).join(", ");
  svg.setAttribute("aria-label", known.length ? t("bars.label", { count: known.length, states }) : t("bars.none"));
}

/** Describes the bar under the pointer. */
export function showBar(svg, event, now, zone) {
  const box = svg.getBoundingClientRect();
  const place = Math.floor(((event.clientX - box.left) / box.width) * SLOTS) - (SLOTS - (svg.bars?.length ?? 0));
  const bar = svg.bars?.[place];
  put($("title", svg), bar ? t("bars.one", { state: state(bar.state).word, span: span(bar.took_ms), time: clock(at(bar.ended), now, zone) }) : "");
}

/** Shows the figures of the last 24 hours, and says which runs they do not cover. */
export function paintDay(day, now) {
  const { runs, failures, oldest_failure: oldest, lag, jobs, jobs_read: read, jobs_cut: cut, shortest } = day;
  const least = cut > 0 || read < jobs ? "≥ " : "";
  fill($("#day"), {
    runs: least + number(runs),
    failures: least + number(failures),
    oldest: oldest ? oldest.job : t("day.none"),
    "oldest-at": oldest ? t(oldest.stands ? "day.not-ok" : "day.ok", { time: clock(at(oldest.ended), now) }) : "",
    p50: lag ? span(lag.p50_ms) : "–",
    p99: lag ? span(lag.p99_ms) : "–",
    covers: covers(day),
  });
  $("#day .bad-count").dataset.tone = failures > 0 ? "bad" : "";
  const link = $("#oldest");
  link.disabled = !oldest;
  if (oldest) link.dataset.job = oldest.job;
  $("#day .tile-oldest").dataset.tone = oldest?.stands ? "bad" : "";
  $("#day .covers").title = shortest ? t("covers.job", { job: shortest.job, span: span(shortest.covers_ms) }) : "";
}

function covers({ jobs, jobs_read: read, jobs_cut: cut, lag, shortest }) {
  if (read < jobs) return t("covers.read", { read: number(read), jobs: number(jobs) });
  const about = cut === 0 ? t("covers.all") : tn("covers.cut", cut, { span: span(shortest.covers_ms) });
  return [lag && t("covers.lag", { count: number(lag.runs) }), about].filter(Boolean).join(" ");
}

const WIDE = 10; // Width of one minute, in units of the drawing.
const HIGH = 40; // Maximum height of a column.

/** Draws the starts of the next hour, with one column for each minute. */
export function paintHour(hour, now) {
  const from = at(hour.from);
  const svg = $("#hour svg");
  svg.hour = hour;
  const most = Math.max(4, ...hour.minutes);
  const column = (count, place) => {
    if (count === 0) return "";
    const high = Math.max(5, HIGH * Math.sqrt(count / most));
    return `M${place * WIDE + 1} ${HIGH + 2}v${-high.toFixed(1)}h${WIDE - 2}v${high.toFixed(1)}Z`;
  };
  $(".starts", svg).setAttribute("d", hour.minutes.map(column).join(""));
  const total = hour.minutes.reduce((sum, count) => sum + count, 0);
  svg.setAttribute("aria-label", tn("hour.label", total));
  [...$("#hour .axis").children].forEach((label, quarter) => put(label, minute(from + quarter * 15 * 60000, quarter === 4)));
  const coming = hour.starts.filter(({ due }) => at(due) > now - 1000);
  // Of each job, only the first start is listed.
  const first = coming.filter(({ job }, place) => coming.findIndex((other) => other.job === job) === place);
  put($('[data-f="coming"]'), first.length ? first.slice(0, 4).map(({ job, due }) => `${minute(at(due))} ${job}`).join(" · ") + (first.length > 4 ? " …" : "") : hour.often ? "" : t("hour.none"));
  $('[data-f="coming"]').title = coming.slice(0, 30).map(({ job, due }) => `${clock(at(due), now)} ${job}`).join("\n");
  const names = hour.often_jobs.slice(0, 3).join(", ") + (hour.often > 3 ? ", …" : "");
  put($('[data-f="often"]'), hour.often ? tn(total ? "hour.not-drawn" : "hour.too-often", hour.often, { names }) : "");
}

/** Describes the starts in the minute under the pointer. */
export function showMinute(svg, event) {
  if (!svg.hour) return;
  const box = svg.getBoundingClientRect();
  const place = Math.min(59, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * 60)));
  const from = at(svg.hour.from) + place * 60000;
  const jobs = svg.hour.starts.filter(({ due }) => at(due) >= from && at(due) < from + 60000).map(({ job }) => job);
  const count = svg.hour.minutes[place];
  const names = jobs.slice(0, 8).join(", ");
  const some = count > 8 ? t("hour.more", { names, count: count - Math.min(8, jobs.length) }) : names;
  const starts = count === 0 ? t("hour.starts.none") : jobs.length < Math.min(8, count) ? tn("hour.starts", count) : some;
  put($("title", svg), t("hour.minute", { minute: minute(from, true), starts }));
}
