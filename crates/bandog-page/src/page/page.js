// The data of the page and the polls for this data.

import { jobPath, offer } from "./acts.js";
import { paintCaches, pollCaches, startCaches } from "./caches.js";
import { paintBars, paintDay, paintHour, showBar, showMinute } from "./dash.js";
import { $, fill, put, shape, sync } from "./dom.js";
import { pollHistory, startHistory } from "./history.js";
import { paintLocks } from "./locks.js";
import { allow, count, fragment, read, show, title } from "./nav.js";
import { paintNodeActs, paintNodes } from "./nodes.js";
import { paintObjects, startObjects } from "./objects.js";
import { openQueue, openedQueue, paintQueues, pollQueues, startQueues } from "./queues.js";
import { number, t, translate } from "./text.js";
import { HERE, ago, clock } from "./words.js";
import { paintInside, paintJob, paintRuns, tickJob } from "./view.js";

const INTERVAL = 2000; // Minimum interval between two polls, in ms. If a poll takes long, the interval is longer.
const ELSEWHERE = 15000; // Minimum interval between two polls for a view that is not shown, in ms.
const TIMEOUT = 15000; // Timeout of an answer, in ms.
const STORE_TIMEOUT = 30000; // Timeout of the figures of the whole store, in ms.
const ROWS = 50; // Number of jobs on one page of the list.
const LOCKS = 200; // Maximum number of locks that are listed.
const OVERVIEW = 5000; // Minimum interval between two polls of the figures of the whole store, in ms.

// The newest answers. `read` and `locksRead` are the times of the answers. `ahead` is the number of ms by which the
// server's clock is ahead of the browser's clock. `acts` says whether the page accepts actions.
const known = { jobs: [], bars: {}, locks: [], read: 0, locksRead: 0, ahead: 0, isKnown: false, acts: false };
// The present view, the filter of the list of jobs, and the offset of the first job.
const shown = { view: "jobs", chip: "all", filter: "", offset: 0 };
const open = new Map(); // From the name of each opened job to the runs of the job.
const unfolded = new Set(); // The keys of the groups of failures that are shown one by one.
let timer;
let locksTimer;
let storeTimer;
let readObjects; // Reads the objects for the first time. The list is read when it is shown.

const now = () => Date.now() + known.ahead;

async function ask(path, init = {}, most = TIMEOUT) {
  const limit = new AbortController();
  const patience = setTimeout(() => limit.abort(), most);
  try {
    const reply = await fetch(path, { ...init, signal: limit.signal, credentials: "omit", cache: "no-store" });
    const body = await reply.json();
    if (!reply.ok) throw Object.assign(new Error(body.error.message), { status: reply.status, kind: body.error.kind });
    known.ahead = Date.parse(body.now) - Date.now();
    return body;
  } finally {
    clearTimeout(patience);
  }
}

// ---- Polling

/** The interval between two polls for a view: longer, if the view is not shown. */
const pauseOf = (views) => (least) => (views.includes(shown.view) ? least : Math.max(least, ELSEWHERE));

async function pollJobs() {
  clearTimeout(timer);
  const begun = performance.now();
  const wanted = query();
  const names = [...open.keys()].filter((name) => !known.isKnown || known.jobs.some((job) => job.name === name));
  const queries = [ask(`api/jobs?${wanted}`), ask("api/nodes"), ...names.map((name) => ask(`${jobPath(name)}/history`))];
  if (!known.version) queries.push(ask("api/about").then(introduce));
  const answers = await Promise.allSettled(queries);
  if (wanted !== query()) return; // The user has requested other jobs in the meantime.
  const [jobs, nodes, ...runs] = answers;
  if (jobs.value) {
    const { total, counts, bars } = jobs.value;
    // If a history was not read in time, its bars come with a later poll. Until then, the page shows the old bars.
    const kept = Object.fromEntries(jobs.value.jobs.map(({ name }) => [name, bars[name] ?? known.bars[name]]));
    Object.assign(known, { jobs: jobs.value.jobs, total, counts, bars: kept, read: Date.parse(jobs.value.at), isKnown: true });
  }
  if (nodes.value) known.nodes = nodes.value.nodes;
  names.forEach((name, place) => runs[place].value && open.has(name) && open.set(name, runs[place].value.runs));
  // These are not errors: 404, because a job was deleted, and 429, because the next poll reads the runs of the job.
  known.trouble = answers.find(({ reason }) => reason && reason.status !== 404 && reason.status !== 429)?.reason;
  if (known.jobs.length === 0 && shown.offset > 0 && known.total > 0) {
    shown.offset = 0;
    return pollJobs();
  }
  paint();
  clearTimeout(timer);
  const pause = pauseOf(["jobs", "nodes"])(INTERVAL);
  if (!document.hidden) timer = setTimeout(pollJobs, Math.max(known.trouble ? INTERVAL : pause, 4 * (performance.now() - begun)));
}

/** Polls the figures of the whole store. This can take longer than the poll of the jobs, which does not wait for it. */
async function pollStore() {
  clearTimeout(storeTimer);
  if (shown.view !== "jobs") return;
  const begun = performance.now();
  try {
    const { summary } = await ask("api/summary", {}, STORE_TIMEOUT);
    paintDay(summary.last_24h, now());
    if (summary.next_hour) paintHour(summary.next_hour, now());
  } catch {
    // The poll of the jobs reports the error. The present figures stay on the page.
  }
  clearTimeout(storeTimer);
  if (!document.hidden) storeTimer = setTimeout(pollStore, Math.max(OVERVIEW, 4 * (performance.now() - begun)));
}

/** Polls the locks. The server scans the store for them, which can take long. So the poll of the jobs does not wait. */
async function pollLocks() {
  clearTimeout(locksTimer);
  const begun = performance.now();
  try {
    const { locks, total, at } = await ask(`api/locks?limit=${LOCKS}`);
    Object.assign(known, { locks, lockCount: total, locksRead: Date.parse(at), locksTrouble: undefined });
  } catch (trouble) {
    known.locksTrouble = trouble.kind === "scanning" ? undefined : trouble;
  }
  paintAllLocks();
  paintLink();
  clearTimeout(locksTimer);
  const pause = known.locksTrouble ? INTERVAL : pauseOf(["locks"])(INTERVAL);
  if (!document.hidden) locksTimer = setTimeout(pollLocks, Math.max(pause, 4 * (performance.now() - begun)));
}

/** The query string for the requested jobs. */
function query() {
  return new URLSearchParams({ limit: ROWS, offset: shown.offset, name: shown.filter, is: shown.chip }).toString();
}

function introduce(about) {
  if (!known.version) {
    if (about.queues) startQueues({ ask, now, acts: () => known.acts, pause: pauseOf(["queues"]), opened: remember });
    if (about.objects) startCaches({ ask, now, pause: pauseOf(["caches"]) });
    if (about.objects) readObjects = () => startObjects(ask, now);
    allow(about);
    follow();
  }
  Object.assign(known, { version: about.version, acts: about.acts });
  $("#metrics").hidden = !about.metrics;
  fill(document, {
    store: about.store,
    version: t("version", about),
    rights: t(about.acts ? "rights.acts" : "rights.read"),
    zone: t("zone", { zone: HERE }),
  });
}

function pollAll() {
  if (document.hidden) return;
  for (const poll of [pollJobs, pollStore, pollLocks, pollQueues, pollCaches, pollHistory]) poll();
}

document.addEventListener("visibilitychange", pollAll);

// ---- The view

/** Shows the view of the URL, and opens what the URL names. */
function follow() {
  const { view, names } = read(location.hash);
  const isNew = view !== shown.view;
  shown.view = view;
  show(view);
  if (view === "queues") openQueue(names[0]);
  if (view === "jobs" && names.length === 0 && open.size > 0) history.replaceState(null, "", fragment("jobs", [...open.keys()]));
  if (view === "objects") {
    readObjects?.();
    readObjects = undefined;
  }
  const missing = view === "jobs" && names.filter((name) => !open.has(name));
  for (const name of missing || []) open.set(name, undefined);
  if (missing?.length && known.isKnown) findJob(missing[0]);
  $("#language").href = `?lang=${document.documentElement.lang === "en" ? "zh" : "en"}${location.hash}`;
  if (isNew) pollAll();
  tick();
}

/** Writes what is open into the fragment of the URL, so that a link to this URL opens the same. */
function remember() {
  const names = shown.view === "queues" ? [openedQueue()].filter((name) => name !== undefined) : [...open.keys()];
  history.replaceState(null, "", fragment(shown.view, shown.view === "queues" || shown.view === "jobs" ? names : []));
  follow();
  pollHistory();
}

addEventListener("hashchange", follow);

// ---- Showing

function paint() {
  paintLink();
  paintChips();
  paintJobs();
  if (!known.nodes) return;
  count("nodes", known.nodes.running.length);
  paintNodes(known.nodes);
  paintNodeActs(known.nodes, known.acts);
}

function paintAllLocks() {
  paintLocks(known.locks, now() - known.locksRead, known.acts);
  $("#locks").hidden = known.locks.length === 0;
  $("#no-locks").hidden = known.locks.length > 0;
  put($("#no-locks"), known.locksRead ? t("locks.none") : known.locksTrouble ? "\u00a0" : t("locks.scanning"));
  count("locks", known.locksRead ? known.lockCount : undefined);
  const more = known.lockCount - known.locks.length;
  fill(document, { "more-locks": more > 0 ? t("locks.more", { count: number(more) }) : "" });
}

function paintLink() {
  const { isKnown } = known;
  const trouble = known.trouble ?? known.locksTrouble;
  const link = $("#link");
  link.dataset.state = trouble ? "away" : "live";
  shape(link, trouble ? "warn" : "ok", trouble ? "warn" : "good");
  fill(link, { link: !trouble ? t("link.live") : isKnown ? t("link.data", { time: clock(known.read, now()) }) : t("link.none") });
  document.body.dataset.stale = String(Boolean(trouble));
  const said = $("#trouble");
  said.hidden = !trouble;
  if (trouble) put(said, [describe(trouble), isKnown && t("trouble.last-known")].filter(Boolean).join(" "));
}

function describe(trouble) {
  if (trouble.status === 503) return t("trouble.store", trouble);
  return trouble.status ? t("trouble.refused", trouble) : t("trouble.bandog");
}

function paintChips() {
  for (const chip of document.querySelectorAll("[data-chip]")) {
    const name = chip.dataset.chip;
    chip.setAttribute("aria-pressed", String(name === shown.chip));
    put($("b", chip), known.isKnown ? number(known.counts[name]) : "–");
  }
  if (known.isKnown) count("jobs", known.counts.all);
}

function paintJobs() {
  if (!known.isKnown) return;
  const list = $("#jobs");
  list.setAttribute("aria-busy", "false");
  sync(list, known.jobs, (job) => job.name, makeJob, (item, job) => {
    item.job = job;
    paintJob(item, job);
    paintBars($(".bars svg", item), known.bars[job.name]);
    paintOpen(item, job);
  });
  tick();
  list.hidden = known.jobs.length === 0;
  const none = $("#no-jobs");
  none.hidden = known.jobs.length > 0;
  put(none, t(known.counts.all ? "jobs.none-match" : "jobs.none"));
  $("#pages").hidden = known.total <= ROWS;
  const range = { from: number(shown.offset + 1), to: number(shown.offset + known.jobs.length), total: number(known.total) };
  fill($("#pages"), { range: t("jobs.range", range) });
  $("#back").disabled = shown.offset === 0;
  $("#forth").disabled = shown.offset + ROWS >= known.total;
}

function makeJob() {
  const item = $("#job").content.firstElementChild.cloneNode(true);
  $("h3 button", item).addEventListener("click", () => toggle(item));
  $(".bars svg", item).addEventListener("pointermove", (event) => showBar(event.currentTarget, event, now(), item.job.zone || HERE));
  return item;
}

function toggle(item) {
  const { name } = item.job;
  if (open.has(name)) open.delete(name);
  else open.set(name, undefined);
  remember();
  paintOpen(item, item.job);
  if (open.has(name)) pollJobs();
}

function paintOpen(item, job) {
  const [button, inside, isOpen] = [$("h3 button", item), $(".inside", item), open.has(job.name)];
  button.setAttribute("aria-expanded", String(isOpen));
  inside.hidden = !isOpen;
  if (!isOpen) return inside.replaceChildren();
  if (!inside.firstElementChild) inside.append($("#inside").content.cloneNode(true));
  inside.onclick = ({ target }) => {
    if (target.dataset?.act) act(target.dataset.act, item.job.name, target.dataset.tick);
    if (target.classList.contains("fold")) unfold(item, target.dataset.key);
  };
  paintInside(inside, job, known.acts, now());
  const runs = open.get(job.name);
  if (runs) paintRuns(inside, job, runs, now(), unfolded, known.acts);
}

function unfold(item, key) {
  if (!unfolded.delete(key)) unfolded.add(key);
  paintOpen(item, item.job);
}

/** Updates the texts that change with the time. */
function tick() {
  for (const item of $("#jobs").children) if (item.job) tickJob($(".row", item), item.job, now());
  const age = now() - known.read;
  const trouble = known.trouble ?? known.locksTrouble;
  if (known.isKnown && trouble) fill($("#link"), { link: t("link.data-ago", { time: clock(known.read, now()), ago: ago(age) }) });
  document.title = trouble ? t("title.away") : title(shown.view);
}

function everySecond() {
  tick();
  paintLocks(known.locks, now() - known.locksRead, known.acts);
  paintObjects(now());
  paintCaches();
  paintQueues();
  setTimeout(everySecond, 1000 - (now() % 1000));
}

// ---- Acting and filtering

/** Opens the form for an action. */
function act(what, name, one) {
  const changed = (path) => {
    pollJobs();
    if (path.startsWith("api/locks/")) pollLocks();
    if (path.startsWith("api/queues/")) pollQueues();
  };
  offer(what, name, one, { ask, describe, changed });
}

/** Requests the jobs that match the present filter, from this offset on. */
function choose(offset = 0) {
  shown.offset = offset;
  paintChips();
  pollJobs();
}

for (const chip of document.querySelectorAll("[data-chip]")) {
  chip.addEventListener("click", () => {
    shown.chip = chip.dataset.chip;
    choose();
  });
}

let typing;
$("#filter").addEventListener("input", ({ target }) => {
  shown.filter = target.value.trim();
  clearTimeout(typing);
  typing = setTimeout(choose, 150);
});

$("#back").addEventListener("click", () => choose(Math.max(0, shown.offset - ROWS)));
$("#forth").addEventListener("click", () => choose(shown.offset + ROWS));

/** Shows only this job, and opens it. */
function goTo(name) {
  Object.assign(shown, { chip: "all", filter: name });
  $("#filter").value = name;
  open.set(name, undefined);
  remember();
  choose();
}

/** Shows only this job, if it is on another page of the list. */
function findJob(name) {
  if (known.jobs.some((job) => job.name === name)) pollJobs();
  else goTo(name);
}

for (const part of ["#pause-all", "#node-acts", "#locks", "#queue"]) {
  $(part).addEventListener("click", ({ target: { dataset } }) => dataset?.act && act(dataset.act, dataset.name ?? "", dataset.id));
}

$("#oldest").addEventListener("click", ({ currentTarget }) => goTo(currentTarget.dataset.job));
$("#hour svg").addEventListener("pointermove", (event) => showMinute(event.currentTarget, event));

/** Starts the page. If the URL names a job that is on another page of the list, only that job is shown. */
async function start() {
  translate(document);
  follow();
  await pollJobs();
  const [name] = open.keys();
  if (name !== undefined && known.isKnown && !known.jobs.some((job) => job.name === name)) goTo(name);
}

start();
pollStore();
pollLocks();
startHistory({ ask, now, view: () => shown.view, queue: openedQueue });
everySecond();
