// The list of locks that are held.

import { $, actButton, makeRow, put, sync } from "./dom.js";
import { t } from "./text.js";
import { span } from "./words.js";

/**
 * The fences that the holder's grant reserved: the first one, and the number of the others, as `bandog ls` prints them.
 * The holder has one of these fences. If the lock goes to another caller in the same process, that caller gets the next
 * fence.
 */
function fences(lock) {
  if (lock.fence == null) return "–";
  return lock.fence_to == null || lock.fence_to === lock.fence ? String(lock.fence) : `${lock.fence}+${lock.fence_to - lock.fence}`;
}

/** The kind of a lock. For a semaphore, the text has the number of permits in use, and for a latch its count. */
function kind({ kind, limit, count, holders }) {
  if (count != null) return t("lock.kind.count", { kind, count });
  if (limit == null) return kind ?? "–";
  return t("lock.kind.permits", { kind, limit, used: holders.reduce((sum, { permits }) => sum + (permits ?? 0), 0) });
}

/** One holder of a lock, and what it holds if the kind can have several holders. */
function holderText({ holder: member, owner, mode, permits }, limit) {
  const holder = member ? t("locks.client", member) : (owner ?? t("lock.unknown"));
  if (mode) return t(mode === "read" ? "lock.reader" : "lock.writer", { holder });
  return permits ? t("lock.permits", { holder, permits, limit }) : holder;
}

/** Time until a lock expires. A latch has no holder, and never expires. */
function expiry({ held, ttl_ms }, age) {
  if (!held) return "–";
  return ttl_ms == null ? t("lock.never") : span(Math.max(0, ttl_ms - age));
}

/** Updates the table of the locks that are held, and of the latches that are not open. */
export function paintLocks(locks, age, acts) {
  sync($("#locks tbody"), locks, (lock) => lock.name, makeLock, (row, lock) => {
    const [first, ...others] = lock.holders;
    const holder = lock.held ? holderText(first ?? lock, lock.limit) : "–";
    const all = others.length ? t("lock.others", { holder, count: others.length }) : holder;
    row.cells[2].title = others.length ? lock.holders.map((each) => holderText(each, lock.limit)).join("\n") : "";
    const texts = [lock.name, kind(lock), all, fences(lock), expiry(lock, age), String(lock.waiters.length || "–")];
    texts.forEach((text, place) => put(row.cells[place], text));
    // A latch has no holder, so it cannot be released.
    row.cells[6].firstElementChild.hidden = !acts || !lock.held;
    row.cells[3].title = lock.fence_to > lock.fence ? t("locks.fences", { from: lock.fence, to: lock.fence_to }) : "";
  });
}

function makeLock({ name: lock }) {
  const row = makeRow(["", "", "num", "num", "num", "num"]);
  row.cells[6].append(actButton("release", lock, t("act.release")));
  const labels = ["kind", "holder", "fence", "expires", "waiting"];
  labels.forEach((label, place) => (row.cells[place + 1].dataset.label = t(`column.${label}`)));
  return row;
}
