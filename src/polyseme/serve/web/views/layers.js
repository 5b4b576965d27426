// Layers: the charts that `polyseme probe` has left in the runs, or how to make some.
import { ask } from "../api.js";
import { asking } from "../asking.js";
import { calls } from "../calls.js";
import { adopted } from "../charts.js";
import { card, code, make, notice } from "../dom.js";
import { say } from "../strings.js";

export const can = [];

export function open(context) {
  const results = make("div");
  const { line, ask: start } = asking(context, results);
  const called = calls();
  const served = context.models.find(({ polyseme }) => polyseme?.layers > 1) ?? context.models[0];
  const place = served?.polyseme?.directory ?? "runs/bert";
  called.tell({ path: `v1/runs/${encodeURIComponent(served?.id ?? "bert")}` },
    `import polyseme as ps\nps.load(${JSON.stringify(place)}).probe("train.conllu", task="pos")`);

  start(async (signal) => {
    const runs = await ask("v1/runs", undefined, signal);
    const detailsOf = ({ name }) => ask(`v1/runs/${encodeURIComponent(name)}`, undefined, signal);
    const details = await Promise.all(runs.map(detailsOf));
    const charts = details.flatMap(({ probe }, number) =>
      drawings(probe).map((drawing) => card(runs[number].name, make("div", { className: "wide probe", tabIndex: 0, role: "group",
        "aria-label": say("chartOf", { name: runs[number].name }) }, drawing))));
    results.replaceChildren(...charts, charts.length ? make("p", { className: "faint" }, say("probeAbout")) : howTo(place));
  });
  return [line, results, called.element];
}

// One drawing or several, each as text.
function drawings(probe) {
  const texts = Array.isArray(probe) ? probe : typeof probe === "object" && probe ? Object.values(probe) : [probe];
  return texts.filter((text) => typeof text === "string").map(adopted).filter(Boolean).map(sized);
}

// About as large as it was drawn, so that one task does not fill the page; where many stand side by side, they are scrolled.
function sized(drawing) {
  const width = drawing.viewBox.baseVal?.width;
  if (!width) return drawing;
  drawing.style.width = `${1.2 * width}px`;
  drawing.style.minWidth = `${0.9 * width}px`;
  return drawing;
}

function howTo(place) {
  return notice(make("p", {}, say("noProbes")), make("p", {}, code(`polyseme probe ${place} --data train.conllu --out ${place}`)),
    make("p", { className: "faint" }, say("probeAbout")));
}
