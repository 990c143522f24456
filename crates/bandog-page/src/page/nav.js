// The navigation: the view that is shown, and the fragment of the URL.
//
// `#/locks` shows a view, and `#/queues/NAME` opens a queue. `#NAME&NAME` shows the jobs, and opens those with these names.

import { $ } from "./dom.js";
import { number, t } from "./text.js";

const links = () => [...document.querySelectorAll("#views a")];
let has = {}; // Whether the store has the rows of a view. A view that is not named here is always there.

/** The view of this fragment and the names in it. A fragment that this page did not write has no names. */
export function read(hash) {
  const text = hash.replace(/^#/, "");
  const [, view, rest = ""] = /^\/(\w+)(?:\/(.*))?$/s.exec(text) ?? [undefined, "jobs", text];
  try {
    const names = rest.split("&").filter(Boolean).map(decodeURIComponent);
    const isView = has[view] !== false && links().some((link) => link.dataset.go === view);
    return isView ? { view, names } : { view: "jobs", names: [] };
  } catch {
    return { view: "jobs", names: [] };
  }
}

/** The fragment for a view and the names in it. */
export function fragment(view, names) {
  const list = names.map(encodeURIComponent).join("&");
  if (view === "jobs") return list ? `#${list}` : "#/jobs";
  return `#/${view}${list && `/${list}`}`;
}

/** Shows this view. The focus stays where it is. */
export function show(view) {
  for (const part of document.querySelectorAll("[data-view]")) part.hidden = part.dataset.view !== view;
  for (const link of links()) {
    if (link.dataset.go === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

/** The views that the store has. */
export function allow({ queues, objects }) {
  has = { queues, objects, caches: objects };
  for (const link of links()) link.hidden = has[link.dataset.go] === false;
}

/** Writes the number of the rows of a view. An unknown number is empty. */
export function count(view, rows) {
  const place = $(`#views [data-count="${view}"]`);
  const text = rows == null ? "" : number(rows);
  if (place.textContent !== text) place.textContent = text;
}

/** The title of the document. */
export const title = (view) => t("title.view", { view: t(`nav.${view}`) });

/** The field that filters the rows of the present view. */
export const filter = () => $('[data-view]:not([hidden]) input[type="search"]');

$("#views").addEventListener("keydown", (event) => {
  const all = links().filter((link) => !link.hidden);
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const at = all.indexOf(document.activeElement);
  if (!step || at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  all[(at + step + all.length) % all.length].focus();
});

$("#skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("#main").focus();
});

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.matches("input, dialog *");
  const place = filter();
  if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey || !place) return;
  event.preventDefault();
  place.focus();
});
