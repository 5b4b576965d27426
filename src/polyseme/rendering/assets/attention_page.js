// The page of `polyseme attention`: one head, a grid of all heads, and a table of their statistics.
import { make } from "./dom.js";
import { HeadGrid, HeadView } from "./attention_head.js";
import { readColours, weightsOf } from "./attention_weights.js";

(() => {
  const data = JSON.parse(document.getElementById("data").textContent);

  const state = { part: 0, layer: 0, head: 0, words: false, sorted: -1, down: true };
  const find = (id) => document.getElementById(id);

  const partOf = (panel) => panel.parts[Math.min(state.part, panel.parts.length - 1)];

  function namesOf(sequence) {
    if (!state.words) return sequence.display.map((shown, place) => ({ shown, token: sequence.tokens[place] }));
    return sequence.word_starts.map((first, number) => {
      const tokens = sequence.tokens.slice(first, sequence.word_starts[number + 1] ?? sequence.tokens.length);
      return { shown: sequence.word_texts[number], token: tokens.join(" ") };
    });
  }

  // --- one head, and all heads -----------------------------------------------------------------------------------

  const quoted = ({ texts }) => texts.map((text) => `“${text}”`).join(" + ");

  class Panel {
    constructor(panel, number) {
      this.panel = panel;
      this.head = new HeadView({ number, turn });
      this.element = make("section", { className: "panel", "aria-label": `text ${number + 1}` },
        make("h3", { textContent: quoted(panel) }), this.head.status, this.head.view);
    }

    fill() {
      const part = partOf(this.panel);
      this.head.fill([namesOf(part.queries), namesOf(part.keys ?? part.queries)]);
    }

    show() {
      this.head.show(weightsOf(partOf(this.panel), state), state);
    }
  }

  class Grid {
    constructor(panel, number) {
      this.panel = panel;
      this.heads = new HeadGrid({ open: (layer, head) => {
        open(layer, head);
        find("panels").scrollIntoView({ block: "start" });
      } });
      const title = data.panels.length > 1 ? [make("h3", { textContent: quoted(panel) })] : [];
      this.element = make("div", { className: "panel", "aria-label": `all heads, text ${number + 1}`, role: "group" },
        ...title, this.heads.element);
    }

    fill() {
      const part = partOf(this.panel);
      const labels = part.statistics[state.words ? 1 : 0].map(([label]) => label);
      const mapOf = (layer, head) => weightsOf(part, { ...state, layer, head });
      this.heads.fill({ layers: part.layers, heads: part.heads, mapOf, labels });
    }
  }

  // --- head statistics ---------------------------------------------------------------------------------------------------

  function fillStatistics() {
    const several = data.panels.length > 1;
    const heads = data.panels.flatMap((panel, text) => {
      const part = partOf(panel);
      return part.statistics[state.words ? 1 : 0].map(([label, ...numbers], place) =>
        ({ text, layer: Math.floor(place / part.heads), head: place % part.heads, label, numbers }));
    });
    if (state.sorted >= 0) {
      const key = ({ numbers }) => numbers[state.sorted] ?? -1;
      heads.sort((a, b) => (state.down ? key(b) - key(a) : key(a) - key(b)));
    }
    const titles = data.columns.map(({ name, description }, place) => {
      const button = make("button", { type: "button", title: description, textContent: name });
      button.addEventListener("click", () => {
        state.down = state.sorted === place ? !state.down : true;
        state.sorted = place;
        fillStatistics();
        find("statistics").querySelectorAll("th button")[place].focus();
      });
      const order = state.sorted === place ? (state.down ? "descending" : "ascending") : "none";
      if (order !== "none") button.textContent += state.down ? " ↓" : " ↑";
      return make("th", { scope: "col", "aria-sort": order }, button);
    });
    const header = make("tr", {}, make("th", { textContent: "layer-head", scope: "col" }),
      ...(several ? [make("th", { textContent: "text", scope: "col" })] : []),
      make("th", { className: "label", textContent: "label", scope: "col" }), ...titles);
    const rows = heads.map(({ text, layer, head, label, numbers }) => {
      const button = make("button", { type: "button", textContent: `${layer + 1}-${head + 1}`, title: "open this head" });
      button.addEventListener("click", () => {
        open(layer, head);
        find("panels").scrollIntoView({ block: "start" });
      });
      const cells = numbers.map((number, place) => {
        const cell = make("td", { textContent: number === null ? "–" : number.toFixed(2) });
        if (number !== null && data.columns[place].share) {
          cell.className = "share";
          cell.style.setProperty("--weight", number);
        }
        return cell;
      });
      const row = make("tr", {}, make("td", {}, button),
        ...(several ? [make("td", { textContent: text + 1 })] : []), make("td", { className: "label", textContent: label }), ...cells);
      row.dataset.head = `${layer}-${head}`;
      return row;
    });
    find("statistics").replaceChildren(make("thead", {}, header), make("tbody", {}, ...rows));
    markStatistics();
  }

  function markStatistics() {
    const chosen = `${state.layer}-${state.head}`;
    for (const row of find("statistics").tBodies[0].rows) row.classList.toggle("chosen", row.dataset.head === chosen);
  }

  // --- controls --------------------------------------------------------------------------------------------------

  const panels = data.panels.map((panel, number) => new Panel(panel, number));
  const grids = data.panels.map((panel, number) => new Grid(panel, number));

  const choices = (count) => Array.from({ length: count }, (_, place) => make("option", { value: place, textContent: place + 1 }));
  const layers = make("select", { id: "layer" }), heads = make("select", { id: "head" });
  const parts = make("select", { id: "part" }, ...data.panels[0].parts.map(({ name }, place) =>
    make("option", { value: place, textContent: name })));
  const words = make("input", { type: "checkbox", id: "words" });
  const labelOfHead = make("span", { className: "faint", id: "label" });
  const labelled = (text, element) => make("label", {}, `${text} `, element);
  find("controls").append(...(parts.length > 1 ? [labelled("weights", parts)] : []), labelled("layer", layers),
    labelled("head", heads), make("label", {}, words, " whole words"), labelOfHead);
  find("controls").addEventListener("submit", (event) => event.preventDefault());
  parts.addEventListener("change", () => { state.part = Number(parts.value); redraw(); });
  words.addEventListener("change", () => { state.words = words.checked; redraw(); });
  for (const select of [layers, heads]) select.addEventListener("change", () => open(Number(layers.value), Number(heads.value)));

  // Move to another layer or head, cyclically.
  function turn(what, by) {
    const { layers: numLayers, heads: numHeads } = partOf(data.panels[0]);
    const place = state.layer * numHeads + state.head + (what === "head" ? by : by * numHeads);
    const around = (place + numLayers * numHeads) % (numLayers * numHeads);
    open(Math.floor(around / numHeads), around % numHeads);
  }

  function open(layer, head) {
    Object.assign(state, { layer, head });
    layers.value = layer;
    heads.value = head;
    const part = partOf(data.panels[0]), place = layer * part.heads + head;
    labelOfHead.textContent = data.panels.map((panel) => partOf(panel).statistics[state.words ? 1 : 0][place][0])
      .filter((label, number, all) => all.indexOf(label) === number).join(" / ");
    for (const panel of panels) panel.show();
    for (const grid of grids) grid.heads.mark(state);
    markStatistics();
  }

  // Redraw everything after another set of weights was selected, or words instead of tokens.
  function redraw() {
    const part = partOf(data.panels[0]);
    layers.replaceChildren(...choices(part.layers));
    heads.replaceChildren(...choices(part.heads));
    for (const panel of panels) panel.fill();
    for (const grid of grids) grid.fill();
    fillStatistics();
    open(Math.min(state.layer, part.layers - 1), Math.min(state.head, part.heads - 1));
  }

  for (const name of ["panels", "grids"]) find(name).classList.toggle("two", data.panels.length > 1);
  find("panels").append(...panels.map(({ element }) => element));
  find("grids").append(...grids.map(({ element }) => element));
  readColours();
  redraw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); redraw(); });
  requestAnimationFrame(() => performance.mark("ready"));
})();
