"use strict";
// The page of `polyseme attention`: one head in lines and as a matrix, all heads small, and their numbers.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const ROW = 22; // pixels of a token
  const MANY = 60; // tokens beyond which only those of a chosen one are drawn as lines
  const FAINT = 0.02; // weights below are not drawn
  const SMALL = 40; // rows and columns of a small matrix
  const SAID = 6; // weights that are said in words

  const state = { part: 0, layer: 0, head: 0, words: false, sorted: -1, down: true };
  const find = (id) => document.getElementById(id);

  // Texts are only ever set as text.
  function make(name, properties = {}, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(properties)) {
      if (key in element && key !== "role") element[key] = value;
      else element.setAttribute(key, value);
    }
    element.append(...children);
    return element;
  }

  const partOf = (panel) => panel.parts[Math.min(state.part, panel.parts.length - 1)];

  function lineOf(line) {
    if (!state.words) return line.shown.map((shown, place) => ({ shown, token: line.tokens[place] }));
    return line.words.map((first, number) => {
      const pieces = line.tokens.slice(first, line.words[number + 1] ?? line.tokens.length);
      return { shown: line.spelt[number], token: pieces.join(" ") };
    });
  }

  // --- one head --------------------------------------------------------------------------------------------------

  class Panel {
    constructor(panel, number) {
      this.panel = panel;
      this.number = number;
      this.chosen = null; // [side, place]: 0 looks, 1 is looked at
      this.svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      this.svg.setAttribute("aria-hidden", "true");
      this.columns = [0, 1].map((side) => this.column(side));
      this.lines = make("div", { className: "lines" }, this.columns[0], this.svg, this.columns[1]);
      this.canvas = make("canvas", { role: "img" });
      this.marker = make("div", { className: "row", hidden: true });
      this.said = make("p", { className: "said", role: "status" });
      this.canvas.addEventListener("mousemove", (event) => this.sayCell(event));
      this.canvas.addEventListener("mouseleave", () => this.light());
      this.canvas.addEventListener("click", (event) => this.choose([0, this.cell(event)[0]]));
      const matrix = make("div", { className: "matrix" }, this.canvas, this.marker);
      const view = make("div", { className: "view" }, this.lines, matrix);
      const texts = panel.texts.map((text) => `“${text}”`).join(" + ");
      this.element = make("section", { className: "panel", "aria-label": `text ${number + 1}` },
        make("h3", { textContent: texts }), this.said, view);
    }

    column(side) {
      const element = make("div", { className: side ? "tokens" : "tokens left", role: "listbox", tabIndex: 0,
        "aria-label": side ? "tokens that are looked at" : "tokens that look" });
      const place = (event) => [...element.children].indexOf(event.target.closest("[role=option]"));
      element.addEventListener("click", (event) => {
        const found = place(event);
        if (found >= 0) this.choose(this.isChosen(side, found) ? null : [side, found]);
      });
      element.addEventListener("mouseover", (event) => {
        const found = place(event);
        if (found >= 0) this.light([side, found]);
      });
      element.addEventListener("mouseleave", () => this.light());
      element.addEventListener("keydown", (event) => this.key(event, side));
      return element;
    }

    isChosen(side, place) {
      return this.chosen !== null && this.chosen[0] === side && this.chosen[1] === place;
    }

    key(event, side) {
      const last = this.columns[side].children.length - 1;
      const place = this.chosen !== null && this.chosen[0] === side ? this.chosen[1] : -1;
      const moves = { ArrowDown: place + 1, ArrowUp: place < 0 ? last : place - 1, Home: 0, End: last };
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key in moves) this.choose([side, Math.max(0, Math.min(last, moves[event.key]))]);
      else if (event.key === "Escape") this.choose(null);
      else if (event.key === "ArrowRight" || event.key === "ArrowLeft") turn("head", event.key === "ArrowRight" ? 1 : -1);
      else if (event.key === "PageDown" || event.key === "PageUp") turn("layer", event.key === "PageDown" ? 1 : -1);
      else return;
      event.preventDefault();
    }

    choose(chosen) {
      this.chosen = chosen;
      this.light();
      if (chosen === null) return;
      const token = this.columns[chosen[0]].children[chosen[1]], box = this.lines;
      const top = token.offsetTop - this.lines.offsetTop;
      if (top < box.scrollTop || top + ROW > box.scrollTop + box.clientHeight) {
        box.scrollTop = top - box.clientHeight / 2;
      }
    }

    // The tokens anew, after the text or what counts as a token has changed.
    fill() {
      const part = partOf(this.panel);
      this.names = [lineOf(part.line), lineOf(part.seen ?? part.line)];
      this.columns.forEach((column, side) => {
        column.replaceChildren(...this.names[side].map(({ shown, token }, place) =>
          make("div", { role: "option", id: `token-${this.number}-${side}-${place}`, textContent: shown, title: token })));
      });
      const tall = ROW * Math.max(...this.names.map((names) => names.length));
      this.svg.setAttribute("viewBox", `0 0 100 ${tall}`);
      this.svg.setAttribute("preserveAspectRatio", "none");
      this.svg.style.setProperty("--tall", `${tall}px`);
      this.many = Math.max(...this.names.map((names) => names.length)) > MANY;
      this.chosen = this.many ? [0, Math.min(1, this.names[0].length - 1)] : null;
    }

    // The weights anew, after another head was chosen.
    show() {
      this.map = weightsOf(partOf(this.panel), state);
      draw(this.canvas, this.map, 2048);
      const title = `layer ${state.layer + 1}, head ${state.head + 1}`;
      this.canvas.setAttribute("aria-label", `weights of ${title}: a row for each token that looks`);
      this.light();
    }

    // What a token looks at, or who looks at it; without one, all.
    light(passing) {
      const { weights, rows, columns } = this.map, chosen = passing ?? this.chosen;
      const paths = [];
      const line = (row, column) => {
        const weight = weights[row * columns + column];
        if (weight < FAINT) return;
        const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
        const [from, to] = [ROW * (row + 0.5), ROW * (column + 0.5)];
        path.setAttribute("d", `M0 ${from}C40 ${from} 60 ${to} 100 ${to}`);
        path.setAttribute("stroke-opacity", Math.min(1, weight ** 0.8 + 0.05).toFixed(3));
        path.setAttribute("stroke-width", (1 + 2.5 * weight).toFixed(2));
        paths.push(path);
      };
      for (const column of this.columns) for (const token of column.children) {
        token.style.removeProperty("--weight");
        token.setAttribute("aria-selected", "false");
      }
      for (const column of this.columns) column.removeAttribute("aria-activedescendant");
      this.marker.hidden = chosen === null || chosen[0] === 1;
      if (chosen === null) {
        for (let row = 0; row < rows; row++) for (let column = 0; column < columns; column++) line(row, column);
        this.said.textContent = "All tokens are shown.";
      } else {
        const [side, place] = chosen, others = this.columns[1 - side].children, found = [];
        for (let other = 0; other < others.length; other++) {
          const [row, column] = side ? [other, place] : [place, other];
          const weight = weights[row * columns + column];
          others[other].style.setProperty("--weight", weight.toFixed(3));
          found.push([weight, this.names[1 - side][other].shown]);
          line(row, column);
        }
        const token = this.columns[side].children[place];
        token.setAttribute("aria-selected", "true");
        this.columns[side].setAttribute("aria-activedescendant", token.id);
        this.marker.style.top = `${(100 * place) / rows}%`;
        this.marker.style.height = `${100 / rows}%`;
        found.sort((a, b) => b[0] - a[0]);
        const said = found.slice(0, SAID).filter(([weight]) => weight >= 0.005)
          .map(([weight, name]) => `${name} ${weight.toFixed(2)}`);
        const verb = side ? "is looked at by" : "looks at";
        this.said.textContent = `“${this.names[side][place].shown}” ${verb}: ${said.join(" · ") || "nothing in particular"}`;
      }
      this.svg.replaceChildren(...paths);
    }

    cell(event) {
      const box = this.canvas.getBoundingClientRect(), { rows, columns } = this.map;
      const place = (at, size, count) => Math.max(0, Math.min(count - 1, Math.floor((at / size) * count)));
      return [place(event.clientY - box.top, box.height, rows), place(event.clientX - box.left, box.width, columns)];
    }

    sayCell(event) {
      const [row, column] = this.cell(event), weight = this.map.weights[row * this.map.columns + column];
      const [looking, seen] = [this.names[0][row].shown, this.names[1][column].shown];
      this.said.textContent = `“${looking}” looks at “${seen}”: ${weight.toFixed(3)}`;
    }
  }

  // --- all heads -------------------------------------------------------------------------------------------------

  class Grid {
    constructor(panel, number) {
      this.panel = panel;
      this.element = make("div", { className: "panel", "aria-label": `all heads, text ${number + 1}`, role: "group" });
      // Drawn when they come into view: there may be hundreds.
      this.watch = new IntersectionObserver((entries) => {
        for (const { target, isIntersecting } of entries) {
          if (isIntersecting) {
            this.watch.unobserve(target);
            const [layer, head] = target.dataset.head.split("-").map(Number);
            draw(target.firstChild, weightsOf(partOf(this.panel), { ...state, layer, head }), SMALL);
          }
        }
      }, { rootMargin: "100px" });
    }

    fill() {
      const part = partOf(this.panel);
      this.watch.disconnect();
      const grid = make("div", { className: "grid" });
      const widest = part.heads > 16 ? 1.5 : Math.min(6, 60 / part.heads);
      grid.style.gridTemplateColumns = `1.2rem repeat(${part.heads}, minmax(1.5rem, ${Math.max(widest, 1.6)}rem))`;
      grid.append(make("span"));
      for (let head = 0; head < part.heads; head++) grid.append(make("span", { textContent: head + 1 }));
      for (let layer = 0; layer < part.layers; layer++) {
        grid.append(make("span", { textContent: layer + 1 }));
        for (let head = 0; head < part.heads; head++) {
          const label = part.numbers[state.words ? 1 : 0][layer * part.heads + head][0];
          const name = `layer ${layer + 1}, head ${head + 1}: ${label}`;
          const button = make("button", { type: "button", title: name, "aria-label": name }, make("canvas"));
          button.dataset.head = `${layer}-${head}`;
          button.addEventListener("click", () => {
            open(layer, head);
            find("panels").scrollIntoView({ block: "start" });
          });
          grid.append(button);
          this.watch.observe(button);
        }
      }
      this.element.replaceChildren(...(data.panels.length > 1 ? [make("h3", { textContent: `“${this.panel.texts.join("” + “")}”` })] : []), grid);
    }

    mark() {
      const chosen = `${state.layer}-${state.head}`;
      for (const button of this.element.querySelectorAll("button")) {
        button.setAttribute("aria-pressed", String(button.dataset.head === chosen));
      }
    }
  }

  // --- numbers ---------------------------------------------------------------------------------------------------

  function fillNumbers() {
    const several = data.panels.length > 1;
    const heads = data.panels.flatMap((panel, text) => {
      const part = partOf(panel);
      return part.numbers[state.words ? 1 : 0].map(([label, ...numbers], place) =>
        ({ text, layer: Math.floor(place / part.heads), head: place % part.heads, label, numbers }));
    });
    if (state.sorted >= 0) {
      const key = ({ numbers }) => numbers[state.sorted] ?? -1;
      heads.sort((a, b) => (state.down ? key(b) - key(a) : key(a) - key(b)));
    }
    const titles = data.columns.map(({ name, says }, place) => {
      const button = make("button", { type: "button", title: says, textContent: name });
      button.addEventListener("click", () => {
        state.down = state.sorted === place ? !state.down : true;
        state.sorted = place;
        fillNumbers();
        find("numbers").querySelectorAll("th button")[place].focus();
      });
      const order = state.sorted === place ? (state.down ? "descending" : "ascending") : "none";
      if (order !== "none") button.textContent += state.down ? " ↓" : " ↑";
      return make("th", { scope: "col", "aria-sort": order }, button);
    });
    const header = make("tr", {}, make("th", { textContent: "layer-head", scope: "col" }),
      ...(several ? [make("th", { textContent: "text", scope: "col" })] : []),
      make("th", { className: "called", textContent: "called", scope: "col" }), ...titles);
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
        ...(several ? [make("td", { textContent: text + 1 })] : []), make("td", { className: "called", textContent: label }), ...cells);
      row.dataset.head = `${layer}-${head}`;
      return row;
    });
    find("numbers").replaceChildren(make("thead", {}, header), make("tbody", {}, ...rows));
    markNumbers();
  }

  function markNumbers() {
    const chosen = `${state.layer}-${state.head}`;
    for (const row of find("numbers").tBodies[0].rows) row.classList.toggle("chosen", row.dataset.head === chosen);
  }

  // --- choosing --------------------------------------------------------------------------------------------------

  const panels = data.panels.map((panel, number) => new Panel(panel, number));
  const grids = data.panels.map((panel, number) => new Grid(panel, number));

  const choices = (count) => Array.from({ length: count }, (_, place) => make("option", { value: place, textContent: place + 1 }));
  const layers = make("select", { id: "layer" }), heads = make("select", { id: "head" });
  const parts = make("select", { id: "part" }, ...data.panels[0].parts.map(({ name }, place) =>
    make("option", { value: place, textContent: name })));
  const words = make("input", { type: "checkbox", id: "words" });
  const called = make("span", { className: "faint", id: "called" });
  const labelled = (text, element) => make("label", {}, `${text} `, element);
  find("controls").append(...(parts.length > 1 ? [labelled("weights", parts)] : []), labelled("layer", layers),
    labelled("head", heads), make("label", {}, words, " whole words"), called);
  find("controls").addEventListener("submit", (event) => event.preventDefault());
  parts.addEventListener("change", () => { state.part = Number(parts.value); renew(); });
  words.addEventListener("change", () => { state.words = words.checked; renew(); });
  for (const select of [layers, heads]) select.addEventListener("change", () => open(Number(layers.value), Number(heads.value)));

  // Another layer or head, around at the ends.
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
    called.textContent = data.panels.map((panel) => partOf(panel).numbers[state.words ? 1 : 0][place][0])
      .filter((label, number, all) => all.indexOf(label) === number).join(" / ");
    for (const panel of panels) panel.show();
    for (const grid of grids) grid.mark();
    markNumbers();
  }

  // All anew, after another set of weights was chosen, or words for pieces.
  function renew() {
    const part = partOf(data.panels[0]);
    layers.replaceChildren(...choices(part.layers));
    heads.replaceChildren(...choices(part.heads));
    for (const panel of panels) panel.fill();
    for (const grid of grids) grid.fill();
    fillNumbers();
    open(Math.min(state.layer, part.layers - 1), Math.min(state.head, part.heads - 1));
  }

  for (const name of ["panels", "grids"]) find(name).classList.toggle("two", data.panels.length > 1);
  find("panels").append(...panels.map(({ element }) => element));
  find("grids").append(...grids.map(({ element }) => element));
  readColours();
  renew();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); renew(); });
  requestAnimationFrame(() => performance.mark("ready"));
})();
