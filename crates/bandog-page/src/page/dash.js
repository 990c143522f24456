// Drawings: the last runs of a job, the last day and the next hour of the store.

import { $, fill, put } from "./view.js";
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
  const words = [...counts].map(([name, count]) => `${count} ${state(name).word}`).join(", ");
  svg.setAttribute("aria-label", known.length ? `Last ${known.length} runs: ${words}` : "No run has ended yet");
}

/** Describes the bar under the pointer. */
export function showBar(svg, event, now, zone) {
  const box = svg.getBoundingClientRect();
  const place = Math.floor(((event.clientX - box.left) / box.width) * SLOTS) - (SLOTS - (svg.bars?.length ?? 0));
  const bar = svg.bars?.[place];
  put($("title", svg), bar ? `${state(bar.state).word} in ${span(bar.took_ms)}, ended ${clock(at(bar.ended), now, zone)}` : "");
}

/** Shows the figures of the last 24 hours, and says which runs they do not cover. */
export function paintDay(day, now) {
  const { runs, failures, oldest_failure: oldest, lag, jobs, jobs_read: read, jobs_cut: cut, shortest } = day;
  const least = cut > 0 || read < jobs ? "≥ " : "";
  const number = (count) => least + count.toLocaleString("en-GB");
  fill($("#day"), {
    runs: number(runs),
    failures: failures || least === "" ? number(failures) : "≥ 0",
    oldest: oldest ? oldest.job : "none",
    "oldest-at": oldest ? `${clock(at(oldest.ended), now)}${oldest.stands ? ", not ok since" : ", ok since"}` : "",
    p50: lag ? span(lag.p50_ms) : "–",
    p99: lag ? span(lag.p99_ms) : "–",
    covers: covers(day),
  });
  $("#day .bad-count").dataset.tone = failures > 0 ? "bad" : "";
  const link = $("#oldest");
  link.disabled = !oldest;
  if (oldest) link.dataset.job = oldest.job;
  $("#day .tile-oldest").dataset.tone = oldest?.stands ? "bad" : "";
  $("#day .covers").title = shortest ? `The kept runs of ${shortest.job} cover ${span(shortest.covers_ms)}` : "";
}

function covers({ jobs, jobs_read: read, jobs_cut: cut, lag, shortest }) {
  if (read < jobs) return `${read.toLocaleString("en-GB")} of ${jobs.toLocaleString("en-GB")} jobs have been read so far.`;
  const sample = lag ? `Lag of ${lag.runs.toLocaleString("en-GB")} runs. ` : "";
  if (cut === 0) return `${sample}All runs of these 24 hours are counted.`;
  const who = cut === 1 ? "1 job runs" : `${cut.toLocaleString("en-GB")} jobs run`;
  return `${sample}The store keeps the last 50 good and 50 bad runs of a job: ${who} more often, and count from ${span(shortest.covers_ms)} ago on.`;
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
  svg.setAttribute("aria-label", `${total} starts in the next hour`);
  [...$("#hour .axis").children].forEach((label, quarter) => put(label, minute(from + quarter * 15 * 60000, quarter === 4)));
  const coming = hour.starts.filter(({ due }) => at(due) > now - 1000);
  // Of each job, only the first start is listed.
  const first = coming.filter(({ job }, place) => coming.findIndex((other) => other.job === job) === place);
  put($('[data-f="coming"]'), first.length ? first.slice(0, 4).map(({ job, due }) => `${minute(at(due))} ${job}`).join(" · ") + (first.length > 4 ? " …" : "") : hour.often ? "" : "No start in the next hour.");
  $('[data-f="coming"]').title = coming.slice(0, 30).map(({ job, due }) => `${clock(at(due), now)} ${job}`).join("\n");
  const names = hour.often_jobs.slice(0, 3).join(", ") + (hour.often > 3 ? ", …" : "");
  put($('[data-f="often"]'), hour.often ? `${total ? "Not drawn: " : "Too frequent to be drawn: "}${hour.often === 1 ? "1 job that starts" : `${hour.often.toLocaleString("en-GB")} jobs that start`} more than 12 times an hour (${names}).` : "");
}

/** Describes the starts in the minute under the pointer. */
export function showMinute(svg, event) {
  if (!svg.hour) return;
  const box = svg.getBoundingClientRect();
  const place = Math.min(59, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * 60)));
  const from = at(svg.hour.from) + place * 60000;
  const jobs = svg.hour.starts.filter(({ due }) => at(due) >= from && at(due) < from + 60000).map(({ job }) => job);
  const count = svg.hour.minutes[place];
  const more = count > 8 ? ` and ${count - Math.min(8, jobs.length)} more` : "";
  put($("title", svg), `${minute(from, true)}: ${count === 0 ? "no start" : `${jobs.slice(0, 8).join(", ")}${more || (jobs.length < count ? `${count} starts` : "")}`}`);
}
