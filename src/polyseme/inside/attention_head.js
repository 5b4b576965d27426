// One head: lines between the tokens that look and those that are seen, and its weights as a matrix; and all heads.
import { make } from "./drawing.js";
import { draw } from "./attention_weights.js";

const ROW = 22; // pixels of a token
const MANY = 60; // tokens beyond which only those of a chosen one are drawn as lines
const FAINT = 0.02; // weights below are not drawn
const SMALL = 40; // rows and columns of a small matrix
const SAID = 6; // weights that are said in words

// What is said to a reader, which the playground says in other languages too.
export const SPOKEN = {
  all: "All tokens are shown.",
  looks: (token, others) => `“${token}” looks at: ${others}`,
  seen: (token, others) => `“${token}” is looked at by: ${others}`,
  cell: (token, other, weight) => `“${token}” looks at “${other}”: ${weight}`,
  nothing: "nothing in particular",
  looking: "tokens that look",
  lookedAt: "tokens that are looked at",
  weights: (layer, head) => `weights of layer ${layer}, head ${head}: a row for each token that looks`,
  head: (layer, head, label) => `layer ${layer}, head ${head}${label ? `: ${label}` : ""}`,
};

export class HeadView {
  // `turn` is told of keys that ask for another layer or head.
  constructor({ number = 0, spoken = SPOKEN, turn }) {
    Object.assign(this, { number, spoken, turn, chosen: null }); // chosen: [side, place]: 0 looks, 1 is looked at
    this.svg = make("svg", { "aria-hidden": "true" });
    this.columns = [0, 1].map((side) => this.column(side));
    this.lines = make("div", { className: "lines" }, this.columns[0], this.svg, this.columns[1]);
    this.canvas = make("canvas", { role: "img" });
    this.marker = make("div", { className: "row", hidden: true });
    this.said = make("p", { className: "said", role: "status" });
    this.canvas.addEventListener("mousemove", (event) => this.sayCell(event));
    this.canvas.addEventListener("mouseleave", () => this.light());
    this.canvas.addEventListener("click", (event) => this.choose([0, this.cell(event)[0]]));
    const matrix = make("div", { className: "matrix" }, this.canvas, this.marker);
    this.view = make("div", { className: "view" }, this.lines, matrix);
  }

  column(side) {
    const element = make("div", { className: side ? "tokens" : "tokens left", role: "listbox", tabIndex: 0,
      "aria-label": side ? this.spoken.lookedAt : this.spoken.looking });
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
    else if (event.key === "ArrowRight" || event.key === "ArrowLeft") this.turn("head", event.key === "ArrowRight" ? 1 : -1);
    else if (event.key === "PageDown" || event.key === "PageUp") this.turn("layer", event.key === "PageDown" ? 1 : -1);
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

  // The tokens anew, those that look and those that are seen, after the text or what counts as a token has changed.
  fill(names) {
    this.names = names;
    this.columns.forEach((column, side) => {
      column.replaceChildren(...names[side].map(({ shown, token }, place) =>
        make("div", { role: "option", id: `token-${this.number}-${side}-${place}`, textContent: shown, title: token })));
    });
    const longest = Math.max(...names.map((side) => side.length)), tall = ROW * longest;
    this.svg.setAttribute("viewBox", `0 0 100 ${tall}`);
    this.svg.setAttribute("preserveAspectRatio", "none");
    this.svg.style.setProperty("--tall", `${tall}px`);
    this.chosen = longest > MANY ? [0, Math.min(1, names[0].length - 1)] : null;
  }

  // The weights anew, after another head was chosen.
  show(map, { layer, head }) {
    this.map = map;
    draw(this.canvas, map, 2048);
    this.canvas.setAttribute("aria-label", this.spoken.weights(layer + 1, head + 1));
    this.light();
  }

  // What a token looks at, or who looks at it; without one, all.
  light(passing) {
    const { weights, rows, columns } = this.map, chosen = passing ?? this.chosen;
    const paths = [];
    const line = (row, column) => {
      const weight = weights[row * columns + column];
      if (weight < FAINT) return;
      const [from, to] = [ROW * (row + 0.5), ROW * (column + 0.5)];
      paths.push(make("path", { d: `M0 ${from}C40 ${from} 60 ${to} 100 ${to}`,
        "stroke-opacity": Math.min(1, weight ** 0.8 + 0.05).toFixed(3), "stroke-width": (1 + 2.5 * weight).toFixed(2) }));
    };
    for (const column of this.columns) for (const token of column.children) {
      token.style.removeProperty("--weight");
      token.setAttribute("aria-selected", "false");
    }
    for (const column of this.columns) column.removeAttribute("aria-activedescendant");
    this.marker.hidden = chosen === null || chosen[0] === 1;
    if (chosen === null) {
      for (let row = 0; row < rows; row++) for (let column = 0; column < columns; column++) line(row, column);
      this.said.textContent = this.spoken.all;
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
        .map(([weight, name]) => `${name} ${weight.toFixed(2)}`).join(" · ") || this.spoken.nothing;
      const shown = this.names[side][place].shown;
      this.said.textContent = side ? this.spoken.seen(shown, said) : this.spoken.looks(shown, said);
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
    this.said.textContent = this.spoken.cell(this.names[0][row].shown, this.names[1][column].shown, weight.toFixed(3));
  }
}

// All heads, a row for each layer and a column for each head; a click opens one.
export class HeadGrid {
  constructor({ spoken = SPOKEN, open }) {
    Object.assign(this, { spoken, open });
    this.element = make("div", { className: "grid" });
    // Drawn when they come into view: there may be hundreds.
    this.watch = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) {
          this.watch.unobserve(target);
          const [layer, head] = target.dataset.head.split("-").map(Number);
          draw(target.firstChild, this.mapOf(layer, head), SMALL);
        }
      }
    }, { rootMargin: "100px" });
  }

  // `mapOf` gives the weights of a head, `labels` what each is called, layer by layer.
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
        const name = this.spoken.head(layer + 1, head + 1, labels[layer * heads + head]);
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
