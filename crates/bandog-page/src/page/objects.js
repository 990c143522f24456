// The list of objects. It is read when the user asks for it, because most names of a store may be those of other programs.

import { $, put, sync } from "./view.js";
import { ago, span } from "./words.js";

// The cursors of the pages up to the shown one, the answer for this page, and the time of the answer.
const shown = { cursors: [""], name: "", objects: [], caches: [], next: null, read: 0 };
let request = 0; // The number of the newest request. Answers to earlier ones are ignored.
let typing;

/** Starts the list. `ask` sends a request, and `now` is the time by the server's clock. */
export function startObjects(ask, now) {
  const read = (cursors) => readPage(cursors, ask, now);
  $("#objects").hidden = false;
  $("#api-objects").hidden = false;
  $("#objects-read").addEventListener("click", () => read(shown.cursors));
  $("#objects-back").addEventListener("click", () => read(shown.cursors.slice(0, -1)));
  $("#objects-forth").addEventListener("click", () => read([...shown.cursors, shown.next]));
  $("#objects-filter").addEventListener("input", ({ target }) => {
    shown.name = target.value.trim();
    clearTimeout(typing);
    typing = setTimeout(() => read([""]), 300);
  });
  read([""]);
}

async function readPage(cursors, ask, now) {
  const number = ++request;
  $("#objects").setAttribute("aria-busy", "true");
  for (const button of ["#objects-back", "#objects-forth"]) $(button).disabled = true;
  try {
    const answer = await ask(`api/objects?${new URLSearchParams({ name: shown.name, cursor: cursors.at(-1) })}`);
    if (number !== request) return; // The user has requested another page in the meantime.
    if (cursors.length === 1) shown.caches = answer.caches;
    Object.assign(shown, { cursors, objects: answer.objects, next: answer.next, read: Date.parse(answer.at), trouble: undefined });
  } catch (trouble) {
    if (number !== request) return;
    shown.trouble = trouble;
  }
  $("#objects").setAttribute("aria-busy", "false");
  paintObjects(now());
}

/** Updates the list, and the texts that change with the time. */
export function paintObjects(now) {
  const { cursors, objects, next, read, trouble } = shown;
  if (!read && !trouble) return;
  const age = now - read;
  const failed = trouble && `Not read: ${trouble.message}`;
  put($("#objects-age"), [failed, read && `As of ${ago(Math.max(0, age))}`].filter(Boolean).join(". "));
  paintCaches(age);
  const isPart = cursors.length > 1 || next != null; // A scan finds the entries of a cache everywhere.
  // A scan of Redis may return a name twice.
  const rows = [...new Map(objects.map((object) => [object.name, object])).values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  sync($("#objects tbody"), rows, ({ name }) => name, makeObject, (row, { name, type, size, ttl_ms: ttl }) => {
    const expiry = ttl == null ? "never" : ttl > age ? span(ttl - age) : "expired";
    const number = size.toLocaleString("en-GB") + (type === "cache" && isPart ? " in this part" : "");
    [name, type, number, type === "cache" ? "each entry" : expiry].forEach((text, place) => put(row.cells[place], text));
  });
  $("#objects table").hidden = rows.length === 0;
  const none = $("#no-objects");
  none.hidden = rows.length > 0;
  const names = shown.name ? "No object matches" : "There is no object";
  put(none, read ? names + (next == null ? (cursors.length > 1 ? " among the last names." : ".") : " among these names. More names follow.") : "\u00a0");
  const pages = $("#objects-pages");
  pages.hidden = cursors.length === 1 && next == null;
  put($("span", pages), `Part ${cursors.length}${next == null ? ", the last one" : ""}`);
  $("#objects-back").disabled = cursors.length === 1;
  $("#objects-forth").disabled = next == null;
}

// The clients of caches: what each of them has counted since it began.
function paintCaches(age) {
  const rows = shown.caches.map((cache) => ({ ...cache, id: `${cache.name} ${cache.client}` }));
  $("#caches").hidden = rows.length === 0;
  sync($("#caches tbody"), rows, ({ id }) => id, makeCache, (row, { name, program, pid, host, hit_rate: rate, mean_age_ms: old, counts, reported_ms: ago_ms }) => {
    const reads = ["near_hits", "hits", "stale_hits", "misses"].reduce((sum, count) => sum + (counts[count] ?? 0), 0);
    const percent = rate == null ? "–" : `${(100 * rate).toFixed(1)} %`;
    const number = (value) => (value ?? 0).toLocaleString("en-GB");
    const texts = [name, `${program} (${pid} on ${host})`, percent, number(reads), number(counts.loads), old == null ? "–" : span(old), ago(ago_ms + Math.max(0, age))];
    texts.forEach((text, place) => put(row.cells[place], text));
  });
}

function makeCache() {
  return makeRow(["", "num", "num", "num", "num", "num"]);
}

function makeObject() {
  return makeRow(["", "num", "num"]);
}

function makeRow(aligns) {
  const row = document.createElement("tr");
  const name = document.createElement("th");
  name.scope = "row";
  row.append(name);
  for (const align of aligns) row.insertCell().className = align;
  return row;
}
