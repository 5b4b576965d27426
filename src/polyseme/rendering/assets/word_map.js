// A map of the occurrences of a word: one marker each, which moves from layer to layer and can be reached by keys.
import { make } from "./dom.js";

const SIZE = 1000, MARGIN = 60; // units of a map, and the margin around its markers
const SHAPES = [
  "M-11 0a11 11 0 1 0 22 0a11 11 0 1 0-22 0z",
  "M-10-10h20v20h-20z",
  "M0-13L13 10H-13z",
  "M0-14L14 0L0 14L-14 0z",
  "M-4-12h8v8h8v8h-8v8h-8v-8h-8v-8h8z",
];

export function colour(sense) {
  return sense < 0 ? "var(--faint)" : `var(--colour-${sense % 7})`;
}

export function marker(sense) {
  return make("path", { d: SHAPES[Math.max(0, sense) % SHAPES.length], style: { color: colour(sense) } });
}

// A marker inside a line of text.
export function icon(sense) {
  return make("svg", { viewBox: "-16 -16 32 32", "aria-hidden": "true", class: "badge" }, marker(sense));
}

export class WordMap {
  // `senses` has the sense of each occurrence. `hover` and `choose` receive an occurrence, `hover` also null at the end.
  constructor({ label, senses, hover, choose, hollow = [] }) {
    Object.assign(this, { choose, chosen: 0, places: [] });
    this.points = senses.map((sense, number) => {
      const point = marker(sense);
      point.dataset.number = number;
      point.setAttribute("class", hollow[number] ? "point hollow" : "point");
      return point;
    });
    this.ring = make("circle", { r: 22, class: "ring" });
    this.element = make("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, class: "map", tabindex: "0", role: "application",
      "aria-label": label }, ...this.points, this.ring);
    const number = ({ target }) => (target.dataset.number === undefined ? null : Number(target.dataset.number));
    this.element.addEventListener("pointerover", (event) => hover(number(event)));
    this.element.addEventListener("pointerleave", () => hover(null));
    this.element.addEventListener("click", (event) => number(event) !== null && choose(number(event)));
    this.element.addEventListener("keydown", (event) => this.walk(event));
  }

  // Move every marker to its position, [x, y] from -1 to 1.
  move(places) {
    this.places = places.map(([x, y]) => [SIZE / 2 + x * (SIZE / 2 - MARGIN), SIZE / 2 - y * (SIZE / 2 - MARGIN)]);
    this.points.forEach((point, number) => {
      const [x, y] = this.places[number];
      point.style.translate = `${x}px ${y}px`;
    });
  }

  // Put the ring around a marker; keys start from the chosen one.
  circle(number, chosen) {
    this.chosen = chosen;
    const [x, y] = this.places[number];
    this.ring.style.translate = `${x}px ${y}px`;
  }

  // Choose the nearest marker in a direction or, if there is none because all coincide, the next one.
  walk(event) {
    const step = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    const total = this.places.length;
    if (event.key === "Home" || event.key === "End") this.choose(event.key === "Home" ? 0 : total - 1);
    else if (step) {
      const [x, y] = this.places[this.chosen];
      let best = null, least = Infinity;
      for (let other = 0; other < total; other++) {
        const dx = this.places[other][0] - x, dy = this.places[other][1] - y;
        const along = dx * step[0] + dy * step[1], across = Math.abs(dx * step[1]) + Math.abs(dy * step[0]);
        if (along > 0 && across <= along && along + across < least) [best, least] = [other, along + across];
      }
      this.choose(best ?? (this.chosen + step[0] + step[1] + total) % total);
    } else return;
    event.preventDefault();
  }
}
