// What the page knows, when it asks for more, and what is done from it.

import { ago, clock, isBad, seconds } from "./words.js";
import { $, fill, paintInside, paintJob, paintLocks, paintNodes, paintRuns, put, shape, sync, tickJob } from "./view.js";

const PAUSE = 2000; // Between two looks, in ms; more where a look takes long.
const PATIENCE = 15000; // For one answer.
const ROWS = 200; // More are shown when they are asked for.

const known = { jobs: [], locks: [], read: 0, locksRead: 0, ahead: 0, isKnown: false, acts: false, trouble: undefined };
const shown = { chip: "all", filter: "", most: ROWS };
const open = new Map(); // Job's name -> its runs.
let token; // Only here, and gone with the page.
let timer;

const now = () => Date.now() + known.ahead;

async function ask(path, init = {}) {
  const limit = new AbortController();
  const patience = setTimeout(() => limit.abort(), PATIENCE);
  try {
    const reply = await fetch(path, { ...init, signal: limit.signal, credentials: "omit", cache: "no-store" });
    const body = await reply.json();
    if (!reply.ok) throw Object.assign(new Error(body.error.message), { status: reply.status });
    known.ahead = Date.parse(body.now) - Date.now();
    return body;
  } finally {
    clearTimeout(patience);
  }
}

// ---- Looking

async function look() {
  clearTimeout(timer);
  const begun = performance.now();
  const names = [...open.keys()];
  const questions = [ask("api/jobs"), ask("api/locks"), ask("api/nodes"), ...names.map((name) => ask(`${pathOf(name)}/history`))];
  if (!known.version) questions.push(ask("api/about").then(introduce));
  const answers = await Promise.allSettled(questions);
  const [jobs, locks, nodes, ...runs] = answers;
  if (jobs.value) Object.assign(known, { jobs: jobs.value.jobs, read: Date.parse(jobs.value.at), isKnown: true });
  if (locks.value) Object.assign(known, { locks: locks.value.locks, locksRead: Date.parse(locks.value.at) });
  if (nodes.value) known.nodes = nodes.value.nodes;
  names.forEach((name, place) => runs[place].value && open.has(name) && open.set(name, runs[place].value.runs));
  // The runs of a job that was forgotten meanwhile are no trouble.
  known.trouble = answers.find(({ reason }) => reason && reason.status !== 404)?.reason;
  paint();
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(look, Math.max(PAUSE, 4 * (performance.now() - begun)));
}

const pathOf = (name) => `api/jobs/${encodeURIComponent(name)}`;

function introduce(about) {
  Object.assign(known, { version: about.version, acts: about.acts });
  fill(document, {
    store: about.store,
    version: `bandog ${about.version}`,
    rights: about.acts ? "To run, pause, resume or cancel takes the token." : "For looking only. Start bandog with --http-token-file to run, pause, resume and cancel from here.",
  });
}

document.addEventListener("visibilitychange", () => !document.hidden && look());

// ---- Showing

const IS = {
  all: () => true,
  running: (job) => job.live.some((run) => run.state === "running"),
  paused: (job) => Boolean(job.paused || job.all_paused),
  failing: (job) => isBad(job.last),
};

function paint() {
  paintLink();
  paintChips();
  paintJobs();
  if (known.nodes) paintNodes(known.nodes);
  paintLocks(known.locks, now() - known.locksRead);
  $("#locks").hidden = known.locks.length === 0;
  $("#no-locks").hidden = known.locks.length > 0;
  put($("#no-locks"), known.locksRead ? "Nobody holds a lock now." : "\u00a0");
  put($("#lock-count"), known.locks.length ? String(known.locks.length) : "");
}

function paintLink() {
  const { trouble, isKnown } = known;
  const link = $("#link");
  link.dataset.state = trouble ? "away" : "live";
  shape(link, trouble ? "warn" : "ok", trouble ? "warn" : "good");
  fill(link, { link: trouble ? (isKnown ? `Data of ${clock(known.read, now())}` : "No data yet") : "Live" });
  document.body.dataset.stale = String(Boolean(trouble));
  const said = $("#trouble");
  said.hidden = !trouble;
  if (trouble) put(said, describe(trouble) + (isKnown ? " Below is what was known last." : ""));
}

function describe(trouble) {
  if (trouble.status === 503) return `The store does not answer: ${trouble.message}.`;
  if (trouble.status) return `bandog refuses: ${trouble.message}.`;
  return "bandog itself does not answer: it was stopped, or the way to it is cut.";
}

function paintChips() {
  for (const chip of document.querySelectorAll("[data-chip]")) {
    const name = chip.dataset.chip;
    chip.setAttribute("aria-pressed", String(name === shown.chip));
    put($("b", chip), known.isKnown ? String(known.jobs.filter(IS[name]).length) : "–");
  }
}

function paintJobs() {
  if (!known.isKnown) return;
  const wanted = known.jobs.filter(IS[shown.chip]).filter((job) => job.name.toLowerCase().includes(shown.filter));
  wanted.sort((a, b) => (a.name < b.name ? -1 : 1));
  const list = $("#jobs");
  list.setAttribute("aria-busy", "false");
  sync(list, wanted.slice(0, shown.most), (job) => job.name, makeJob, (item, job) => {
    item.job = job;
    paintJob(item, job);
    paintOpen(item, job);
  });
  tick();
  list.hidden = wanted.length === 0;
  const none = $("#no-jobs");
  none.hidden = wanted.length > 0;
  put(none, known.jobs.length ? "No job is like that." : "No job is known to this store yet. It appears here when a scheduler with jobs has started.");
  const more = $("#more");
  more.hidden = wanted.length <= shown.most;
  put(more, `Show all ${wanted.length}`);
}

function makeJob() {
  const item = $("#job").content.firstElementChild.cloneNode(true);
  $("h3 button", item).addEventListener("click", () => toggle(item));
  return item;
}

function toggle(item) {
  const { name } = item.job;
  if (open.has(name)) open.delete(name);
  else open.set(name, undefined);
  remember();
  paintOpen(item, item.job);
  if (open.has(name)) look();
}

function paintOpen(item, job) {
  const [button, inside, isOpen] = [$("h3 button", item), $(".inside", item), open.has(job.name)];
  button.setAttribute("aria-expanded", String(isOpen));
  inside.hidden = !isOpen;
  if (!isOpen) return inside.replaceChildren();
  if (!inside.firstElementChild) {
    inside.append($("#inside").content.cloneNode(true));
    inside.addEventListener("click", ({ target }) => target.dataset?.act && offer(item.job, target.dataset.act));
  }
  paintInside(inside, job, known.acts, now());
  const runs = open.get(job.name);
  if (runs) paintRuns(inside, job, runs, now());
}

/** What changes with the time. */
function tick() {
  for (const item of $("#jobs").children) if (item.job) tickJob($(".row", item), item.job, now());
  const age = now() - known.read;
  if (known.isKnown && known.trouble) fill($("#link"), { link: `Data of ${clock(known.read, now())}, ${ago(age)}` });
  document.title = known.trouble ? "bandog – no answer" : "bandog";
}

function everySecond() {
  tick();
  paintLocks(known.locks, now() - known.locksRead);
  setTimeout(everySecond, 1000 - (now() % 1000));
}

/** Which jobs are open stands behind the #, so that a link leads to them. */
function remember() {
  history.replaceState(null, "", open.size ? `#${[...open.keys()].map(encodeURIComponent).join("&")}` : location.pathname);
}

// ---- Doing

const ACTS = {
  run: (name) => ["Run now", `${name} runs once more, beside its ticks.`, ({ id }) => `run ${id} is asked for`],
  pause: (name) => ["Pause", `The ticks of ${name} are skipped until it is resumed. Runs at work go on.`, () => "paused"],
  resume: (name) => ["Resume", `The ticks of ${name} count again.`, ({ resumed }) => (resumed ? "goes on" : "was not paused")],
  cancel: (name) => ["Cancel runs", `All runs of ${name} that are at work or wait are cancelled.`, ({ ids }) => (ids.length ? `told to cancel run ${ids.join(", ")}` : "no run was there to cancel")],
};

function offer(job, act) {
  const [dialog, form] = [$("#ask"), $("#ask form")];
  const [verb, about, done] = ACTS[act](job.name);
  form.reset();
  fill(dialog, { head: `${verb}: ${job.name}`, about, do: verb, wrong: "" });
  $('[data-part="reason"]', dialog).hidden = act !== "pause";
  $('[data-part="token"]', dialog).hidden = token !== undefined;
  form.onsubmit = (event) => {
    event.preventDefault();
    submit(dialog, form, job.name, act, done);
  };
  $('button[value="no"]', form).onclick = () => dialog.close();
  dialog.showModal();
}

async function submit(dialog, form, name, act, done) {
  const key = token ?? form.token.value.trim();
  const wish = act === "pause" ? { reason: form.reason.value } : {};
  fill(dialog, { wrong: "" });
  try {
    const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
    const answer = await ask(`${pathOf(name)}/${act}`, { method: "POST", headers, body: JSON.stringify(wish) });
    token = key;
    dialog.close();
    tell(`${name}: ${done(answer.done)}`);
    look();
  } catch (trouble) {
    if (trouble.status === 401) token = undefined;
    $('[data-part="token"]', dialog).hidden = token !== undefined;
    fill(dialog, { wrong: trouble.status === 401 ? "That is not the token." : describe(trouble) });
    if (trouble.status === 401) form.token.select();
  }
}

function tell(words) {
  const told = $("#told");
  put(told, words);
  told.dataset.on = "true";
  clearTimeout(tell.timer);
  tell.timer = setTimeout(() => (told.dataset.on = "false"), 5000);
}

// ---- Choosing

for (const chip of document.querySelectorAll("[data-chip]")) {
  chip.addEventListener("click", () => {
    shown.chip = chip.dataset.chip;
    paintChips();
    paintJobs();
  });
}

$("#filter").addEventListener("input", ({ target }) => {
  shown.filter = target.value.trim().toLowerCase();
  paintJobs();
});

$("#more").addEventListener("click", () => {
  shown.most = Infinity;
  paintJobs();
});

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
    // Not one of ours.
  }
}
look();
everySecond();
