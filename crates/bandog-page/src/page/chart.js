// Charts of the last 24 hours: columns and lines in one drawing, and a list of small lines.
//
// Columns of lower bounds are pale, and their values have a `≥`. A chart is never read by colour alone: failures hang below the line and end in a point, the second line is dashed, and the
// values are in a text below the drawing (for the pointer and for the arrow keys) and in a table.

import { $, draw, make, makeRow, put, sync } from "./dom.js";
import { t } from "./text.js";
import { minute } from "./words.js";

const WIDE = 4; // Width of one value, in units of the drawing.
const HIGH = 48; // Height of the drawing.
const HOUR = 3600000;

/** The times of a chart: the first one, the time between two, and their number, in ms. */
const timeOf = ({ from, step }, place) => from + place * step;

/** The greatest value, and its place. */
function peak(values) {
  let best = -1;
  values.forEach((value, place) => value != null && (best < 0 || value > values[best]) && (best = place));
  return best;
}

const known = (value) => value != null;

/**
 * Draws a chart into `root`. `data` has `title`, `note`, `from`, `step`, `format` (of a value), `atLeast` (whether a place has a
 * lower bound only), `sum` (whether the values of an hour are added in the table) and `series`: `label`, `style` (`up`, `down`, `line`, `dashed`) and `values`, of which unknown ones are null.
 */
export function paintChart(root, data) {
  if (!root.firstElementChild) makeChart(root);
  root.data = data;
  const svg = $("svg", root);
  const length = data.series[0].values.length;
  svg.setAttribute("viewBox", `0 0 ${length * WIDE} ${HIGH}`);
  const hasDown = data.series.some(({ style }) => style === "down");
  const base = hasDown ? HIGH - 14 : HIGH - 1;
  const top = (styles) => Math.max(1, ...data.series.filter(({ style }) => styles.includes(style)).flatMap(({ values }) => values.filter(known)));
  const paths = { up: "", least: "", down: "", line: "", dashed: "" };
  for (const { style, values } of data.series) {
    const most = top(style === "down" || style === "up" ? [style] : ["line", "dashed"]);
    const isLeast = (place) => style === "up" && Boolean(data.atLeast?.(place));
    paths[style] = path(style, values.map((value, place) => (isLeast(place) ? null : value)), base, most);
    if (style === "up") paths.least = path(style, values.map((value, place) => (isLeast(place) ? value : null)), base, most);
  }
  for (const [style, d] of Object.entries(paths)) $(`.${style}`, svg).setAttribute("d", d);
  $(".base", svg).setAttribute("d", `M0 ${base}H${length * WIDE}`);
  put($("h3", root), data.title);
  put($(".note", root), data.note ?? "");
  const summary = data.series.map(({ label, values }) => summarize(data, label, values)).join(" ");
  svg.setAttribute("aria-label", t("chart.keys", { title: data.title, summary }));
  put($(".peak", root), summary);
  const ends = $(".axis", root).children;
  put(ends[0], minute(data.from));
  put(ends[1], minute(timeOf(data, length / 2)));
  put(ends[2], t("chart.now"));
  select(root, root.place);
  if ($("details", root).open) paintTable(root);
}

function summarize(data, label, values) {
  const place = peak(values);
  if (place < 0 || values[place] === 0) return t("chart.value", { label, value: place < 0 ? t("chart.not-observed") : data.format(0) }) + ".";
  return t("chart.peak", { label, value: textOf(data, values, place), time: minute(timeOf(data, place)) });
}

function textOf(data, values, place) {
  if (!known(values[place])) return t("chart.not-observed");
  const value = data.format(values[place]);
  return data.atLeast?.(place) ? t("chart.at-least", { value }) : value;
}

/** The path of a series. `most` is the value of the full height. */
function path(style, values, base, most) {
  const high = (value, room, least) => (least + (value / most) * (room - least)).toFixed(1);
  return values
    .map((value, place) => {
      const x = place * WIDE;
      if (style === "up") return value ? `M${x} ${base}v${-high(value, base - 1, 2)}h3V${base}Z` : "";
      if (style === "down") return value ? `M${x - 0.25} ${base + 1}h3.5l-1.75 ${high(value, HIGH - base - 2, 4)}Z` : "";
      if (!known(value)) return "";
      const y = (base - (value / most) * (base - 3)).toFixed(1);
      return known(values[place - 1]) ? `L${x + 2} ${y}` : `M${x} ${y}H${x + 2}`;
    })
    .join("");
}

function makeChart(root) {
  const svg = draw("svg", { preserveAspectRatio: "none", role: "img", tabindex: "0" });
  for (const name of ["base", "up", "least", "down", "line", "dashed", "cursor"]) svg.append(draw("path", { class: name }));
  const axis = make("p", "axis-24");
  axis.classList.add("axis");
  axis.setAttribute("aria-hidden", "true");
  axis.append(make("span"), make("span"), make("span"));
  const [details, summary, table] = [make("details"), make("summary"), make("table", "list")];
  summary.textContent = t("chart.table");
  const wide = make("div", "wide");
  wide.append(table);
  details.append(summary, wide);
  details.addEventListener("toggle", () => details.open && paintTable(root));
  const readout = make("p", "sub readout");
  readout.append(make("span", "peak"), make("span", "one"));
  root.append(make("h3"), svg, axis, readout, make("p", "sub note"), details);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    select(root, Math.floor(((event.clientX - box.left) / box.width) * root.data.series[0].values.length));
  });
  svg.addEventListener("pointerleave", () => document.activeElement !== svg && select(root, undefined));
  svg.addEventListener("blur", () => select(root, undefined));
  svg.addEventListener("keydown", (event) => {
    const last = root.data.series[0].values.length - 1;
    const to = { ArrowLeft: (root.place ?? last + 1) - 1, ArrowRight: (root.place ?? last - 1) + 1, Home: 0, End: last }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    select(root, to);
  });
}

/** Shows the values at a place, or the highest ones if there is none. */
function select(root, wanted) {
  const { data } = root;
  const last = data.series[0].values.length - 1;
  root.place = wanted === undefined ? undefined : Math.min(last, Math.max(0, wanted));
  const { place } = root;
  $(".cursor", root).setAttribute("d", place === undefined ? "" : `M${place * WIDE + 1.5} 0V${HIGH}`);
  $(".peak", root).hidden = place !== undefined;
  const values = place === undefined ? [] : data.series.map(({ label, values: all }) => t("chart.value", { label, value: textOf(data, all, place) }));
  put($(".one", root), place === undefined ? "" : t("hour.minute", { minute: minute(timeOf(data, place), true), starts: values.join(" · ") }));
}

/** The table of a chart: a row for each hour, with the sum or the highest of its values. */
function paintTable(root) {
  const { data } = root;
  const table = $("table", root);
  const each = HOUR / data.step;
  const hours = Array.from({ length: data.series[0].values.length / each }, (_, hour) => hour);
  if (!table.tBodies[0]) {
    table.createCaption().textContent = t("chart.by-hour");
    const head = table.createTHead().insertRow();
    for (const label of [t("chart.hour"), ...data.series.map((series) => series.label)]) {
      const cell = Object.assign(document.createElement("th"), { scope: "col", textContent: label });
      head.append(cell);
    }
    table.createTBody();
  }
  sync(table.tBodies[0], hours, String, () => makeRow(data.series.map(() => "num")), (row, hour) => {
    put(row.cells[0], minute(timeOf(data, hour * each), true));
    data.series.forEach(({ values }, place) => {
      const part = values.slice(hour * each, (hour + 1) * each).filter(known);
      const value = data.sum ? part.reduce((sum, one) => sum + one, 0) : Math.max(...part);
      const isLeast = part.some((_, at) => data.atLeast?.(hour * each + at));
      const text = part.length === 0 ? t("chart.not-observed") : isLeast ? t("chart.at-least", { value: data.format(value) }) : data.format(value);
      put(row.cells[place + 1], text);
    });
  });
}

/** Draws a small line for each row. `data` has `title`, `note`, `from`, `step`, `format` and `rows` of `name` and `values`. */
export function paintRows(root, data) {
  root.hidden = data.rows.length === 0;
  if (!root.firstElementChild) {
    const table = make("table", "list sparks");
    const head = table.createTHead().insertRow();
    for (const key of ["chart.name", "chart.time", "chart.latest", "chart.peak-short"]) {
      head.append(Object.assign(make("th", key === "chart.name" || key === "chart.time" ? "" : "num"), { scope: "col", textContent: t(key) }));
    }
    table.createTBody();
    root.append(make("h3"), make("p", "sub note"), table);
  }
  put($("h3", root), data.title);
  put($(".note", root), data.note ?? "");
  sync($("tbody", root), data.rows, ({ name }) => name, makeSpark, (row, { name, values }) => {
    const best = peak(values);
    const value = (place) => (place < 0 || !known(values[place]) ? t("chart.not-observed") : data.format(values[place]));
    const [latest, most] = [value(values.length - 1), value(best)];
    put(row.cells[0], name);
    put(row.cells[2], latest);
    put(row.cells[3], most);
    const svg = $("svg", row);
    svg.setAttribute("viewBox", `0 0 ${values.length * WIDE} ${HIGH}`);
    svg.setAttribute("aria-label", t("chart.spark", { latest, peak: most, time: minute(timeOf(data, Math.max(0, best))) }));
    $(".line", svg).setAttribute("d", path("line", values, HIGH - 1, Math.max(1, values[best] ?? 1)));
  });
}

function makeSpark() {
  const row = makeRow(["", "num", "num"]);
  const svg = draw("svg", { preserveAspectRatio: "none", role: "img" });
  svg.append(draw("path", { class: "line" }));
  row.cells[1].append(svg);
  return row;
}
