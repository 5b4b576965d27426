// One attention head as lines between query and key tokens and as a matrix, and a grid of all heads.
import { make } from "./dom.js";
import { draw } from "./attention_weights.js";

const ROW_HEIGHT = 22; // pixels per token
const MAX_TOKENS = 60; // beyond, only the lines of a selected token are drawn
const MIN_WEIGHT = 0.02; // of a line
const THUMBNAIL_SIZE = 40; // rows and columns of a matrix in the grid
const MAX_LISTED = 6; // weights in the description

// Visible strings, which the playground translates.
export const STRINGS = {
  all: "All tokens are shown.",
  attendsTo: (token, others) => `“${token}” attends to: ${others}`,
  attendedBy: (token, others) => `“${token}” is attended to by: ${others}`,
  cell: (token, other, weight) => `“${token}” attends to “${other}”: ${weight}`,
  nothing: "nothing in particular",
  queries: "query tokens",
  keys: "key tokens",
  weights: (layer, head) => `weights of layer ${layer}, head ${head}: one row per query token`,
  head: (layer, head, label) => `layer ${layer}, head ${head}${label ? `: ${label}` : ""}`,
};

export class HeadView {
  // `turn("layer" | "head", ±1)` is called by the keys that change the layer or head.
  constructor({ number = 0, strings = STRINGS, turn }) {
    Object.assign(this, { number, strings, turn, selected: null }); // selected: [0 query | 1 key, index]
    this.svg = make("svg", { "aria-hidden": "true" });
    this.columns = [0, 1].map((side) => this.column(side));
    this.lines = make("div", { className: "lines" }, this.columns[0], this.svg, this.columns[1]);
    this.canvas = make("canvas", { role: "img" });
    this.marker = make("div", { className: "row", hidden: true });
    this.status = make("p", { className: "head-status", role: "status" });
    this.canvas.addEventListener("mousemove", (event) => this.describeCell(event));
    this.canvas.addEventListener("mouseleave", () => this.highlight());
    this.canvas.addEventListener("click", (event) => this.select([0, this.cell(event)[0]]));
    const matrix = make("div", { className: "matrix" }, this.canvas, this.marker);
    this.view = make("div", { className: "view" }, this.lines, matrix);
  }

  column(side) {
    const element = make("div", { className: side ? "tokens" : "tokens left", role: "listbox", tabIndex: 0,
      "aria-label": side ? this.strings.keys : this.strings.queries });
    const place = (event) => [...element.children].indexOf(event.target.closest("[role=option]"));
    element.addEventListener("click", (event) => {
      const found = place(event);
      if (found >= 0) this.select(this.isSelected(side, found) ? null : [side, found]);
    });
    element.addEventListener("mouseover", (event) => {
      const found = place(event);
      if (found >= 0) this.highlight([side, found]);
    });
    element.addEventListener("mouseleave", () => this.highlight());
    element.addEventListener("keydown", (event) => this.key(event, side));
    return element;
  }

  isSelected(side, place) {
    return this.selected !== null && this.selected[0] === side && this.selected[1] === place;
  }

  key(event, side) {
    const last = this.columns[side].children.length - 1;
    const place = this.selected !== null && this.selected[0] === side ? this.selected[1] : -1;
    const moves = { ArrowDown: place + 1, ArrowUp: place < 0 ? last : place - 1, Home: 0, End: last };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in moves) this.select([side, Math.max(0, Math.min(last, moves[event.key]))]);
    else if (event.key === "Escape") this.select(null);
    else if (event.key === "ArrowRight" || event.key === "ArrowLeft") this.turn("head", event.key === "ArrowRight" ? 1 : -1);
    else if (event.key === "PageDown" || event.key === "PageUp") this.turn("layer", event.key === "PageDown" ? 1 : -1);
    else return;
    event.preventDefault();
  }

  select(selected) {
    this.selected = selected;
    this.highlight();
    if (selected === null) return;
    const token = this.columns[selected[0]].children[selected[1]], box = this.lines;
    const top = token.offsetTop - this.lines.offsetTop;
    if (top < box.scrollTop || top + ROW_HEIGHT > box.scrollTop + box.clientHeight) {
      box.scrollTop = top - box.clientHeight / 2;
    }
  }

  // Show other tokens: names of the queries and of the keys.
  fill(names) {
    this.names = names;
    this.columns.forEach((column, side) => {
      column.replaceChildren(...names[side].map(({ shown, token }, place) =>
        make("div", { role: "option", id: `token-${this.number}-${side}-${place}`, textContent: shown, title: token })));
    });
    const longest = Math.max(...names.map((side) => side.length)), height = ROW_HEIGHT * longest;
    this.svg.setAttribute("viewBox", `0 0 100 ${height}`);
    this.svg.setAttribute("preserveAspectRatio", "none");
    this.svg.style.setProperty("--lines-height", `${height}px`);
    this.selected = longest > MAX_TOKENS ? [0, Math.min(1, names[0].length - 1)] : null;
  }

  // Show the weights of another head.
  show(map, { layer, head }) {
    this.map = map;
    draw(this.canvas, map, 2048);
    this.canvas.setAttribute("aria-label", this.strings.weights(layer + 1, head + 1));
    this.highlight();
  }

  // Highlight the weights of the token under the pointer, or else of the selected one, or else all.
  highlight(hovered) {
    const { weights, rows, columns } = this.map, selected = hovered ?? this.selected;
    const paths = [];
    const line = (row, column) => {
      const weight = weights[row * columns + column];
      if (weight < MIN_WEIGHT) return;
      const [from, to] = [ROW_HEIGHT * (row + 0.5), ROW_HEIGHT * (column + 0.5)];
      paths.push(make("path", { d: `M0 ${from}C40 ${from} 60 ${to} 100 ${to}`,
        "stroke-opacity": Math.min(1, weight ** 0.8 + 0.05).toFixed(3), "stroke-width": (1 + 2.5 * weight).toFixed(2) }));
    };
    for (const column of this.columns) for (const token of column.children) {
      token.style.removeProperty("--weight");
      token.setAttribute("aria-selected", "false");
    }
    for (const column of this.columns) column.removeAttribute("aria-activedescendant");
    this.marker.hidden = selected === null || selected[0] === 1;
    if (selected === null) {
      for (let row = 0; row < rows; row++) for (let column = 0; column < columns; column++) line(row, column);
      this.status.textContent = this.strings.all;
    } else {
      const [side, place] = selected, others = this.columns[1 - side].children, found = [];
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
      const listed = found.slice(0, MAX_LISTED).filter(([weight]) => weight >= 0.005)
        .map(([weight, name]) => `${name} ${weight.toFixed(2)}`).join(" · ") || this.strings.nothing;
      const shown = this.names[side][place].shown;
      this.status.textContent = side ? this.strings.attendedBy(shown, listed) : this.strings.attendsTo(shown, listed);
    }
    this.svg.replaceChildren(...paths);
  }

  cell(event) {
    const box = this.canvas.getBoundingClientRect(), { rows, columns } = this.map;
    const place = (at, size, count) => Math.max(0, Math.min(count - 1, Math.floor((at / size) * count)));
    return [place(event.clientY - box.top, box.height, rows), place(event.clientX - box.left, box.width, columns)];
  }

  describeCell(event) {
    const [row, column] = this.cell(event), weight = this.map.weights[row * this.map.columns + column];
    this.status.textContent = this.strings.cell(this.names[0][row].shown, this.names[1][column].shown, weight.toFixed(3));
  }
}

// All heads, one row per layer and one column per head; a click opens one.
export class HeadGrid {
  constructor({ strings = STRINGS, open }) {
    Object.assign(this, { strings, open });
    this.element = make("div", { className: "grid" });
    // Drawn when scrolled into view: there may be hundreds.
    this.watch = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) {
          this.watch.unobserve(target);
          const [layer, head] = target.dataset.head.split("-").map(Number);
          draw(target.firstChild, this.mapOf(layer, head), THUMBNAIL_SIZE);
        }
      }
    }, { rootMargin: "100px" });
  }

  // `mapOf(layer, head)` returns weights, `labels` has the label of every head, layer by layer.
  fill({ layers, heads, mapOf, labels }) {
    this.mapOf = mapOf;
    this.watch.disconnect();
    const widest = heads > 16 ? 1.5 : Math.min(6, 60 / heads);
    this.element.style.gridTemplateColumns = `1.2rem repeat(${heads}, minmax(1.5rem, ${Math.max(widest, 1.6)}rem))`;
    this.element.replaceChildren(make("span"));
    for (let head = 0; head < heads; head++) this.element.append(make("span", { textContent: head + 1 }));
    for (let layer = 0; layer < layers; layer++) {
      this.element.append(make("span", { textContent: layer + 1 }));
      for (let head = 0; head < heads; head++) {
        const name = this.strings.head(layer + 1, head + 1, labels[layer * heads + head]);
        const button = make("button", { type: "button", title: name, "aria-label": name }, make("canvas"));
        button.dataset.head = `${layer}-${head}`;
        button.addEventListener("click", () => this.open(layer, head));
        this.element.append(button);
        this.watch.observe(button);
      }
    }
  }

  mark({ layer, head }) {
    for (const button of this.element.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(button.dataset.head === `${layer}-${head}`));
    }
  }
}
