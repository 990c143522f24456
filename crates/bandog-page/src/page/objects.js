// The list of objects. It is read when the user asks for it, because most names of a store may be those of other programs.

import { $, makeRow, put, sync } from "./dom.js";
import { count } from "./nav.js";
import { number, t } from "./text.js";
import { ago, span } from "./words.js";

// The cursors of the pages up to the shown one, the answer for this page, and the time of the answer.
const shown = { cursors: [""], name: "", objects: [], next: null, read: 0 };
let request = 0; // The number of the newest request. Answers to earlier ones are ignored.
let typing;

/** Starts the list. `ask` sends a request, and `now` is the time by the server's clock. */
export function startObjects(ask, now) {
  const read = (cursors) => readPage(cursors, ask, now);
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
  const failed = trouble && t("objects.not-read", { message: trouble.message });
  put($("#objects-age"), [failed, read && t("objects.as-of", { ago: ago(Math.max(0, age)) })].filter(Boolean).join(" "));
  const isPart = cursors.length > 1 || next != null; // A scan finds the entries of a cache everywhere.
  // A scan of Redis may return a name twice.
  const rows = [...new Map(objects.map((object) => [object.name, object])).values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  sync($("#objects tbody"), rows, ({ name }) => name, makeObject, (row, { name, type, size, ttl_ms: ttl }) => {
    const expiry = ttl == null ? t("lock.never") : ttl > age ? span(ttl - age) : t("objects.expired");
    const some = type === "cache" && isPart ? t("objects.in-part", { size: number(size) }) : number(size);
    [name, type, some, type === "cache" ? t("objects.each") : expiry].forEach((text, place) => put(row.cells[place], text));
  });
  $("#objects table").hidden = rows.length === 0;
  const none = $("#no-objects");
  none.hidden = rows.length > 0;
  const place = next != null ? "-more" : cursors.length > 1 ? "-last" : "";
  put(none, read ? t(`objects.none${shown.name ? "-match" : ""}${place}`) : "\u00a0");
  if (!shown.name) count("objects", cursors.length === 1 && next == null ? rows.length : undefined);
  const pages = $("#objects-pages");
  pages.hidden = cursors.length === 1 && next == null;
  put($("span", pages), t(next == null ? "objects.last-part" : "objects.part", { part: cursors.length }));
  $("#objects-back").disabled = cursors.length === 1;
  $("#objects-forth").disabled = next == null;
}

function makeObject() {
  return makeRow(["", "num", "num"]);
}
