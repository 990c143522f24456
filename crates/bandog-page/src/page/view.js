// Writes the content of the page. A text is replaced only if it has changed, so that focus and selection are kept.

import { HERE, ago, clock, collapse, seconds, span, state, until, words } from "./words.js";

export const $ = (selector, root = document) => root.querySelector(selector);

export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Sets the texts of elements. The keys of `texts` are the `data-f` names of the elements. */
export function fill(root, texts) {
  for (const [name, text] of Object.entries(texts)) put($(`[data-f="${name}"]`, root), text);
}

export function shape(element, name, tone = "") {
  const use = $("use", element);
  if (use.getAttribute("href") !== `#${name}`) use.setAttribute("href", `#${name}`);
  if (element.dataset.tone !== tone) element.dataset.tone = tone;
}

/** Gives `parent` one child for each item, in the order of the items. A child is kept if an item has the key of the
 * child. */
export function sync(parent, items, key, make, paint) {
  const old = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  const left = new Set(parent.children);
  let place = parent.firstElementChild;
  for (const item of items) {
    const child = old.get(key(item)) ?? make(item);
    left.delete(child);
    child.dataset.key = key(item);
    paint(child, item);
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
  }
  left.forEach((child) => child.remove());
}

const running = (job) => job.live.filter((run) => run.state === "running");
const at = (text) => Date.parse(text);

/** Updates the parts of a job's row that change with time. */
export function tickJob(row, job, now) {
  paintNext(row, job, now);
  const last = job.last;
  const lag = last?.lag_ms == null ? "" : ` · lag ${span(last.lag_ms)}`;
  const attempt = last?.attempt > 1 ? ` · attempt ${last.attempt}` : "";
  fill(row, { ago: last ? ago(Math.max(0, now - at(last.ended ?? last.due))) : "", lag: (lag + attempt).slice(3) });
  const [run] = running(job);
  const since = run && `for ${seconds(Math.max(0, Math.floor((now - at(run.started)) / 1000)))}`;
  const waits = job.queued > 0 ? `${job.queued} queued` : "";
  const tries = run?.attempt > 1 && `attempt ${run.attempt}`;
  fill(row, { since: [run?.cancelling && "cancelling", since, tries, waits].filter(Boolean).join(" · ") });
}

function paintNext(row, job, now) {
  const [lead, next] = [$(".next .lead", row), $("time", row)];
  const { name, tone, text } = nextFire(job, now);
  shape(lead, name, tone);
  put(next, text);
  if (job.next) next.dateTime = job.next;
  else next.removeAttribute("datetime");
  const zone = job.zone || HERE;
  const time = job.rests_until ? `the store's clock was ahead; until ${clock(at(job.rests_until), now, zone)}` : job.next ? clock(at(job.next), now, zone) : "";
  const paused = job.paused ?? job.all_paused;
  fill(row, { at: paused ? by(paused) : time });
  next.title = job.next ? `${clock(at(job.next), now, zone)} ${zone}\n${clock(at(job.next), now)} ${HERE}\n${job.next}` : "";
}

const by = (paused) => `by ${paused.by}${paused.reason ? `: ${paused.reason}` : ""}`;

/** The text about a job's next fire. */
function nextFire(job, now) {
  if (job.presence === "absent") return { name: "warn", tone: "warn", text: "no node has it" };
  if (!job.enabled) return { name: "none", tone: "quiet", text: "disabled" };
  if (job.paused) return { name: "hold", tone: "warn", text: "paused" };
  if (job.all_paused) return { name: "hold", tone: "warn", text: "all jobs paused" };
  if (job.rests_until) return { name: "warn", tone: "warn", text: "rests" };
  if (job.next) {
    const text = until(at(job.next) - now);
    return text.startsWith("overdue") ? { name: "warn", tone: "warn", text } : { name: "wait", tone: "", text };
  }
  const text = running(job).length > 0 ? "after this run" : "no more fires";
  return { name: "none", tone: "quiet", text };
}

/** Updates a job's row, without the parts that change with time. */
export function paintJob(item, job) {
  const row = $(".row", item);
  fill(row, { name: job.name, description: job.description || job.trigger });
  $(".sub", row).title = job.trigger;
  const last = job.last && state(job.last.state);
  const took = job.last?.started && job.last?.ended ? ` in ${span(at(job.last.ended) - at(job.last.started))}` : "";
  shape($(".state", row), last ? last.shape : "none", last ? last.tone : "quiet");
  fill(row, { state: last ? last.word + took : "never ran" });
  const [run, ...more] = running(job);
  const [name, tone] = run ? (run.orphaned ? ["warn", "warn"] : ["run", "live"]) : ["none", "quiet"];
  shape($(".now .lead", row), name, tone);
  const others = more.length > 0 ? ` and ${more.length} more` : "";
  fill(row, { node: run ? run.node + (run.orphaned ? ", which is dead" : "") + others : "idle" });
}

/** Updates the details of an opened job. */
export function paintInside(inside, job, acts, now) {
  const paused = $('[data-f="paused"]', inside);
  const pauses = [job.paused && ["Paused", job.paused], job.all_paused && ["All jobs are paused", job.all_paused]].filter(Boolean);
  paused.hidden = pauses.length === 0;
  put(paused, pauses.map(([what, { by: who, at: since, reason }]) => `${what} by ${who} since ${clock(at(since), now)}${reason ? `: ${reason}` : ""}`).join("; "));
  $('[data-part="acts"]', inside).hidden = !acts;
  $('[data-act="pause"]', inside).hidden = Boolean(job.paused);
  $('[data-act="resume"]', inside).hidden = !job.paused;
  $('[data-act="cancel"]', inside).disabled = job.live.length === 0 && job.queued === 0;
  const facts = {
    Trigger: job.trigger,
    Zone: job.zone || "",
    Overlap: words(job.overlap),
    "Catch up": words(job.catch_up),
    "On crash": words(job.on_crash),
    Lease: span(job.lease_ms),
    Watermark: job.watermark ? clock(at(job.watermark), now) : "",
    Runs: `${job.ok} ok, ${job.failed} failed, ${job.lost} lost, ${job.cancelled} cancelled`,
    Nodes: { absent: "no live node has this job", no_node: "no node is up" }[job.presence] ?? "",
    "Unknown since": job.unknown_since ? `${clock(at(job.unknown_since), now)}: no scheduler has this job` : "",
    Ticks: `${job.skipped} skipped, ${job.missed} missed`,
  };
  const known = Object.entries(facts).filter(([, text]) => text);
  sync($("dl", inside), known, ([name]) => name, makeFact, (fact, [, text]) => put($("dd", fact), text));
}

function makeFact([name]) {
  const fact = document.createElement("div");
  const term = document.createElement("dt");
  term.textContent = name;
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
  put(none, "No run is recorded yet.");
}

function makeRun({ same }) {
  const row = document.createElement("tr");
  for (const kind of ["", "", "num", "num", "num", "", "", "num", "note"]) row.insertCell().className = kind;
  row.cells[1].append(icon(), document.createElement("span"));
  row.cells[1].classList.add("state");
  row.cells[1].append(actButton("again", "", "Run again…"));
  if (same.length > 1) {
    const more = document.createElement("button");
    more.type = "button";
    more.className = "fold";
    row.cells[1].append(more);
  }
  return row;
}

function icon() {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("aria-hidden", "true");
  svg.append(document.createElementNS("http://www.w3.org/2000/svg", "use"));
  return svg;
}

function paintRun(row, job, { run, same, key, isPart }, now, unfolded, acts) {
  const cells = row.cells;
  const oldest = same.at(-1);
  row.classList.toggle("part", Boolean(isPart));
  const { shape: name, tone, word } = run.orphaned ? { shape: "warn", tone: "warn", word: "its node is dead" } : run.cancelling ? { shape: "run", tone: "warn", word: "cancelling" } : state(run.state);
  const tick = (text) => clock(at(text), now, job.zone || HERE);
  const from = same.length > 1 ? oldest.tick : run.from;
  put(cells[0], from && from !== run.tick ? `${tick(from)} to ${tick(run.tick)}` : tick(run.tick));
  cells[0].title = from ? `${from} to ${run.tick}` : run.tick;
  shape(cells[1], name, tone);
  put($("span", cells[1]), run.ticks > 1 ? `${run.ticks} ${word}` : run.retried ? `${word}, repeated` : word);
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
    more.title = "The same failure several times: show or hide each of them";
  }
  put(cells[2], run.lag_ms == null ? "" : span(run.lag_ms));
  const end = run.ended ? at(run.ended) : now;
  put(cells[3], run.started ? (run.ended ? span(end - at(run.started)) : seconds(Math.max(0, Math.floor((end - at(run.started)) / 1000)))) : "");
  put(cells[4], run.attempt ? String(run.attempt) : "");
  put(cells[5], words(run.kind));
  put(cells[6], run.node ?? "");
  put(cells[7], run.fence == null ? "" : String(run.fence));
  note(cells[8], [run.error, run.note].filter(Boolean).join("\n"));
}

/**
 * The fences that the holder's grant reserved: the first one, and the number of the others, as `bandog ls` prints them.
 * The holder has one of these fences. If the lock goes to another caller in the same process, that caller gets the next
 * fence.
 */
function fences(lock) {
  if (lock.fence == null) return "–";
  return lock.fence_to == null || lock.fence_to === lock.fence ? String(lock.fence) : `${lock.fence}+${lock.fence_to - lock.fence}`;
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

/** Updates the list of the nodes that run jobs, and of the pauses. */
export function paintNodes({ running, pauses }) {
  const all = running.map(({ node, zones, paused }) => node + (zones ? ` (time zones ${zones})` : "") + (paused ? `, paused ${by(paused)}` : ""));
  const tables = new Set(running.map(({ zones }) => zones).filter(Boolean));
  const lines = [all.length > 0 ? `Schedulers: ${all.join(" · ")}` : "No scheduler runs now, so no job runs."];
  if (tables.size > 1) lines.push("Their tables of time zones differ: jobs in zones that have changed can have different ticks.");
  if (pauses.all) lines.push(`All jobs are paused ${by(pauses.all)}`);
  const element = $("#nodes");
  element.hidden = false;
  put(element, lines.join("\n"));
}

/** Updates the buttons that pause and resume all jobs and the nodes. A paused node is listed although it does not run. */
export function paintNodeActs({ running, pauses }, acts) {
  const all = $("#pause-all");
  all.hidden = !acts;
  all.dataset.act = pauses.all ? "resume-all" : "pause-all";
  put(all, pauses.all ? "Resume all…" : "Pause all…");
  const paused = Object.keys(pauses.nodes ?? {});
  const nodes = [...new Set([...running.map(({ node }) => node), ...paused])].sort();
  const list = $("#node-acts");
  list.hidden = !acts || nodes.length === 0;
  sync(list, acts ? nodes : [], (node) => node, makeNodeAct, (item, node) => {
    const button = item.firstElementChild;
    const isPaused = paused.includes(node);
    button.dataset.act = isPaused ? "resume-node" : "pause-node";
    put(button, `${isPaused ? "Resume" : "Pause"} ${node}…`);
  });
}

function makeNodeAct(node) {
  const item = document.createElement("li");
  item.append(actButton("pause-node", node));
  return item;
}

function actButton(act, name, text = "") {
  const button = document.createElement("button");
  button.type = "button";
  Object.assign(button.dataset, { act, name });
  button.textContent = text;
  return button;
}

/** The kind of a lock. For a semaphore, the text has the number of permits in use, and for a latch its count. */
function kind({ kind, limit, count, holders }) {
  if (count != null) return `${kind}, count ${count}`;
  if (limit == null) return kind ?? "–";
  return `${kind}, ${holders.reduce((sum, { permits }) => sum + (permits ?? 0), 0)} of ${limit}`;
}

/** One holder of a lock, and what it holds if the kind can have several holders. */
function holderText({ holder, owner, mode, permits }, limit) {
  const client = holder ? `${holder.program} (process ${holder.pid} on ${holder.host})` : (owner ?? "unknown");
  return client + (mode ? (mode === "read" ? ", as a reader" : ", as the writer") : permits ? `, ${permits} of ${limit}` : "");
}

/** Time until a lock expires. A latch has no holder, and never expires. */
function expiry({ held, ttl_ms }, age) {
  if (!held) return "–";
  return ttl_ms == null ? "never" : span(Math.max(0, ttl_ms - age));
}

/** Updates the table of the locks that are held, and of the latches that are not open. */
export function paintLocks(locks, age, acts) {
  sync($("#locks tbody"), locks, (lock) => lock.name, makeLock, (row, lock) => {
    const [first, ...others] = lock.holders;
    const holder = (lock.held ? holderText(first ?? lock, lock.limit) : "–") + (others.length ? `, and ${others.length} more` : "");
    row.cells[2].title = others.length ? lock.holders.map((each) => holderText(each, lock.limit)).join("\n") : "";
    const texts = [lock.name, kind(lock), holder, fences(lock), expiry(lock, age), String(lock.waiters.length || "–")];
    texts.forEach((text, place) => put(row.cells[place], text));
    // A latch has no holder, so it cannot be released.
    row.cells[6].firstElementChild.hidden = !acts || !lock.held;
    row.cells[3].title = lock.fence_to > lock.fence ? `from ${lock.fence} to ${lock.fence_to}` : "";
  });
}

function makeLock({ name: lock }) {
  const row = document.createElement("tr");
  const name = document.createElement("th");
  name.scope = "row";
  row.append(name);
  for (const align of ["", "", "num", "num", "num", "num"]) row.insertCell().className = align;
  row.cells[6].append(actButton("release", lock, "Release…"));
  ["", "Kind", "Holder", "Fence", "Expires in", "Waiting"].forEach((label, place) => (row.cells[place].dataset.label = label));
  return row;
}
