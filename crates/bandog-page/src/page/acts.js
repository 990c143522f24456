// The actions, and the form that asks for them.

import { $, fill, put } from "./dom.js";
import { t, tn } from "./text.js";

export const jobPath = (name) => `api/jobs/${encodeURIComponent(name)}`;
export const queuePath = (name) => `api/queues/${encodeURIComponent(name)}`;
const nodePath = (node) => `api/nodes/${encodeURIComponent(node)}`;

const paused = () => t("do.pause.done");
const resumed = ({ resumed: was }) => t(was ? "do.resume.done" : "do.resume.none");
const backfilled = ({ ticks }) => tn("do.backfill.done", ticks);
const retried = ({ retried: count }) => (count ? tn("do.retry.done", count) : t("do.retry.none"));

/** Each action: the path, the fields of the form, the body of the request, and the message about the result. `name` is that of
 * the job, the node, the lock or the queue. */
const ACTS = {
  run: (name) => ({ path: `${jobPath(name)}/run`, done: (done) => t("do.run.done", done) }),
  pause: (name) => ({ path: `${jobPath(name)}/pause`, fields: ["reason"], done: paused }),
  resume: (name) => ({ path: `${jobPath(name)}/resume`, done: resumed }),
  cancel: (name) => ({ path: `${jobPath(name)}/cancel`, done: ({ ids }) => (ids.length ? t("do.cancel.done", { ids: ids.join(", ") }) : t("do.cancel.none")) }),
  backfill: (name) => ({ path: `${jobPath(name)}/backfill`, fields: ["from", "to"], done: backfilled }),
  again: (name, tick) => ({ path: `${jobPath(name)}/backfill`, wish: { from: tick, to: tick }, done: backfilled }),
  forget: (name) => ({ path: `${jobPath(name)}/forget`, done: () => t("do.forget.done") }),
  "pause-all": () => ({ path: "api/all/pause", fields: ["reason"], done: paused }),
  "resume-all": () => ({ path: "api/all/resume", done: resumed }),
  "pause-node": (node) => ({ path: `${nodePath(node)}/pause`, fields: ["reason"], done: paused }),
  "resume-node": (node) => ({ path: `${nodePath(node)}/resume`, done: resumed }),
  release: (name) => ({ path: `api/locks/${encodeURIComponent(name)}/release`, done: ({ released }) => t(released ? "do.release.done" : "do.release.none") }),
  "pause-queue": (name) => ({ path: `${queuePath(name)}/pause`, done: paused }),
  "resume-queue": (name) => ({ path: `${queuePath(name)}/resume`, done: resumed }),
  "retry-all": (name) => ({ path: `${queuePath(name)}/retry`, done: retried }),
  retry: (name, id) => ({ path: `${queuePath(name)}/retry`, wish: { ids: [id] }, done: retried }),
  remove: (name, id) => ({ path: `${queuePath(name)}/remove`, wish: { ids: [id] }, done: ({ removed }) => t(removed ? "do.remove.done" : "do.remove.none") }),
};

let token; // The token is only kept in memory, and never stored.

/** Opens the form for an action. `one` is the tick or the element that it is about. `page` sends the request, describes a
 * failure, and reads again what has changed. */
export function offer(what, name, one, page) {
  const [dialog, form] = [$("#ask"), $("#ask form")];
  const act = ACTS[what](name, one);
  const verb = t(`do.${what}`);
  form.reset();
  fill(dialog, { head: name ? t("do.of", { verb, name }) : verb, about: t(`do.${what}.about`, { name, tick: one, id: one }), do: verb, wrong: "" });
  for (const field of ["reason", "from", "to"]) $(`[data-part="${field}"]`, dialog).hidden = !act.fields?.includes(field);
  $('[data-part="token"]', dialog).hidden = token !== undefined;
  form.onsubmit = (event) => {
    event.preventDefault();
    submit(dialog, form, name || t("act.all-jobs"), act, page);
  };
  $('button[value="no"]', form).onclick = () => dialog.close();
  dialog.showModal();
}

async function submit(dialog, form, name, { path, fields = [], wish = {}, done }, page) {
  const key = token ?? form.token.value.trim();
  const wishes = { ...wish, ...Object.fromEntries(fields.map((field) => [field, form[field].value.trim()])) };
  fill(dialog, { wrong: "" });
  try {
    const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
    const answer = await page.ask(path, { method: "POST", headers, body: JSON.stringify(wishes) });
    token = key;
    dialog.close();
    showMessage(t("do.done", { name, result: done(answer.done) }));
    page.changed(path);
  } catch (trouble) {
    if (trouble.status === 401) token = undefined;
    $('[data-part="token"]', dialog).hidden = token !== undefined;
    fill(dialog, { wrong: trouble.status === 401 ? t("ask.wrong-token") : page.describe(trouble) });
    if (trouble.status === 401) form.token.select();
  }
}

function showMessage(words) {
  const message = $("#message");
  put(message, words);
  message.dataset.on = "true";
  clearTimeout(showMessage.timer);
  showMessage.timer = setTimeout(() => (message.dataset.on = "false"), 5000);
}
