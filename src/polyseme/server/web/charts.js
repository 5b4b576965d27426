// Line charts, and SVG files of probing results.
import { make } from "./dom.js";

const HEIGHT = 300, LEFT = 48, RIGHT = 16, TOP = 16, BOTTOM = 44;

// Four to eight round numbers in a range.
export function niceTicks(low, high) {
  const rough = (high - low) / 5 || 1, size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * size).find((each) => each >= 0.8 * rough);
  const numbers = [];
  for (let number = Math.ceil(low / step); number * step <= high * (1 + 1e-9); number++) numbers.push(number * step);
  return numbers.map((number) => Number(number.toPrecision(12)));
}

export function formatNumber(number) {
  const size = Math.abs(number);
  if (size >= 1e9) return `${Number((number / 1e9).toPrecision(3))}G`;
  if (size >= 1e6) return `${Number((number / 1e6).toPrecision(3))}M`;
  if (size >= 1e4) return `${Number((number / 1e3).toPrecision(3))}k`;
  return String(Number(number.toPrecision(4)));
}

// `series`: {name, number (of its colour), points: [[x, y], …], dots}.
export function lineChart(series, { label, xLabel }) {
  const width = Math.min(820, Math.max(340, document.documentElement.clientWidth - 32)); // in pixels, so that text is not scaled
  const points = series.flatMap((each) => each.points);
  const xs = points.map(([x]) => x), ys = points.map(([, y]) => y);
  const bounds = (values, margin) => {
    const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
    const spare = margin * (high - low) || margin * Math.abs(high) || 0.5;
    return [low - spare, high + spare];
  };
  const [low, high] = bounds(ys, 0.05), first = Math.min(0, ...bounds(xs, 0).slice(0, 1)), last = bounds(xs, 0)[1];
  const xOf = (x) => LEFT + ((width - LEFT - RIGHT) * (x - first)) / (last - first || 1);
  const yOf = (y) => TOP + ((HEIGHT - TOP - BOTTOM) * (high - y)) / (high - low);
  const parts = [];
  for (const y of niceTicks(low, high)) {
    parts.push(make("line", { x1: LEFT, x2: width - RIGHT, y1: yOf(y), y2: yOf(y), class: "rule" }),
      make("text", { x: LEFT - 8, y: yOf(y) + 4, "text-anchor": "end" }, formatNumber(y)));
  }
  for (const x of niceTicks(first, last)) {
    parts.push(make("text", { x: xOf(x), y: HEIGHT - BOTTOM + 20, "text-anchor": "middle" }, formatNumber(x)));
  }
  parts.push(make("text", { x: (LEFT + width - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle", class: "faint" }, xLabel));
  for (const { name, number, points: own, dots } of series) {
    const colour = `var(--colour-${number % 7})`, coordinates = own.map(([x, y]) => `${xOf(x).toFixed(1)},${yOf(y).toFixed(1)}`);
    const group = make("g", { style: { color: colour } }, make("title", {}, name));
    const kind = `curve${dots ? " dotted" : ""}${number > 6 ? " again" : ""}`; // colours repeat after the seventh
    if (own.length > 1) group.append(make("polyline", { points: coordinates.join(" "), class: kind }));
    if (dots || own.length === 1) {
      group.append(...own.map(([x, y]) => make("circle", { cx: xOf(x), cy: yOf(y), r: 3.5, class: "dot" })));
    }
    parts.push(group);
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

const ALLOWED_ELEMENTS = new Set(["svg", "g", "rect", "path", "text", "tspan", "title", "circle", "line", "polyline"]);
const ALLOWED_ATTRIBUTES = new Set(["viewBox", "role", "aria-label", "class", "font-family", "font-size", "font-weight", "text-anchor", "fill",
  "stroke", "stroke-width", "stroke-dasharray", "transform", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height",
  "d", "points"]);

// Parse an SVG file and copy its shapes and text only, because it may come from an untrusted run.
export function sanitizeSvg(text) {
  const root = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  return root.localName === "svg" ? copyElement(root) : null;
}

function copyElement(from) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", from.localName);
  for (const { name, value } of from.attributes) {
    if (ALLOWED_ATTRIBUTES.has(name) && !value.includes("url(")) element.setAttribute(name, value);
  }
  for (const child of from.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) element.append(child.data);
    else if (ALLOWED_ELEMENTS.has(child.localName)) element.append(copyElement(child));
  }
  return element;
}
