// Training runs: learning curves, updated live, and comparison reports.
import { fetchJson, hasKey, urlOf } from "../api.js";
import { formatNumber, legend, lineChart, swatch } from "../charts.js";
import { button, code, field, make, notice, select } from "../dom.js";
import { requestRunner } from "../request.js";
import { codeSnippets } from "../snippets.js";
import { t } from "../strings.js";

const UPDATE_MILLISECONDS = 3000; // while a run is training
const X_AXES = ["step", "tokens", "seconds", "processor_seconds"];
const NOT_METRICS = new Set([...X_AXES, "tokens_per_second", "learning_rate"]);

export const endpoints = [];

// The metrics in a row of a history: training losses by their names, validation metrics after "dev ".
export function metricsOf(row) {
  const named = (values, prefix) => Object.entries(values)
    .filter(([name, value]) => typeof value === "number" && !(prefix === "" && NOT_METRICS.has(name)))
    .map(([name, value]) => [prefix + name, value]);
  return [...named(row, ""), ...named(row.dev ?? {}, "dev ")];
}

export function open(context) {
  const results = make("div"), chart = make("div"), reports = make("div");
  const table = make("div", { className: "wide", tabIndex: 0, role: "region", "aria-label": t("table") });
  const { status, run: start } = requestRunner(context, results);
  const snippets = codeSnippets();
  const metric = select([], ""), xAxis = select(X_AXES.map((name) => [name, t(name)]), context.get("x", "step"));
  const hidden = new Set(context.get("hidden", "").split(",").filter(Boolean));
  const controls = make("div", { className: "row-of broad" }, field(t("metric"), metric), field(t("xAxis"), xAxis));
  let runs = [], histories = new Map();

  async function fetchRuns(signal) {
    runs = await fetchJson("v1/runs", undefined, signal);
    const outdated = runs.filter(({ name, training }) => training || !histories.has(name));
    const found = await Promise.all(outdated.map(({ name }) => fetchJson(`v1/runs/${encodeURIComponent(name)}`, undefined, signal)));
    found.forEach(({ history = [] }, index) => histories.set(outdated[index].name, history));
    const first = runs.find(({ name }) => histories.get(name)?.length);
    snippets.update({ path: `v1/runs${first ? `/${encodeURIComponent(first.name)}` : ""}` }, historyCode(context, first));
  }

  function fill() {
    const counts = new Map(); // runs with each metric: the most frequent one is shown first
    for (const [, history] of histories) {
      const names = new Set(history.flatMap((row) => metricsOf(row).map(([name]) => name)));
      for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    const ordered = [...counts].sort((a, b) => b[1] - a[1]).map(([name]) => [name, name.replaceAll("_", " ")]);
    const before = metric.value || context.get("metric", ordered[0]?.[0] ?? "");
    metric.replaceChildren(...ordered.map(([value, label]) => make("option", { value }, label)));
    if (counts.has(before)) metric.value = before;
    controls.hidden = !ordered.length;
    drawChart();
    fillTable();
  }

  function drawChart() {
    const series = runs.map(({ name }, number) => ({ name, number, dots: metric.value.startsWith("dev "),
      points: hidden.has(name) ? [] : (histories.get(name) ?? []).flatMap((row) => {
        const found = metricsOf(row).find(([each]) => each === metric.value);
        return found && typeof row[xAxis.value] === "number" ? [[row[xAxis.value], found[1]]] : [];
      }) })).filter(({ points }) => points.length);
    if (!series.length) {
      const recorded = [...histories.values()].some(({ length }) => length);
      chart.replaceChildren(make("p", { className: "faint" }, t(recorded ? "noCurve" : "noRuns")));
      return;
    }
    const last = series.map(({ name, points }) => `${name} ${points.at(-1)[1].toFixed(3)}`).join(", ");
    chart.replaceChildren(lineChart(series, { label: `${metric.value}: ${last}`, xLabel: t(xAxis.value) }), legend(series));
  }

  function fillTable() {
    const columns = ["name", "family", "steps", "latest", "speed"];
    const header = make("tr", {}, ...columns.map((name) => make("th", { scope: "col" }, t(name))));
    const rows = runs.map(({ name, family, total_steps: total, steps_done: done, training }, number) => {
      const latest = (histories.get(name) ?? []).at(-1) ?? {};
      const box = make("input", { type: "checkbox", checked: !hidden.has(name), "aria-label": t("showRun", { name }) });
      box.addEventListener("change", () => {
        if (box.checked) hidden.delete(name);
        else hidden.add(name);
        context.set({ hidden: [...hidden].join(",") || null }, { entry: false });
        drawChart();
      });
      const value = metricsOf(latest).find(([each]) => each === metric.value) ?? metricsOf(latest)[0];
      const progress = total ? Math.min(1, done / total) : 1;
      const cells = [
        make("label", { className: "run" }, box, swatch(number), name),
        family ?? "", make("span", { className: training ? "training" : "" }, formatSteps(done, total), ...(training
          ? [" ", make("progress", { value: progress, max: 1, "aria-label": t("training") }), " ", t("training")] : [])),
        value ? `${value[0].replaceAll("_", " ")} ${value[1].toFixed(3)}` : "–",
        latest.tokens_per_second ? formatNumber(latest.tokens_per_second) : "–",
      ];
      return make("tr", {}, ...cells.map((cell, index) => make(index ? "td" : "th", index ? {} : { scope: "row" }, cell)));
    });
    table.replaceChildren(make("table", {}, make("thead", {}, header), make("tbody", {}, ...rows)));
  }

  async function showReports(signal) {
    const found = await fetchJson("v1/reports", undefined, signal).catch(() => []);
    const frame = make("div");
    reports.replaceChildren(make("h3", {}, t("reports")), ...(found.length
      ? [make("ul", { className: "reports" }, ...found.map(({ name }) => reportLine(name, frame))), frame]
      : [notice(make("p", {}, t("noReports")), make("p", {}, code("polyseme compare --corpus text/ --out report/")))]));
  }

  const refresh = () => start(async (signal) => {
    await fetchRuns(signal);
    fill();
    return runs.some(({ training }) => training) ? t("live") : "";
  });

  for (const each of [metric, xAxis]) each.addEventListener("change", () => {
    context.set({ metric: metric.value, x: xAxis.value }, { entry: false });
    drawChart();
    fillTable();
  });
  results.append(controls, chart, table, reports);
  refresh().then(() => showReports(context.signal));
  // Without the status line, so that screen readers do not announce every update.
  const timer = setInterval(async () => {
    if (document.hidden || !runs.some(({ training }) => training)) return;
    try {
      await fetchRuns(context.signal);
      if (!context.signal.aborted && !table.contains(document.activeElement)) fill();
    } catch { /* the next update may succeed */ }
  }, UPDATE_MILLISECONDS);
  context.signal.addEventListener("abort", () => clearInterval(timer));
  return [status, results, snippets.element];
}

// The total is null for a run whose recipe is not known.
const formatSteps = (done, total) =>
  (total === null || done === total ? formatNumber(done) : `${formatNumber(done)} / ${formatNumber(total)}`);

// The frame is sandboxed: the report runs its own script without access to this page. A frame cannot send a key.
function reportLine(name, frame) {
  const url = urlOf(`v1/reports/${encodeURIComponent(name)}`);
  if (hasKey()) return make("li", {}, name, " ", make("span", { className: "faint" }, t("reportNeedsKey")));
  const show = button(t("show"), { kind: "small" });
  show.addEventListener("click", () => frame.replaceChildren(
    make("iframe", { src: url, title: name, className: "report", sandbox: "allow-scripts allow-popups" })));
  return make("li", {}, make("a", { href: url, target: "_blank", rel: "noopener" }, name), " ", show);
}

function historyCode(context, run) {
  const model = context.models.find(({ id }) => id === run?.name);
  const directory = model?.polyseme?.directory ?? `runs/${run?.name ?? "bert"}`;
  const file = JSON.stringify(`${directory}/history.jsonl`);
  return `import json, pathlib\nrows = [json.loads(line) for line in pathlib.Path(${file}).read_text().splitlines()]`;
}
