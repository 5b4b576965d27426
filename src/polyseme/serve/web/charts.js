// Curves over steps, as a drawing that scales with the page.
import { make } from "./dom.js";

const HEIGHT = 300, LEFT = 48, RIGHT = 16, TOP = 16, BOTTOM = 44;

// Some four to eight round numbers between two others.
export function roundNumbers(low, high) {
  const rough = (high - low) / 5 || 1, size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * size).find((each) => each >= 0.8 * rough);
  const numbers = [];
  for (let number = Math.ceil(low / step); number * step <= high * (1 + 1e-9); number++) numbers.push(number * step);
  return numbers.map((number) => Number(number.toPrecision(12)));
}

export function short(number) {
  const size = Math.abs(number);
  if (size >= 1e9) return `${Number((number / 1e9).toPrecision(3))}G`;
  if (size >= 1e6) return `${Number((number / 1e6).toPrecision(3))}M`;
  if (size >= 1e4) return `${Number((number / 1e3).toPrecision(3))}k`;
  return String(Number(number.toPrecision(4)));
}

// `series`: {name, number (its colour), points: [[x, y], …], dots}; `across` names what lies along the bottom.
export function curves(series, { label, across }) {
  const width = Math.min(820, Math.max(340, document.documentElement.clientWidth - 32)); // letters stay as large as they are
  const points = series.flatMap((each) => each.points);
  const xs = points.map(([x]) => x), ys = points.map(([, y]) => y);
  const bounds = (values, room) => {
    const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
    const spare = room * (high - low) || room * Math.abs(high) || 0.5;
    return [low - spare, high + spare];
  };
  const [low, high] = bounds(ys, 0.05), first = Math.min(0, ...bounds(xs, 0).slice(0, 1)), last = bounds(xs, 0)[1];
  const right = (x) => LEFT + ((width - LEFT - RIGHT) * (x - first)) / (last - first || 1);
  const down = (y) => TOP + ((HEIGHT - TOP - BOTTOM) * (high - y)) / (high - low);
  const parts = [];
  for (const y of roundNumbers(low, high)) {
    parts.push(make("line", { x1: LEFT, x2: width - RIGHT, y1: down(y), y2: down(y), class: "rule" }),
      make("text", { x: LEFT - 8, y: down(y) + 4, "text-anchor": "end" }, short(y)));
  }
  for (const x of roundNumbers(first, last)) {
    parts.push(make("text", { x: right(x), y: HEIGHT - BOTTOM + 20, "text-anchor": "middle" }, short(x)));
  }
  parts.push(make("text", { x: (LEFT + width - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle", class: "faint" }, across));
  for (const { name, number, points: mine, dots } of series) {
    const colour = `var(--colour-${number % 7})`, places = mine.map(([x, y]) => `${right(x).toFixed(1)},${down(y).toFixed(1)}`);
    const drawn = make("g", { style: { color: colour } }, make("title", {}, name));
    const kind = `curve${dots ? " dotted" : ""}${number > 6 ? " again" : ""}`; // the colours begin again at the eighth
    if (mine.length > 1) drawn.append(make("polyline", { points: places.join(" "), class: kind }));
    if (dots || mine.length === 1) {
      drawn.append(...mine.map(([x, y]) => make("circle", { cx: right(x), cy: down(y), r: 3.5, class: "dot" })));
    }
    parts.push(drawn);
  }
  return make("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": label, class: "chart" }, ...parts);
}

export function swatch(number) {
  const style = { "--mine": `var(--colour-${number % 7})` };
  return make("span", { className: number > 6 ? "swatch again" : "swatch", style });
}

export function legend(series) {
  return make("ul", { className: "legend" }, ...series.map(({ name, number }) => make("li", {}, swatch(number), name)));
}

const KNOWN = new Set(["svg", "g", "rect", "path", "text", "tspan", "title", "circle", "line", "polyline"]);
const KEPT = new Set(["viewBox", "role", "aria-label", "class", "font-family", "font-size", "font-weight", "text-anchor", "fill",
  "stroke", "stroke-width", "stroke-dasharray", "transform", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height",
  "d", "points"]);

// A drawing that came as text: only shapes and letters of it are taken over, since a run may be anybody's.
export function adopted(text) {
  const root = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  return root.localName === "svg" ? shape(root) : null;
}

function shape(from) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", from.localName);
  for (const { name, value } of from.attributes) {
    if (KEPT.has(name) && !value.includes("url(")) element.setAttribute(name, value);
  }
  for (const child of from.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) element.append(child.data);
    else if (KNOWN.has(child.localName)) element.append(shape(child));
  }
  return element;
}
