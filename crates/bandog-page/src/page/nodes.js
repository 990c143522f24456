// The nodes that run jobs, and the pauses.

import { $, actButton, put, sync } from "./dom.js";
import { t } from "./text.js";

/** The author and the reason of a pause. */
export const by = (paused) => t(paused.reason ? "by.reason" : "by", paused);

/** Updates the list of the nodes that run jobs, and of the pauses. */
export function paintNodes({ running, pauses }) {
  const all = running.map(({ node: name, zones, paused }) => {
    const node = zones ? t("nodes.zones", { node: name, zones }) : name;
    return paused ? t("nodes.paused", { node, by: by(paused) }) : node;
  });
  const tables = new Set(running.map(({ zones }) => zones).filter(Boolean));
  const lines = [all.length > 0 ? t("nodes.of", { nodes: all.join(" · ") }) : t("nodes.none")];
  if (tables.size > 1) lines.push(t("nodes.tables-differ"));
  if (pauses.all) lines.push(t("nodes.all-paused", { by: by(pauses.all) }));
  put($("#nodes"), lines.join("\n"));
}

/** Updates the buttons that pause and resume all jobs and the nodes. A paused node is listed although it does not run. */
export function paintNodeActs({ running, pauses }, acts) {
  const all = $("#pause-all");
  all.hidden = !acts;
  all.dataset.act = pauses.all ? "resume-all" : "pause-all";
  put(all, t(`act.${all.dataset.act}`));
  const paused = Object.keys(pauses.nodes ?? {});
  const nodes = [...new Set([...running.map(({ node }) => node), ...paused])].sort();
  const list = $("#node-acts");
  list.hidden = !acts || nodes.length === 0;
  sync(list, acts ? nodes : [], (node) => node, makeNodeAct, (item, node) => {
    const button = item.firstElementChild;
    button.dataset.act = paused.includes(node) ? "resume-node" : "pause-node";
    put(button, t(`act.${button.dataset.act}`, { node }));
  });
}

function makeNodeAct(node) {
  const item = document.createElement("li");
  item.append(actButton("pause-node", node));
  return item;
}
