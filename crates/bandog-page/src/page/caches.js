// The clients of caches: what each of them has counted since its first read.

import { $, makeRow, put, sync } from "./dom.js";
import { count } from "./nav.js";
import { number, t } from "./text.js";
import { ago, span } from "./words.js";

const INTERVAL = 10000; // Minimum interval between two polls, in ms. Clients report every 20 s.

const shown = { caches: [], read: 0, trouble: undefined };
let page; // Requests, the time by the server's clock, and how often the list is read.
let timer;

/** Starts the list. The fields of `of` are those of `startQueues`. */
export function startCaches(of) {
  page = of;
  $("#api-objects").hidden = false;
  pollCaches();
}

export async function pollCaches() {
  if (!page) return;
  clearTimeout(timer);
  try {
    const { caches, at } = await page.ask("api/caches");
    Object.assign(shown, { caches, read: Date.parse(at), trouble: undefined });
    count("caches", new Set(caches.map(({ name }) => name)).size);
  } catch (trouble) {
    shown.trouble = trouble;
  }
  paintCaches();
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(pollCaches, page.pause(INTERVAL));
}

/** Updates the list, and the texts that change with the time. */
export function paintCaches() {
  if (!page || (!shown.read && !shown.trouble)) return;
  const age = Math.max(0, page.now() - shown.read);
  const rows = shown.caches.map((cache) => ({ ...cache, id: `${cache.name} ${cache.client}` }));
  put($("#caches-age"), shown.trouble ? t("objects.not-read", { message: shown.trouble.message }) : "");
  $("#caches table").hidden = rows.length === 0;
  const none = $("#no-caches");
  none.hidden = rows.length > 0;
  put(none, shown.read ? t("caches.none") : "\u00a0");
  sync($("#caches tbody"), rows, ({ id }) => id, () => makeRow(["", "num", "num", "num", "num", "num"]), (row, cache) => {
    const { name, hit_rate: rate, mean_age_ms: old, counts, reported_ms: reported } = cache;
    const reads = ["near_hits", "hits", "stale_hits", "misses"].reduce((sum, part) => sum + (counts[part] ?? 0), 0);
    const percent = rate == null ? "–" : `${(100 * rate).toFixed(1)} %`;
    const texts = [name, t("caches.client", cache), percent, number(reads), number(counts.loads ?? 0), old == null ? "–" : span(old), ago(reported + age)];
    texts.forEach((text, place) => put(row.cells[place], text));
  });
}
