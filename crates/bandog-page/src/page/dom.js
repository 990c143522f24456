// Helpers that write the content of the page. A text is replaced only if it has changed, so that focus and selection are
// kept.

export const $ = (selector, root = document) => root.querySelector(selector);

export const make = (name, className = "") => Object.assign(document.createElement(name), { className });

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

/** A row of a table: a heading, and a cell for each of these classes. */
export function makeRow(kinds) {
  const row = document.createElement("tr");
  const name = document.createElement("th");
  name.scope = "row";
  row.append(name);
  for (const kind of kinds) row.insertCell().className = kind;
  return row;
}

/** A button that offers an action. */
export function actButton(act, name, text = "", id = "") {
  const button = document.createElement("button");
  button.type = "button";
  Object.assign(button.dataset, { act, name, id });
  button.textContent = text;
  return button;
}

/** An element of a drawing. */
export function draw(name, attributes = {}) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

export function icon() {
  const svg = draw("svg", { "aria-hidden": "true" });
  svg.append(draw("use"));
  return svg;
}
