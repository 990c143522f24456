// The list of jobs: the row of a job, its details, and its runs.

import { $, actButton, fill, icon, put, shape, sync } from "./dom.js";
import { by } from "./nodes.js";
import { t, word } from "./text.js";
import { HERE, ago, clock, collapse, isOverdue, seconds, span, state, until } from "./words.js";

const running = (job) => job.live.filter((run) => run.state === "running");
const at = (text) => Date.parse(text);

/** Updates the parts of a job's row that change with time. */
export function tickJob(row, job, now) {
  paintNext(row, job, now);
  const last = job.last;
  const lag = last?.lag_ms != null && t("job.lag", { span: span(last.lag_ms) });
  const attempt = last?.attempt > 1 && t("attempt", { count: last.attempt });
  fill(row, { ago: last ? ago(Math.max(0, now - at(last.ended ?? last.due))) : "", lag: [lag, attempt].filter(Boolean).join(" · ") });
  const [run] = running(job);
  const since = run && t("job.for", { span: seconds(Math.max(0, Math.floor((now - at(run.started)) / 1000))) });
  const waits = job.queued > 0 && t("job.queued", { count: job.queued });
  const tries = run?.attempt > 1 && t("attempt", { count: run.attempt });
  fill(row, { since: [run?.cancelling && t("job.cancelling"), since, tries, waits].filter(Boolean).join(" · ") });
}

function paintNext(row, job, now) {
  const [lead, next] = [$(".next .lead", row), $("time", row)];
  const { name, tone, text } = nextFire(job, now);
  shape(lead, name, tone);
  put(next, text);
  if (job.next) next.dateTime = job.next;
  else next.removeAttribute("datetime");
  const zone = job.zone || HERE;
  const time = job.rests_until ? t("next.rests-until", { time: clock(at(job.rests_until), now, zone) }) : job.next ? clock(at(job.next), now, zone) : "";
  const paused = job.paused ?? job.all_paused;
  fill(row, { at: paused ? by(paused) : time });
  next.title = job.next ? `${clock(at(job.next), now, zone)} ${zone}\n${clock(at(job.next), now)} ${HERE}\n${job.next}` : "";
}

/** The text about a job's next fire. */
function nextFire(job, now) {
  if (job.presence === "absent") return { name: "warn", tone: "warn", text: t("next.no-node") };
  if (!job.enabled) return { name: "none", tone: "quiet", text: t("next.disabled") };
  if (job.paused) return { name: "hold", tone: "warn", text: t("next.paused") };
  if (job.all_paused) return { name: "hold", tone: "warn", text: t("next.all-paused") };
  if (job.rests_until) return { name: "warn", tone: "warn", text: t("next.rests") };
  if (job.next) {
    const left = at(job.next) - now;
    const text = until(left);
    return isOverdue(left) ? { name: "warn", tone: "warn", text } : { name: "wait", tone: "", text };
  }
  const text = t(running(job).length > 0 ? "next.after" : "next.none");
  return { name: "none", tone: "quiet", text };
}

/** Updates a job's row, without the parts that change with time. */
export function paintJob(item, job) {
  const row = $(".row", item);
  fill(row, { name: job.name, description: job.description || job.trigger });
  $(".sub", row).title = job.trigger;
  const last = job.last && state(job.last.state);
  const took = job.last?.started && job.last?.ended && span(at(job.last.ended) - at(job.last.started));
  shape($(".state", row), last ? last.shape : "none", last ? last.tone : "quiet");
  fill(row, { state: !last ? t("job.never") : took ? t("job.took", { state: last.word, span: took }) : last.word });
  const [run, ...more] = running(job);
  const [name, tone] = run ? (run.orphaned ? ["warn", "warn"] : ["run", "live"]) : ["none", "quiet"];
  shape($(".now .lead", row), name, tone);
  const node = run && (run.orphaned ? t("job.dead-node", run) : run.node);
  fill(row, { node: !run ? t("job.idle") : more.length > 0 ? t("job.more-nodes", { node, count: more.length }) : node });
}

/** Updates the details of an opened job. */
export function paintInside(inside, job, acts, now) {
  const paused = $('[data-f="paused"]', inside);
  const pauses = [["paused.by", job.paused], ["paused.all-by", job.all_paused]].filter(([, pause]) => pause);
  paused.hidden = pauses.length === 0;
  put(paused, pauses.map((pause) => pauseText(...pause, now)).join("; "));
  $('[data-part="acts"]', inside).hidden = !acts;
  $('[data-act="pause"]', inside).hidden = Boolean(job.paused);
  $('[data-act="resume"]', inside).hidden = !job.paused;
  $('[data-act="cancel"]', inside).disabled = job.live.length === 0 && job.queued === 0;
  const facts = {
    trigger: job.trigger,
    zone: job.zone || "",
    overlap: word("policy", job.overlap),
    "catch-up": word("policy", job.catch_up),
    "on-crash": word("policy", job.on_crash),
    lease: span(job.lease_ms),
    watermark: job.watermark ? clock(at(job.watermark), now) : "",
    runs: t("fact.runs.counts", job),
    nodes: job.presence === "absent" || job.presence === "no_node" ? t(`fact.nodes.${job.presence}`) : "",
    unknown: job.unknown_since ? t("fact.unknown.at", { time: clock(at(job.unknown_since), now) }) : "",
    ticks: t("fact.ticks.counts", job),
  };
  const known = Object.entries(facts).filter(([, text]) => text);
  sync($("dl", inside), known, ([name]) => name, makeFact, (fact, [, text]) => put($("dd", fact), text));
}

function pauseText(key, { by: author, at: since, reason }, now) {
  const text = t(key, { by: author, time: clock(at(since), now) });
  return reason ? t("paused.reason", { text, reason }) : text;
}

function makeFact([name]) {
  const fact = document.createElement("div");
  const term = document.createElement("dt");
  term.textContent = t(`fact.${name}`);
  fact.append(term, document.createElement("dd"));
  return fact;
}

/** Updates the runs of an opened job: first the runs that wait or run, then the runs that have ended. `unfolded` has
 * the keys of the groups of failures that are shown one by one. */
export function paintRuns(inside, job, runs, now, unfolded, acts) {
  const seen = new Map();
  const keyOf = (run) => {
    const key = `${run.id} ${run.tick} ${run.state === "queued" || run.state === "running" ? "live" : run.ended}`;
    seen.set(key, (seen.get(key) ?? 0) + 1);
    return `${key} ${seen.get(key)}`;
  };
  const rows = collapse(runs).flatMap((same) => {
    const each = same.map((run) => ({ run, same: [run], key: keyOf(run) }));
    if (same.length === 1) return each;
    // A group can grow at its new end. So the key of a group contains the key of its oldest run.
    const group = { run: same[0], same, key: `${job.name} ${each.at(-1).key} and more` };
    return unfolded.has(group.key) ? [group, ...each.map((row) => ({ ...row, isPart: true }))] : [group];
  });
  sync($(".runs tbody", inside), rows, ({ key }) => key, makeRun, (row, shown) => paintRun(row, job, shown, now, unfolded, acts));
  const none = $('[data-f="runs"]', inside);
  none.hidden = runs.length > 0;
  put(none, t("runs.none"));
}

function makeRun({ same }) {
  const row = document.createElement("tr");
  for (const kind of ["", "", "num", "num", "num", "", "", "num", "note"]) row.insertCell().className = kind;
  row.cells[1].append(icon(), document.createElement("span"));
  row.cells[1].classList.add("state");
  row.cells[1].append(actButton("again", "", t("act.again")));
  if (same.length > 1) {
    const more = document.createElement("button");
    more.type = "button";
    more.className = "fold";
    row.cells[1].append(more);
  }
  return row;
}

/** The state of a run, as the page shows it. */
function stateOf(run) {
  if (run.orphaned) return { shape: "warn", tone: "warn", word: t("run.dead-node") };
  return run.cancelling ? { shape: "run", tone: "warn", word: t("job.cancelling") } : state(run.state);
}

function paintRun(row, job, { run, same, key, isPart }, now, unfolded, acts) {
  const cells = row.cells;
  const oldest = same.at(-1);
  row.classList.toggle("part", Boolean(isPart));
  const { shape: name, tone, word: text } = stateOf(run);
  const tick = (time) => clock(at(time), now, job.zone || HERE);
  const from = same.length > 1 ? oldest.tick : run.from;
  put(cells[0], from && from !== run.tick ? t("run.ticks", { from: tick(from), to: tick(run.tick) }) : tick(run.tick));
  cells[0].title = from ? t("run.ticks", { from, to: run.tick }) : run.tick;
  shape(cells[1], name, tone);
  put($("span", cells[1]), run.ticks > 1 ? t("run.count", { count: run.ticks, state: text }) : run.retried ? t("run.repeated", { state: text }) : text);
  // The tick of a manual run, and that of a fixed delay, is no tick of the trigger: run the job now instead.
  const again = $('[data-act="again"], [data-act="run"]', cells[1]);
  const hasTick = (run.kind === "scheduled" || run.kind === "catch_up" || run.kind === "backfill") && !job.trigger.startsWith("fixed_delay");
  again.hidden = !acts || same.length > 1 || run.retried || state(run.state).tone !== "bad" || run.id === 0;
  again.dataset.act = hasTick ? "again" : "run";
  again.dataset.tick = run.tick;
  const more = $(".fold", cells[1]);
  if (more) {
    put(more, `× ${same.length}`);
    more.dataset.key = key;
    more.setAttribute("aria-expanded", String(unfolded.has(key)));
    more.title = t("runs.fold");
  }
  put(cells[2], run.lag_ms == null ? "" : span(run.lag_ms));
  const end = run.ended ? at(run.ended) : now;
  put(cells[3], run.started ? (run.ended ? span(end - at(run.started)) : seconds(Math.max(0, Math.floor((end - at(run.started)) / 1000)))) : "");
  put(cells[4], run.attempt ? String(run.attempt) : "");
  put(cells[5], word("run", run.kind));
  put(cells[6], run.node ?? "");
  put(cells[7], run.fence == null ? "" : String(run.fence));
  note(cells[8], [run.error, run.note].filter(Boolean).join("\n"));
}

/** Shows a text. If the text has more than one line, only the first line is visible until the user unfolds the text. */
function note(cell, text) {
  if (cell.dataset.text === text) return;
  cell.dataset.text = text;
  const [first] = text.split("\n");
  if (text === first && text.length <= 60) return cell.replaceChildren(text);
  const [details, summary, all] = ["details", "summary", "pre"].map((name) => document.createElement(name));
  summary.textContent = first.length > 60 ? `${first.slice(0, 59)}…` : first;
  all.textContent = text;
  details.append(summary, all);
  cell.replaceChildren(details);
}
