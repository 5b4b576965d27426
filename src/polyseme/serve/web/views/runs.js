// Runs: how the served models have learnt, live while one still does, and the reports that compare them.
import { addressOf, ask, hasKey } from "../api.js";
import { asking } from "../asking.js";
import { calls } from "../calls.js";
import { curves, legend, short, swatch } from "../charts.js";
import { button, choice, code, field, make, notice } from "../dom.js";
import { say } from "../strings.js";

const EVERY = 3000; // milliseconds between looks at a run that is training
const ACROSS = ["step", "tokens", "seconds", "processor_seconds"];
const NO_LOSS = new Set([...ACROSS, "tokens_per_second", "rate"]);

export const can = [];

// What a row of a history says, by name: losses as they are, figures of the dev set with that before them.
export function figuresOf(row) {
  const of = (values, before) => Object.entries(values)
    .filter(([name, value]) => typeof value === "number" && !(before === "" && NO_LOSS.has(name)))
    .map(([name, value]) => [before + name, value]);
  return [...of(row, ""), ...of(row.dev ?? {}, "dev ")];
}

export function open(context) {
  const results = make("div"), drawn = make("div"), reports = make("div");
  const table = make("div", { className: "wide", tabIndex: 0, role: "region", "aria-label": say("table") });
  const { line, ask: start } = asking(context, results);
  const called = calls();
  const figure = choice([], ""), across = choice(ACROSS.map((name) => [name, say(name)]), context.get("across", "step"));
  const hidden = new Set(context.get("without", "").split(",").filter(Boolean));
  const controls = make("div", { className: "row-of broad" }, field(say("figure"), figure), field(say("across"), across));
  let runs = [], histories = new Map();

  async function fetchAll(signal) {
    runs = await ask("v1/runs", undefined, signal);
    const wanted = runs.filter(({ name, training }) => training || !histories.has(name));
    const found = await Promise.all(wanted.map(({ name }) => ask(`v1/runs/${encodeURIComponent(name)}`, undefined, signal)));
    found.forEach(({ history = [] }, number) => histories.set(wanted[number].name, history));
    const first = runs.find(({ name }) => histories.get(name)?.length);
    called.tell({ path: `v1/runs${first ? `/${encodeURIComponent(first.name)}` : ""}` }, pythonLines(context, first));
  }

  function fill() {
    const names = new Map(); // how many runs have each figure: the commonest is shown first
    for (const [, history] of histories) {
      const mine = new Set(history.flatMap((row) => figuresOf(row).map(([name]) => name)));
      for (const name of mine) names.set(name, (names.get(name) ?? 0) + 1);
    }
    const ordered = [...names].sort((a, b) => b[1] - a[1]).map(([name]) => [name, name.replaceAll("_", " ")]);
    const before = figure.value || context.get("figure", ordered[0]?.[0] ?? "");
    figure.replaceChildren(...ordered.map(([value, label]) => make("option", { value }, label)));
    if (names.has(before)) figure.value = before;
    controls.hidden = !ordered.length;
    draw();
    list();
  }

  function draw() {
    const series = runs.map(({ name }, number) => ({ name, number, dots: figure.value.startsWith("dev "),
      points: hidden.has(name) ? [] : (histories.get(name) ?? []).flatMap((row) => {
        const found = figuresOf(row).find(([each]) => each === figure.value);
        return found && typeof row[across.value] === "number" ? [[row[across.value], found[1]]] : [];
      }) })).filter(({ points }) => points.length);
    if (!series.length) {
      const recorded = [...histories.values()].some(({ length }) => length);
      drawn.replaceChildren(make("p", { className: "faint" }, say(recorded ? "noCurve" : "noRuns")));
      return;
    }
    const last = series.map(({ name, points }) => `${name} ${points.at(-1)[1].toFixed(3)}`).join(", ");
    drawn.replaceChildren(curves(series, { label: `${figure.value}: ${last}`, across: say(across.value) }), legend(series));
  }

  function list() {
    const columns = ["run", "family", "steps", "latest", "speed"];
    const header = make("tr", {}, ...columns.map((name) => make("th", { scope: "col" }, say(name))));
    const rows = runs.map(({ name, family, steps, done, training }, number) => {
      const history = histories.get(name) ?? [], latest = history.at(-1) ?? {};
      const box = make("input", { type: "checkbox", checked: !hidden.has(name), "aria-label": say("showRun", { name }) });
      box.addEventListener("change", () => {
        if (box.checked) hidden.delete(name);
        else hidden.add(name);
        context.set({ without: [...hidden].join(",") || null }, { entry: false });
        draw();
      });
      const found = figuresOf(latest).find(([each]) => each === figure.value) ?? figuresOf(latest)[0];
      const share = steps ? Math.min(1, done / steps) : 1;
      const cells = [
        make("label", { className: "run" }, box, swatch(number), name),
        family ?? "", make("span", { className: training ? "training" : "" }, progressOf(done, steps), ...(training
          ? [" ", make("progress", { value: share, max: 1, "aria-label": say("training") }), " ", say("training")] : [])),
        found ? `${found[0].replaceAll("_", " ")} ${found[1].toFixed(3)}` : "–",
        latest.tokens_per_second ? `${short(latest.tokens_per_second)} /s` : "–",
      ];
      return make("tr", {}, ...cells.map((cell, place) => make(place ? "td" : "th", place ? {} : { scope: "row" }, cell)));
    });
    table.replaceChildren(make("table", {}, make("thead", {}, header), make("tbody", {}, ...rows)));
  }

  async function showReports(signal) {
    const found = await ask("v1/reports", undefined, signal).catch(() => []);
    const names = (Array.isArray(found) ? found : found.data ?? []).map((each) => (typeof each === "string" ? each : each.name));
    const framed = make("div");
    reports.replaceChildren(make("h3", {}, say("reports")), ...(names.length
      ? [make("ul", { className: "reports" }, ...names.map((name) => reportLine(name, framed))), framed]
      : [notice(make("p", {}, say("noReports")), make("p", {}, code("polyseme compare --corpus text/ --out report/")))]));
  }

  const again = () => start(async (signal) => {
    await fetchAll(signal);
    fill();
    return runs.some(({ training }) => training) ? say("live") : "";
  });

  for (const select of [figure, across]) select.addEventListener("change", () => {
    context.set({ figure: figure.value, across: across.value }, { entry: false });
    draw();
    list();
  });
  results.append(controls, drawn, table, reports);
  again().then(() => showReports(context.signal));
  // Quietly, so that nobody who listens is told every few seconds.
  const timer = setInterval(async () => {
    if (document.hidden || !runs.some(({ training }) => training)) return;
    try {
      await fetchAll(context.signal);
      if (!context.signal.aborted && !table.contains(document.activeElement)) fill();
    } catch { /* the next look may succeed, and the line above still says that it is live */ }
  }, EVERY);
  context.signal.addEventListener("abort", () => clearInterval(timer));
  return [line, results, called.element];
}

// A run that we know no recipe of has no number of steps to reach.
const progressOf = (done, steps) => (steps === null || done === steps ? short(done) : `${short(done)} / ${short(steps)}`);

// In a frame that may run its own script and reach nothing of ours; a frame cannot carry a key.
function reportLine(name, framed) {
  const address = addressOf(`v1/reports/${encodeURIComponent(name)}`);
  if (hasKey()) return make("li", {}, name, " ", make("span", { className: "faint" }, say("reportNeedsKey")));
  const show = button(say("show"), { kind: "small" });
  show.addEventListener("click", () => framed.replaceChildren(
    make("iframe", { src: address, title: name, className: "report", sandbox: "allow-scripts allow-popups" })));
  return make("li", {}, make("a", { href: address, target: "_blank", rel: "noopener" }, name), " ", show);
}

function pythonLines(context, run) {
  const served = context.models.find(({ id }) => id === run?.name);
  const place = served?.polyseme?.directory ?? `runs/${run?.name ?? "bert"}`;
  const file = JSON.stringify(`${place}/history.jsonl`);
  return `import json, pathlib\nrows = [json.loads(line) for line in pathlib.Path(${file}).read_text().splitlines()]`;
}
