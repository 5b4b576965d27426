// Layers: the charts that `polyseme probe` wrote into run directories, or the command that makes them.
import { fetchJson } from "../api.js";
import { sanitizeSvg } from "../charts.js";
import { card, code, make, notice } from "../dom.js";
import { requestRunner } from "../request.js";
import { codeSnippets } from "../snippets.js";
import { t } from "../strings.js";

export const endpoints = [];

export function open(context) {
  const results = make("div");
  const { status, run } = requestRunner(context, results);
  const snippets = codeSnippets();
  const model = context.models.find(({ polyseme }) => polyseme?.layers > 0) ?? context.models[0];
  const directory = model?.polyseme?.directory ?? "runs/bert";
  snippets.update({ path: `v1/runs/${encodeURIComponent(model?.id ?? "bert")}` },
    `import polyseme as ps\nps.load(${JSON.stringify(directory)}).probe("train.conllu", task="pos")`);

  run(async (signal) => {
    const runs = await fetchJson("v1/runs", undefined, signal);
    const details = await Promise.all(runs.map(({ name }) => fetchJson(`v1/runs/${encodeURIComponent(name)}`, undefined, signal)));
    const charts = details.flatMap(({ probe_charts: files }, index) => Object.values(files ?? {}).map(sanitizeSvg).filter(Boolean)
      .map((chart) => card(runs[index].name, make("div", { className: "wide probe", tabIndex: 0, role: "group",
        "aria-label": t("chartOf", { name: runs[index].name }) }, scaled(chart)))));
    results.replaceChildren(...charts, charts.length ? make("p", { className: "faint" }, t("probeAbout")) : instructions(directory));
  });
  return [status, results, snippets.element];
}

// Close to its original size, so that a single task does not fill the page and a wide chart scrolls.
function scaled(chart) {
  const width = chart.viewBox.baseVal?.width;
  if (!width) return chart;
  chart.style.width = `${1.2 * width}px`;
  chart.style.minWidth = `${0.9 * width}px`;
  return chart;
}

function instructions(directory) {
  return notice(make("p", {}, t("noProbes")), make("p", {}, code(`polyseme probe ${directory} --data FILE --out ${directory}`)),
    make("p", { className: "faint" }, t("probeAbout")));
}
