// The work queues: a list, and one opened queue with its workers, its elements in flight and its dead elements.

import { $, put, sync } from "./view.js";
import { ago, span } from "./words.js";

const INTERVAL = 5000; // Minimum interval between two polls, in ms.
const ROWS = 100; // Maximum number of queues in the list, as on the server.

// The newest answers. `open` is the name of the opened queue.
const shown = { name: "", open: undefined, queues: [], total: 0, taken: [], dead: [], more: {}, read: 0, trouble: undefined };
let page; // Requests, the time by the server's clock, and whether the page accepts actions.
let request = 0; // The number of the newest poll. Answers to earlier ones are ignored.
let timer;
let typing;

const pathOf = (name) => `api/queues/${encodeURIComponent(name)}`;
const count = (number, what) => `${number} ${what}${number === 1 ? "" : "s"}`;
const retried = ({ retried: number }) => (number ? `${count(number, "element")} ready again` : "no such element is dead");

/** The actions on a queue and its elements, as those on jobs. */
export const QUEUE_ACTS = {
  "pause-queue": (name) => ({ path: `${pathOf(name)}/pause`, verb: "Pause queue", about: `No element of ${name} is delivered until it is resumed. Elements in flight continue.`, done: () => "paused" }),
  "resume-queue": (name) => ({ path: `${pathOf(name)}/resume`, verb: "Resume queue", about: `Elements of ${name} are delivered again.`, done: ({ resumed }) => (resumed ? "resumed" : "was not paused") }),
  "retry-all": (name) => ({ path: `${pathOf(name)}/retry`, verb: "Retry all", about: `All dead elements of ${name} become ready again, with no attempts.`, done: retried }),
  "retry-one": (name, id) => ({ path: `${pathOf(name)}/retry`, verb: "Retry", about: `The element ${id} becomes ready again, with no attempts.`, wish: { ids: [id] }, done: retried }),
  "remove-one": (name, id) => ({ path: `${pathOf(name)}/remove`, verb: "Remove", about: `The element ${id} is removed. If a worker has it, its handler is stopped.`, wish: { ids: [id] }, done: ({ removed }) => (removed ? "removed" : "is not in the queue any more") }),
};

/** Starts the list. `ask` sends a request, `now` is the time by the server's clock, and `acts` says whether the page accepts
 * actions. */
export function startQueues(ask, now, acts) {
  page = { ask, now, acts };
  $("#queues").hidden = false;
  $("#api-queues").hidden = false;
  $("#queues-filter").addEventListener("input", ({ target }) => {
    shown.name = target.value.trim();
    clearTimeout(typing);
    typing = setTimeout(pollQueues, 300);
  });
  $(".queues tbody").addEventListener("click", ({ target }) => {
    const name = target.closest("button")?.dataset.queue;
    if (name === undefined) return;
    Object.assign(shown, { open: shown.open === name ? undefined : name, opened: undefined, taken: [], dead: [], more: {} });
    paintQueues();
    pollQueues();
  });
  pollQueues();
}

/** Polls the list and the opened queue. */
export async function pollQueues() {
  if (!page) return;
  clearTimeout(timer);
  const number = ++request;
  const begun = performance.now();
  const { open, name } = shown;
  const queries = [page.ask(`api/queues?${new URLSearchParams({ name, limit: ROWS })}`)];
  if (open !== undefined) {
    queries.push(page.ask(pathOf(open)));
    for (const phase of ["taken", "dead"]) queries.push(page.ask(`${pathOf(open)}/elements?phase=${phase}`));
  }
  const answers = await Promise.allSettled(queries);
  if (number !== request) return; // A newer poll has begun.
  const [list, one, taken, dead] = answers.map(({ value }) => value);
  if (list) Object.assign(shown, { queues: list.queues, total: list.total, read: Date.parse(list.at) });
  if (one) shown.opened = one.queue;
  if (taken) Object.assign(shown, { taken: taken.elements, more: { ...shown.more, taken: taken.next != null } });
  if (dead) Object.assign(shown, { dead: dead.elements, more: { ...shown.more, dead: dead.next != null } });
  shown.trouble = answers.find(({ reason }) => reason && reason.status !== 429)?.reason;
  paintQueues();
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(pollQueues, Math.max(INTERVAL, 4 * (performance.now() - begun)));
}

const figure = (number) => (number ? (number >= 100000 ? "≥ 100,000" : number.toLocaleString("en-GB")) : "–");

function settings({ paused, concurrency, rate }) {
  const words = [paused && "paused", concurrency && `at most ${concurrency} at a time`, rate && `${rate.deliveries} per ${span(rate.per_ms)}`];
  return words.filter(Boolean).join(", ") || "–";
}

/** Updates the list and the opened queue. */
export function paintQueues() {
  if (!page || (!shown.read && !shown.trouble)) return;
  const { queues, total, read, trouble } = shown;
  put($("#queue-count"), total ? total.toLocaleString("en-GB") : "");
  put($("#queues-age"), trouble ? `Not read: ${trouble.message}${read ? ` As of ${ago(Math.max(0, page.now() - read))}` : ""}` : "");
  sync($(".queues tbody"), queues, ({ name }) => name, makeQueue, (row, queue) => {
    const rate = queue.done_per_second;
    const texts = ["ready", "delayed", "blocked", "taken", "dead"].map((phase) => figure(queue[phase]));
    texts.push(queue.oldest_ms == null ? "–" : span(queue.oldest_ms), rate == null ? "–" : `${rate.toLocaleString("en-GB", { maximumFractionDigits: 1 })}/s`);
    texts.push(figure(queue.workers.length), settings(queue));
    texts.forEach((text, place) => put(row.cells[place + 1], text));
    row.firstElementChild.firstElementChild.setAttribute("aria-expanded", String(queue.name === shown.open));
    row.cells[7].title = rate == null ? "Known after 20 s" : "By the reports of the workers, in the last minute";
  });
  $(".queues").hidden = queues.length === 0;
  const none = $("#no-queues");
  none.hidden = queues.length > 0;
  put(none, read ? (shown.name ? "No queue matches." : "There is no work queue.") : "\u00a0");
  const more = total - queues.length;
  put($("#more-queues"), more > 0 ? `and ${more.toLocaleString("en-GB")} more: filter by name, or bandog queues` : "");
  paintOpened();
}

function paintOpened() {
  const { opened, open, taken, dead, more } = shown;
  $("#queue").hidden = !opened;
  if (!opened) return;
  put($("#queue-name"), open);
  const acts = page.acts() ? [opened.paused ? ["resume-queue", "Resume…"] : ["pause-queue", "Pause…"], ...(opened.dead ? [["retry-all", "Retry all dead elements…"]] : [])] : [];
  sync($("#queue-acts"), acts, ([act]) => `${act} ${open}`, ([act, text]) => button(act, text), () => {});
  sync($("#queue-workers tbody"), opened.workers, ({ id }) => id, () => makeRow(["num", "num", "num", "num"]), (row, { place, slots, running, done, failed }) => {
    fillRow(row, [place, ...[slots, running, done, failed].map((number) => number.toLocaleString("en-GB"))]);
  });
  sync($("#queue-taken tbody"), taken, ({ id, fence }) => `${open} ${id} ${fence}`, ({ id }) => makeRow(["", "num", "num", "num", "note", "note", ""], [["remove-one", "Remove…", id]]), (row, element) => {
    const { id, worker, place, attempt, fence, age_ms: age, progress, cancelled } = element;
    fillRow(row, [id, place ?? worker ?? "", String(attempt), String(fence ?? "–"), age == null ? "" : span(age), payload(element), [cancelled && "cancelled", progress].filter(Boolean).join(": ")]);
    row.lastElementChild.hidden = !page.acts();
  });
  sync($("#queue-dead tbody"), dead, ({ id }) => `${open} ${id}`, ({ id }) => makeRow(["num", "num", "note", "note", ""], [["retry-one", "Retry…", id], ["remove-one", "Remove…", id]]), (row, element) => {
    fillRow(row, [element.id, String(element.attempt), element.age_ms == null ? "" : span(element.age_ms), payload(element), element.error ?? ""]);
    row.lastElementChild.hidden = !page.acts();
  });
  for (const [table, rows] of [["workers", opened.workers], ["taken", taken], ["dead", dead]]) $(`#queue-${table}`).hidden = rows.length === 0;
  const notes = [!opened.workers.length && "No worker has reported in the last minute.", (more.taken || more.dead) && `Only the first elements are shown: bandog queue '${open}' ls, or dead, has all.`];
  put($("#queue-note"), notes.filter(Boolean).join(" "));
}

/** A payload: its text or its bytes, of which the server sends the beginning. */
function payload({ payload: text, payload_hex: hex, payload_bytes: bytes }) {
  const start = text ?? `0x${hex}`;
  const whole = text == null ? hex.length / 2 >= bytes : new TextEncoder().encode(text).length >= bytes;
  return whole ? start : `${start}… (${bytes.toLocaleString("en-GB")} bytes)`;
}

function fillRow(row, texts) {
  texts.forEach((text, place) => put(row.cells[place], text));
}

function makeQueue({ name }) {
  const row = makeRow(["num", "num", "num", "num", "num", "num", "num", "num", ""]);
  const open = document.createElement("button");
  open.type = "button";
  open.dataset.queue = name;
  open.textContent = name;
  row.firstElementChild.append(open);
  return row;
}

function makeRow(kinds, acts = []) {
  const row = document.createElement("tr");
  const name = document.createElement("th");
  name.scope = "row";
  row.append(name);
  for (const kind of kinds) row.insertCell().className = kind;
  row.lastElementChild.append(...acts.map((act) => button(...act)));
  return row;
}

function button(act, text, id = "") {
  const element = document.createElement("button");
  element.type = "button";
  Object.assign(element.dataset, { act, name: shown.open, id });
  element.textContent = text;
  return element;
}
