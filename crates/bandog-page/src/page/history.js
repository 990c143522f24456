// The charts of the last 24 hours: runs and lag, the depth of queues, and the calls that wait for locks.

import { paintChart, paintRows } from "./chart.js";
import { $ } from "./dom.js";
import { number, t } from "./text.js";
import { clock, span } from "./words.js";

const INTERVAL = 30000; // Minimum interval between two polls, in ms.

/** The charts of the opened queue. */
export const QUEUE_CHARTS = ["#chart-queue", "#chart-oldest"];

let page; // Requests, the time by the server's clock, and the present view with its opened queue.
let request = 0; // The number of the newest poll. Answers to earlier ones are ignored.
let timer;

/** Starts the charts. `of` has functions: `ask` sends a request, `now` is the time by the server's clock, `view` is the present
 * view, and `queue` is the name of the opened queue. */
export function startHistory(of) {
  page = of;
  pollHistory();
}

/** Polls the history, if the present view has a chart. */
export async function pollHistory() {
  if (!page) return;
  clearTimeout(timer);
  const poll = ++request;
  if (!["jobs", "locks", "queues"].includes(page.view())) return;
  const begun = performance.now();
  const queue = page.queue();
  try {
    const { history } = await page.ask(`api/history${queue === undefined ? "" : `?${new URLSearchParams({ queue })}`}`);
    if (poll !== request) return; // A newer poll has begun.
    paintHistory(history, queue, page.now());
  } catch {
    if (poll !== request) return; // The poll of the jobs reports the error. The present charts stay on the page.
  }
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(pollHistory, Math.max(INTERVAL, 4 * (performance.now() - begun)));
}

/** Paints all charts of this history. `queue` is the name of the opened queue. */
export function paintHistory(history, queue, now) {
  const { step_ms: step, observed_since: since, runs, lag } = history;
  const time = { from: Date.parse(history.from), step };
  const note = since ? t("chart.observed", { time: clock(Date.parse(since), now) }) : "";
  paintChart($("#chart-runs"), {
    ...time, note, sum: true, title: t("chart.runs"), format: (value) => number(value), atLeast: (place) => !runs.whole[place],
    series: [{ label: t("chart.ok"), style: "up", values: runs.ok }, { label: t("chart.failed"), style: "down", values: runs.failed }],
  });
  paintChart($("#chart-lag"), {
    ...time, title: t("chart.lag"), format: span,
    series: [{ label: t("chart.p50"), style: "line", values: lag.p50_ms }, { label: t("chart.p99"), style: "dashed", values: lag.p99_ms }],
  });
  const whole = { ...time, note, format: (value) => number(value) };
  paintRows($("#chart-locks"), { ...whole, title: t("chart.locks"), rows: history.locks.map(({ name, waiting: values }) => ({ name, values })) });
  paintRows($("#chart-queues"), { ...whole, title: t("chart.queues"), rows: history.queues.map(({ name, depth: values }) => ({ name, values })) });
  const one = history.queue;
  for (const place of QUEUE_CHARTS) $(place).hidden = !one || one.name !== queue;
  if (!one || one.name !== queue) return;
  paintChart($("#chart-queue"), { ...whole, title: t("chart.depth"), series: [{ label: t("chart.depth-short"), style: "up", values: one.depth }] });
  paintChart($("#chart-oldest"), { ...time, format: span, title: t("chart.oldest"), series: [{ label: t("chart.oldest-short"), style: "line", values: one.oldest_ms }] });
}
