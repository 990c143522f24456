// The data of the page, the polls for this data, and the actions on jobs.

import { paintBars, paintDay, paintHour, showBar, showMinute } from "./dash.js";
import { paintObjects, startObjects } from "./objects.js";
import { QUEUE_ACTS, paintQueues, pollQueues, startQueues } from "./queues.js";
import { HERE, ago, clock, seconds } from "./words.js";
import { $, fill, paintInside, paintJob, paintLocks, paintNodeActs, paintNodes, paintRuns, put, shape, sync, tickJob } from "./view.js";

const INTERVAL = 2000; // Minimum interval between two polls, in ms. If a poll takes long, the interval is longer.
const TIMEOUT = 15000; // Timeout of an answer, in ms.
const STORE_TIMEOUT = 30000; // Timeout of the figures of the whole store, in ms.
const ROWS = 50; // Number of jobs on one page of the list.
const LOCKS = 200; // Maximum number of locks that are listed.
const OVERVIEW = 5000; // Minimum interval between two polls of the figures of the whole store, in ms.

// The newest answers. `read` and `locksRead` are the times of the answers. `ahead` is the number of ms by which the
// server's clock is ahead of the browser's clock. `acts` says whether the page accepts actions.
const known = { jobs: [], bars: {}, locks: [], read: 0, locksRead: 0, ahead: 0, isKnown: false, acts: false };
// The filter of the list of jobs, and the offset of the first job.
const shown = { chip: "all", filter: "", offset: 0 };
const open = new Map(); // From the name of each opened job to the runs of the job.
const unfolded = new Set(); // The keys of the groups of failures that are shown one by one.
let token; // The token is only kept in memory, and never stored.
let timer;
let locksTimer;
let storeTimer;

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

async function pollJobs() {
  clearTimeout(timer);
  const begun = performance.now();
  const wanted = query();
  const names = [...open.keys()].filter((name) => !known.isKnown || known.jobs.some((job) => job.name === name));
  const queries = [ask(`api/jobs?${wanted}`), ask("api/nodes"), ...names.map((name) => ask(`${pathOf(name)}/history`))];
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
  if (!document.hidden) timer = setTimeout(pollJobs, Math.max(INTERVAL, 4 * (performance.now() - begun)));
}

/** Polls the figures of the whole store. This can take longer than the poll of the jobs, which does not wait for it. */
async function pollStore() {
  clearTimeout(storeTimer);
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
  if (!document.hidden) locksTimer = setTimeout(pollLocks, Math.max(INTERVAL, 4 * (performance.now() - begun)));
}

/** The query string for the requested jobs. */
function query() {
  return new URLSearchParams({ limit: ROWS, offset: shown.offset, name: shown.filter, is: shown.chip }).toString();
}

const pathOf = (name) => `api/jobs/${encodeURIComponent(name)}`;

function introduce(about) {
  if (about.objects && !known.version) startObjects(ask, now);
  if (about.queues && !known.version) startQueues(ask, now, () => known.acts);
  Object.assign(known, { version: about.version, acts: about.acts });
  $("#metrics").hidden = !about.metrics;
  fill(document, {
    store: about.store,
    version: `bandog ${about.version}`,
    rights: about.acts ? "Each action requires the token." : "Read-only. Start bandog with --http-token-file to act on jobs, nodes, queues and locks from here.",
    zone: `Times are in ${HERE}, unless they have another zone.`,
  });
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  pollJobs();
  pollStore();
  pollLocks();
  pollQueues();
});

// ---- Showing

function paint() {
  paintLink();
  paintChips();
  paintJobs();
  if (!known.nodes) return;
  paintNodes(known.nodes);
  paintNodeActs(known.nodes, known.acts);
}

function paintAllLocks() {
  paintLocks(known.locks, now() - known.locksRead, known.acts);
  $("#locks").hidden = known.locks.length === 0;
  $("#no-locks").hidden = known.locks.length > 0;
  put($("#no-locks"), known.locksRead ? "No lock is held now." : known.locksTrouble ? "\u00a0" : "The store is scanned for locks…");
  put($("#lock-count"), known.locks.length ? known.lockCount.toLocaleString("en-GB") : "");
  const more = known.lockCount - known.locks.length;
  fill(document, { "more-locks": more > 0 ? `and ${more.toLocaleString("en-GB")} more: bandog ls, or /api/locks` : "" });
}

function paintLink() {
  const { isKnown } = known;
  const trouble = known.trouble ?? known.locksTrouble;
  const link = $("#link");
  link.dataset.state = trouble ? "away" : "live";
  shape(link, trouble ? "warn" : "ok", trouble ? "warn" : "good");
  fill(link, { link: trouble ? (isKnown ? `Data of ${clock(known.read, now())}` : "No data yet") : "Live" });
  document.body.dataset.stale = String(Boolean(trouble));
  const said = $("#trouble");
  said.hidden = !trouble;
  if (trouble) put(said, describe(trouble) + (isKnown ? " The data below is the last known." : ""));
}

function describe(trouble) {
  if (trouble.status === 503) return `The store does not answer: ${trouble.message}.`;
  if (trouble.status) return `bandog refuses: ${trouble.message}.`;
  return "bandog itself does not answer: it was stopped, or the network is down.";
}

function paintChips() {
  for (const chip of document.querySelectorAll("[data-chip]")) {
    const name = chip.dataset.chip;
    chip.setAttribute("aria-pressed", String(name === shown.chip));
    put($("b", chip), known.isKnown ? known.counts[name].toLocaleString("en-GB") : "–");
  }
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
  put(none, known.counts.all ? "No job matches." : "The store has no job yet. Jobs appear here after the start of a scheduler that has some.");
  $("#pages").hidden = known.total <= ROWS;
  const number = (count) => count.toLocaleString("en-GB");
  fill($("#pages"), { range: `${number(shown.offset + 1)}–${number(shown.offset + known.jobs.length)} of ${number(known.total)}` });
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
  if (!inside.firstElementChild) {
    inside.append($("#inside").content.cloneNode(true));
    inside.addEventListener("click", ({ target }) => {
      if (target.dataset?.act) offer(target.dataset.act, item.job.name, target.dataset.tick);
      if (target.classList.contains("fold")) unfold(item, target.dataset.key);
    });
  }
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
  if (known.isKnown && trouble) fill($("#link"), { link: `Data of ${clock(known.read, now())}, ${ago(age)}` });
  document.title = trouble ? "bandog – no answer" : "bandog";
}

function everySecond() {
  tick();
  paintLocks(known.locks, now() - known.locksRead, known.acts);
  paintObjects(now());
  paintQueues();
  setTimeout(everySecond, 1000 - (now() % 1000));
}

/** Writes the names of the opened jobs into the fragment of the URL, so that a link to this URL opens the same jobs. */
function remember() {
  history.replaceState(null, "", open.size ? `#${[...open.keys()].map(encodeURIComponent).join("&")}` : location.pathname);
}

// ---- Acting

/** Each action: the path, the verb of the button, the text of the form, the fields of the form, and the message about the
 * result. `what` is the name of the job, the node or the lock. */
const ACTS = {
  run: (name) => ({ path: `${pathOf(name)}/run`, verb: "Run now", about: `${name} runs once, in addition to its ticks.`, done: ({ id }) => `run ${id} is requested` }),
  pause: (name) => ({ path: `${pathOf(name)}/pause`, verb: "Pause", about: `The ticks of ${name} are skipped until it is resumed. Present runs continue.`, fields: ["reason"], done: () => "paused" }),
  resume: (name) => ({ path: `${pathOf(name)}/resume`, verb: "Resume", about: `The ticks of ${name} resume.`, done: resumed }),
  cancel: (name) => ({ path: `${pathOf(name)}/cancel`, verb: "Cancel runs", about: `All runs of ${name} that run or wait are cancelled.`, done: ({ ids }) => (ids.length ? `cancelled run ${ids.join(", ")}` : "no run to cancel") }),
  backfill: (name) => ({ path: `${pathOf(name)}/backfill`, verb: "Backfill", about: `The past ticks of ${name} from the first to the last one run one after the other. Ticks that have run before run again.`, fields: ["from", "to"], done: backfilled }),
  again: (name, tick) => ({ path: `${pathOf(name)}/backfill`, verb: "Run again", about: `The tick ${tick} of ${name} runs once more, with the same tick.`, wish: { from: tick, to: tick }, done: backfilled }),
  forget: (name) => ({ path: `${pathOf(name)}/forget`, verb: "Forget", about: `${name} is deleted with its history and its waiting runs. If a scheduler still has it, it begins anew.`, done: () => "forgotten" }),
  "pause-all": () => ({ path: "api/all/pause", verb: "Pause all", about: "The ticks of all jobs are skipped until all jobs are resumed. Present runs continue.", fields: ["reason"], done: () => "paused" }),
  "resume-all": () => ({ path: "api/all/resume", verb: "Resume all", about: "The ticks of all jobs resume. Jobs that are paused by name stay paused.", done: resumed }),
  "pause-node": (node) => ({ path: `${nodePath(node)}/pause`, verb: "Pause node", about: `${node} claims no tick until it is resumed. Its present runs continue, and other nodes run its jobs.`, fields: ["reason"], done: () => "paused" }),
  "resume-node": (node) => ({ path: `${nodePath(node)}/resume`, verb: "Resume node", about: `${node} claims ticks again.`, done: resumed }),
  release: (name) => ({ path: `api/locks/${encodeURIComponent(name)}/release`, verb: "Release", about: `${name} is taken from its holder by force. The holder notices it at its next renewal, after a third of its ttl. Until then two clients believe that they hold the lock, and only their fences differ.`, done: ({ released }) => (released ? "released" : "was free") }),
  ...QUEUE_ACTS,
};

const nodePath = (node) => `api/nodes/${encodeURIComponent(node)}`;
const resumed = ({ resumed: was }) => (was ? "resumed" : "was not paused");
const backfilled = ({ ticks }) => `${ticks} ${ticks === 1 ? "tick is" : "ticks are"} requested`;

/** Opens the form for an action. */
function offer(what, name, tick) {
  const [dialog, form] = [$("#ask"), $("#ask form")];
  const act = ACTS[what](name, tick);
  form.reset();
  fill(dialog, { head: name ? `${act.verb}: ${name}` : act.verb, about: act.about, do: act.verb, wrong: "" });
  for (const field of ["reason", "from", "to"]) $(`[data-part="${field}"]`, dialog).hidden = !act.fields?.includes(field);
  $('[data-part="token"]', dialog).hidden = token !== undefined;
  form.onsubmit = (event) => {
    event.preventDefault();
    submit(dialog, form, name || "all jobs", act);
  };
  $('button[value="no"]', form).onclick = () => dialog.close();
  dialog.showModal();
}

async function submit(dialog, form, name, { path, fields = [], wish = {}, done }) {
  const key = token ?? form.token.value.trim();
  const wishes = { ...wish, ...Object.fromEntries(fields.map((field) => [field, form[field].value.trim()])) };
  fill(dialog, { wrong: "" });
  try {
    const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
    const answer = await ask(path, { method: "POST", headers, body: JSON.stringify(wishes) });
    token = key;
    dialog.close();
    showMessage(`${name}: ${done(answer.done)}`);
    pollJobs();
    if (path.startsWith("api/locks/")) pollLocks();
    if (path.startsWith("api/queues/")) pollQueues();
  } catch (trouble) {
    if (trouble.status === 401) token = undefined;
    $('[data-part="token"]', dialog).hidden = token !== undefined;
    fill(dialog, { wrong: trouble.status === 401 ? "This token is wrong." : describe(trouble) });
    if (trouble.status === 401) form.token.select();
  }
}

function showMessage(words) {
  const message = $("#message");
  put(message, words);
  message.dataset.on = "true";
  clearTimeout(showMessage.timer);
  showMessage.timer = setTimeout(() => (message.dataset.on = "false"), 5000);
}

// ---- Filtering

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

for (const part of ["#pause-all", "#node-acts", "#locks", "#queue"]) {
  $(part).addEventListener("click", ({ target: { dataset } }) => dataset?.act && offer(dataset.act, dataset.name ?? "", dataset.id));
}

$("#oldest").addEventListener("click", ({ currentTarget }) => goTo(currentTarget.dataset.job));
$("#hour svg").addEventListener("pointermove", (event) => showMinute(event.currentTarget, event));

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.matches("input, dialog *");
  if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  $("#filter").focus();
});

for (const name of location.hash.slice(1).split("&").filter(Boolean)) {
  try {
    open.set(decodeURIComponent(name), undefined);
  } catch {
    // This page did not write this fragment, so the fragment is ignored.
  }
}

/** Starts the page. If the URL names a job that is on another page of the list, only that job is shown. */
async function start() {
  await pollJobs();
  const [name] = open.keys();
  if (name !== undefined && known.isKnown && !known.jobs.some((job) => job.name === name)) goTo(name);
}

start();
pollStore();
pollLocks();
everySecond();
