// The work queues: a list, and one opened queue with its workers, its elements in flight and its dead elements.

import { queuePath } from "./acts.js";
import { $, actButton, makeRow, put, sync } from "./dom.js";
import { QUEUE_CHARTS } from "./history.js";
import { count } from "./nav.js";
import { number, t } from "./text.js";
import { ago, span } from "./words.js";

const INTERVAL = 5000; // Minimum interval between two polls, in ms.
const ROWS = 100; // Maximum number of queues in the list, as on the server.
const MANY = 100000; // The server counts the elements in a phase up to this number.

// The newest answers. `open` is the name of the opened queue.
const shown = { name: "", open: undefined, queues: [], total: 0, taken: [], dead: [], more: {}, read: 0, trouble: undefined };
let page; // Requests, the time by the server's clock, whether the page accepts actions, and how often the list is read.
let request = 0; // The number of the newest poll. Answers to earlier ones are ignored.
let timer;
let typing;

/** Starts the list. `of` has functions: `ask` sends a request, `now` is the time by the server's clock, `acts` says whether
 * the page accepts actions, `pause` is the interval between two polls, and `opened` is called when a queue is opened. */
export function startQueues(of) {
  page = of;
  $("#api-queues").hidden = false;
  $("#queues-filter").addEventListener("input", ({ target }) => {
    shown.name = target.value.trim();
    clearTimeout(typing);
    typing = setTimeout(pollQueues, 300);
  });
  $(".queues tbody").addEventListener("click", ({ target }) => {
    const name = target.closest("button")?.dataset.queue;
    if (name === undefined) return;
    openQueue(shown.open === name ? undefined : name);
    page.opened();
  });
  pollQueues();
}

/** The name of the opened queue, or undefined. */
export const openedQueue = () => shown.open;

/** Opens a queue, or none. */
export function openQueue(name) {
  if (name === shown.open) return;
  Object.assign(shown, { open: name, opened: undefined, taken: [], dead: [], more: {} });
  for (const place of QUEUE_CHARTS) $(place).hidden = true; // They are those of the queue before.
  paintQueues();
  pollQueues();
}

/** Polls the list and the opened queue. */
export async function pollQueues() {
  if (!page) return;
  clearTimeout(timer);
  const poll = ++request;
  const begun = performance.now();
  const { open, name } = shown;
  const queries = [page.ask(`api/queues?${new URLSearchParams({ name, limit: ROWS })}`)];
  if (open !== undefined) {
    queries.push(page.ask(queuePath(open)));
    for (const phase of ["taken", "dead"]) queries.push(page.ask(`${queuePath(open)}/elements?phase=${phase}`));
  }
  const answers = await Promise.allSettled(queries);
  if (poll !== request) return; // A newer poll has begun.
  const [list, one, taken, dead] = answers.map(({ value }) => value);
  if (list) Object.assign(shown, { queues: list.queues, total: list.total, read: Date.parse(list.at) });
  if (list && !name) count("queues", list.total);
  if (one) shown.opened = one.queue;
  if (taken) Object.assign(shown, { taken: taken.elements, more: { ...shown.more, taken: taken.next != null } });
  if (dead) Object.assign(shown, { dead: dead.elements, more: { ...shown.more, dead: dead.next != null } });
  shown.trouble = answers.find(({ reason }) => reason && reason.status !== 429)?.reason;
  paintQueues();
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(pollQueues, Math.max(page.pause(INTERVAL), 4 * (performance.now() - begun)));
}

const figure = (value) => (value ? (value >= MANY ? t("queues.many") : number(value)) : "–");

function settings({ paused, concurrency, rate }) {
  const parts = [paused && t("queue.paused"), concurrency && t("queue.at-most", { count: concurrency }), rate && t("queue.rate", { count: rate.deliveries, span: span(rate.per_ms) })];
  const known = parts.filter(Boolean);
  return known.length ? known.reduce((first, second) => t("list.and", { first, second })) : "–";
}

/** Updates the list and the opened queue. */
export function paintQueues() {
  if (!page || (!shown.read && !shown.trouble)) return;
  const { queues, total, read, trouble } = shown;
  const message = trouble?.message;
  put($("#queues-age"), !trouble ? "" : read ? t("queues.as-of", { message, ago: ago(Math.max(0, page.now() - read)) }) : t("objects.not-read", { message }));
  sync($(".queues tbody"), queues, ({ name }) => name, makeQueue, (row, queue) => {
    const rate = queue.done_per_second;
    const texts = ["ready", "delayed", "blocked", "taken", "dead"].map((phase) => figure(queue[phase]));
    texts.push(queue.oldest_ms == null ? "–" : span(queue.oldest_ms));
    texts.push(rate == null ? "–" : t("queues.per-second", { rate: number(rate, { maximumFractionDigits: 1 }) }));
    texts.push(figure(queue.workers.length), settings(queue));
    texts.forEach((text, place) => put(row.cells[place + 1], text));
    row.firstElementChild.firstElementChild.setAttribute("aria-expanded", String(queue.name === shown.open));
    row.cells[7].title = t(rate == null ? "queues.per-second.soon" : "queues.per-second.about");
  });
  $(".queues").hidden = queues.length === 0;
  const none = $("#no-queues");
  none.hidden = queues.length > 0;
  put(none, read ? t(shown.name ? "queues.none-match" : "queues.none") : "\u00a0");
  const more = total - queues.length;
  put($("#more-queues"), more > 0 ? t("queues.more", { count: number(more) }) : "");
  paintOpened();
}

function paintOpened() {
  const { opened, open, taken, dead, more } = shown;
  $("#queue").hidden = !opened;
  if (!opened) return;
  put($("#queue-name"), open);
  const acts = page.acts() ? [opened.paused ? ["resume-queue", "act.resume"] : ["pause-queue", "act.pause"], ...(opened.dead ? [["retry-all", "act.retry-all"]] : [])] : [];
  sync($("#queue-acts"), acts, ([act]) => `${act} ${open}`, ([act, key]) => actButton(act, open, t(key)), () => {});
  sync($("#queue-workers tbody"), opened.workers, ({ id }) => id, () => makeRow(["num", "num", "num", "num"]), (row, { place, slots, running, done, failed }) => {
    fillRow(row, [place, ...[slots, running, done, failed].map((value) => number(value))]);
  });
  sync($("#queue-taken tbody"), taken, ({ id, fence }) => `${open} ${id} ${fence}`, ({ id }) => makeActs(["", "num", "num", "num", "note", "note", ""], ["remove"], id), (row, element) => {
    const { id, worker, place, attempt, fence, age_ms: age, progress, cancelled } = element;
    fillRow(row, [id, place ?? worker ?? "", String(attempt), String(fence ?? "–"), age == null ? "" : span(age), payload(element), progressText(cancelled, progress)]);
    row.lastElementChild.hidden = !page.acts();
  });
  sync($("#queue-dead tbody"), dead, ({ id }) => `${open} ${id}`, ({ id }) => makeActs(["num", "num", "note", "note", ""], ["retry", "remove"], id), (row, element) => {
    fillRow(row, [element.id, String(element.attempt), element.age_ms == null ? "" : span(element.age_ms), payload(element), element.error ?? ""]);
    row.lastElementChild.hidden = !page.acts();
  });
  for (const [table, rows] of [["workers", opened.workers], ["taken", taken], ["dead", dead]]) $(`#queue-${table}`).hidden = rows.length === 0;
  const notes = [!opened.workers.length && t("queue.no-worker"), (more.taken || more.dead) && t("queue.first-only", { name: open })];
  put($("#queue-note"), notes.filter(Boolean).join(" "));
}

function progressText(cancelled, progress) {
  if (!cancelled) return progress ?? "";
  return progress ? t("queue.progress", { state: t("queue.cancelled"), progress }) : t("queue.cancelled");
}

/** A payload: its text or its bytes, of which the server sends the beginning. */
function payload({ payload: text, payload_hex: hex, payload_bytes: bytes }) {
  const start = text ?? `0x${hex}`;
  const whole = text == null ? hex.length / 2 >= bytes : new TextEncoder().encode(text).length >= bytes;
  return whole ? start : t("queue.bytes", { start, count: number(bytes) });
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

function makeActs(kinds, acts, id) {
  const row = makeRow(kinds);
  row.lastElementChild.append(...acts.map((act) => actButton(act, shown.open, t(`act.${act}`), id)));
  return row;
}
