// Maps of the occurrences of a word, one for each model: a slider moves all of them through their layers.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const SIZE = 1000, EDGE = 60; // units of a map, and those left free around its points
const SHAPES = [
  "M-11 0a11 11 0 1 0 22 0a11 11 0 1 0-22 0z",
  "M-10-10h20v20h-20z",
  "M0-13L13 10H-13z",
  "M0-14L14 0L0 14L-14 0z",
  "M-4-12h8v8h8v8h-8v8h-8v-8h-8v-8h8z",
];
const slider = document.getElementById("layer");
const reading = document.getElementById("reading");
const lists = document.getElementById("lists");
let chosen = 0, hovered = null;

function make(name, attributes = {}, ...children) {
  const svg = ["svg", "path", "circle", "g", "title"].includes(name);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function colour(sense) {
  return sense < 0 ? "var(--faint)" : `var(--colour-${sense % 7})`;
}

function marker(sense) {
  return make("path", { d: SHAPES[Math.max(0, sense) % SHAPES.length], style: `color: ${colour(sense)}` });
}

// The layer of a model at the slider's place: all models are at their bottom and at their top together.
function layerOf(model) {
  const top = Math.max(...data.models.map((other) => other.layers.length - 1));
  return top ? Math.round((slider.value / top) * (model.layers.length - 1)) : 0;
}

function sentence(number) {
  const [before, word, after, sense] = data.occurrences[number];
  return make("span", {}, before, make("mark", { style: `--sense: ${colour(sense)}` }, word), after);
}

function badge(sense) {
  const icon = make("svg", { viewBox: "-16 -16 32 32", "aria-hidden": "true" }, marker(sense));
  return make("span", { class: "sense" }, icon, sense < 0 ? "not said" : data.senses[sense][0]);
}

function figures(layer) {
  return data.figures.map(([key, name]) => {
    const value = layer.figures[key], error = key === "accuracy" ? layer.figures.error : null;
    const text = value === null ? "–" : value.toFixed(3) + (error ? ` ± ${error.toFixed(3)}` : "");
    return make("div", {}, make("dt", {}, name), make("dd", {}, text));
  });
}

const cards = data.models.map((model) => {
  const points = data.occurrences.map(([, , , sense, asked], number) => {
    const point = marker(sense);
    point.dataset.number = number;
    point.setAttribute("class", asked ? "point asked" : "point");
    return point;
  });
  const ring = make("circle", { r: 22, class: "ring" });
  const map = make("svg", {
    viewBox: `0 0 ${SIZE} ${SIZE}`, class: "map", tabindex: "0", role: "application",
    "aria-label": `Map of the occurrences in ${model.name}; arrow keys walk over it`, "aria-describedby": "reading",
  }, ...points, ring);
  const where = make("span", { class: "where" });
  const list = make("dl", { class: "figures" });
  document.getElementById("maps").append(
    make("section", { class: "card" },
      make("h2", {}, model.name, " ", make("span", { class: "faint" }, model.about)),
      make("p", { class: "faint" }, where), list, map));

  const near = make("ol"), note = make("p", { class: "faint" });
  lists.append(make("section", {}, make("h3", {}, model.name), note, near));

  map.addEventListener("pointerover", (event) => hover(event.target.dataset.number));
  map.addEventListener("pointerleave", () => hover(undefined));
  map.addEventListener("click", (event) => event.target.dataset.number && choose(Number(event.target.dataset.number)));
  map.addEventListener("keydown", (event) => walk(event, model));
  return { model, points, ring, where, list, near, note };
});

function at(layer, number) {
  const scale = (SIZE / 2 - EDGE) / 1000;
  return [SIZE / 2 + scale * layer.points[2 * number], SIZE / 2 - scale * layer.points[2 * number + 1]];
}

// Every point of every map at its place in the layer that the slider says.
function move() {
  for (const { model, points, where, list } of cards) {
    const number = layerOf(model), layer = model.layers[number], top = model.layers.length - 1;
    points.forEach((point, place) => {
      const [x, y] = at(layer, place);
      point.style.translate = `${x}px ${y}px`;
    });
    const flat = layer.explained[0] === 0;
    const shares = layer.explained.map((share) => `${(100 * share).toFixed(0)} %`).join(" and ");
    where.textContent = (model.static ? "static: the one layer" : `layer ${number} of ${top}`)
      + (number === 0 && !model.static ? ", no other word known" : "")
      + (flat ? "; every occurrence has the same vector" : `; the axes show ${shares} of the variance`);
    list.replaceChildren(...figures(layer));
  }
  document.querySelectorAll("[data-layer]").forEach((row) => {
    const model = data.models[row.dataset.model];
    row.classList.toggle("now", Number(row.dataset.layer) === layerOf(model));
  });
  const said = data.models.map((model) => `${model.name} layer ${layerOf(model)}`).join(", ");
  slider.setAttribute("aria-valuetext", said);
  show();
}

// The occurrence that is pointed at, or else the one that was chosen: its sentence, and what is near it.
function show() {
  const number = hovered ?? chosen;
  const [, , , sense, asked] = data.occurrences[number];
  reading.replaceChildren(
    make("span", { class: "faint" }, `${number + 1} of ${data.occurrences.length}${asked ? ", asked" : ""} `),
    ...(data.senses.length ? [badge(sense), " "] : []), sentence(number));
  for (const { model, ring, near, note } of cards) {
    const layer = model.layers[layerOf(model)], [x, y] = at(layer, number);
    ring.style.translate = `${x}px ${y}px`;
    const cosines = layer.cosines[number];
    const same = cosines.length > 1 && cosines.every((cosine) => cosine === cosines[0]);
    note.textContent = same ? "All are as near as these." : "";
    near.replaceChildren(...layer.nearest[number].map((other, place) => {
      const button = make("button", { type: "button" }, sentence(other));
      button.addEventListener("click", () => choose(other));
      const theirs = data.senses.length ? [badge(data.occurrences[other][3])] : [];
      return make("li", {}, make("span", { class: "cosine" }, cosines[place].toFixed(3)), ...theirs, button);
    }));
  }
}

function hover(number) {
  hovered = number === undefined ? null : Number(number);
  show();
}

function choose(number) {
  chosen = number;
  hovered = null;
  show();
}

// To the nearest point in a direction; where there is none, as when all lie on each other, on in their order.
function walk(event, model) {
  const step = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  const total = data.occurrences.length;
  if (event.key === "Home" || event.key === "End") choose(event.key === "Home" ? 0 : total - 1);
  else if (step) {
    const layer = model.layers[layerOf(model)], [x, y] = at(layer, chosen);
    let best = null, least = Infinity;
    for (let other = 0; other < total; other++) {
      const [dx, dy] = at(layer, other).map((value, axis) => value - [x, y][axis]);
      const along = dx * step[0] + dy * step[1], across = Math.abs(dx * step[1]) + Math.abs(dy * step[0]);
      if (along > 0 && across <= along && along + across < least) [best, least] = [other, along + across];
    }
    choose(best ?? (chosen + step[0] + step[1] + total) % total);
  } else return;
  event.preventDefault();
}

document.getElementById("legend").append(...data.senses.map(([name, count], sense) => {
  const button = make("button", { type: "button", "aria-pressed": "false" }, badge(sense), ` ${count}`);
  button.addEventListener("click", () => {
    const alone = button.getAttribute("aria-pressed") !== "true";
    button.parentElement.querySelectorAll("button").forEach((other) => other.setAttribute("aria-pressed", "false"));
    button.setAttribute("aria-pressed", String(alone));
    for (const { points } of cards) {
      points.forEach((point, number) =>
        point.classList.toggle("dim", alone && data.occurrences[number][3] !== sense));
    }
  });
  return button;
}));
slider.addEventListener("input", move);
move();
requestAnimationFrame(() => document.body.classList.add("moving")); // not before all stand at their first places
