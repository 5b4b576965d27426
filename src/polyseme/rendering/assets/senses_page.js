// The page of `polyseme senses`: maps of the occurrences of a word, one per model, and a slider for the layer.
import { make } from "./dom.js";
import { WordMap, colour, icon } from "./word_map.js";

const data = JSON.parse(document.getElementById("data").textContent);
const slider = document.getElementById("layer");
const reading = document.getElementById("reading");
const lists = document.getElementById("lists");
let chosen = 0, hovered = null;

// The layer of a model at the slider's position, whose ends are the bottom and the top of every model.
function layerOf(model) {
  const top = Math.max(...data.models.map((other) => other.layers.length - 1));
  return top ? Math.round((slider.value / top) * (model.layers.length - 1)) : 0;
}

function sentence(number) {
  const [before, word, after, sense] = data.occurrences[number];
  return make("span", {}, before, make("mark", { style: { "--sense": colour(sense) } }, word), after);
}

function badge(sense) {
  return make("span", { class: "sense" }, icon(sense), sense < 0 ? "unknown sense" : data.senses[sense][0]);
}

function metricsOf(layer) {
  return data.metrics.map(([key, name]) => {
    const value = layer.metrics[key], error = key === "accuracy" ? layer.metrics.error : null;
    const text = value === null ? "–" : value.toFixed(3) + (error ? ` ± ${error.toFixed(3)}` : "");
    return make("div", {}, make("dt", {}, name), make("dd", {}, text));
  });
}

const cards = data.models.map((model) => {
  const map = new WordMap({
    label: `Map of the occurrences in ${model.name}; arrow keys move between occurrences`,
    senses: data.occurrences.map(([, , , sense]) => sense), hollow: data.occurrences.map(([, , , , isTest]) => isTest),
    hover, choose,
  });
  map.element.setAttribute("aria-describedby", "reading");
  const where = make("span", { class: "where" });
  const list = make("dl", { class: "metrics" });
  document.getElementById("maps").append(
    make("section", { class: "card" },
      make("h2", {}, model.name, " ", make("span", { class: "faint" }, model.description)),
      make("p", { class: "faint" }, where), list, map.element));

  const near = make("ol"), note = make("p", { class: "faint" });
  lists.append(make("section", {}, make("h3", {}, model.name), note, near));

  return { model, map, where, list, near, note };
});

// Move every point to its position in the current layer.
function move() {
  for (const { model, map, where, list } of cards) {
    const number = layerOf(model), layer = model.layers[number], top = model.layers.length - 1;
    map.move(data.occurrences.map((_, place) => [layer.points[2 * place] / 1000, layer.points[2 * place + 1] / 1000]));
    const flat = layer.explained[0] === 0;
    const shares = layer.explained.map((share) => `${(100 * share).toFixed(0)} %`).join(" and ");
    where.textContent = (model.static ? "static: a single layer" : `layer ${number} of ${top}`)
      + (number === 0 && !model.static ? ", without context" : "")
      + (flat ? "; every occurrence has the same vector" : `; the axes show ${shares} of the variance`);
    list.replaceChildren(...metricsOf(layer));
  }
  document.querySelectorAll("[data-layer]").forEach((row) => {
    const model = data.models[row.dataset.model];
    row.classList.toggle("now", Number(row.dataset.layer) === layerOf(model));
  });
  const layers = data.models.map((model) => `${model.name} layer ${layerOf(model)}`).join(", ");
  slider.setAttribute("aria-valuetext", layers);
  show();
}

// Show the hovered occurrence, or else the chosen one: its sentence and its nearest neighbours.
function show() {
  const number = hovered ?? chosen;
  const [, , , sense, isTest] = data.occurrences[number];
  reading.replaceChildren(
    make("span", { class: "faint" }, `${number + 1} of ${data.occurrences.length}${isTest ? ", test" : ""} `),
    ...(data.senses.length ? [badge(sense), " "] : []), sentence(number));
  for (const { model, map, near, note } of cards) {
    const layer = model.layers[layerOf(model)];
    map.circle(number, chosen);
    const cosines = layer.cosines[number];
    const same = cosines.length > 1 && cosines.every((cosine) => cosine === cosines[0]);
    note.textContent = same ? "All occurrences are equally near." : "";
    near.replaceChildren(...layer.nearest[number].map((other, place) => {
      const button = make("button", { type: "button" }, sentence(other));
      button.addEventListener("click", () => choose(other));
      const theirs = data.senses.length ? [badge(data.occurrences[other][3])] : [];
      return make("li", {}, make("span", { class: "cosine" }, cosines[place].toFixed(3)), ...theirs, button);
    }));
  }
}

function hover(number) {
  hovered = number;
  show();
}

function choose(number) {
  chosen = number;
  hovered = null;
  show();
}

document.getElementById("legend").append(...data.senses.map(([name, count], sense) => {
  const button = make("button", { type: "button", "aria-pressed": "false" }, badge(sense), ` ${count}`);
  button.addEventListener("click", () => {
    const alone = button.getAttribute("aria-pressed") !== "true";
    button.parentElement.querySelectorAll("button").forEach((other) => other.setAttribute("aria-pressed", "false"));
    button.setAttribute("aria-pressed", String(alone));
    for (const { map } of cards) {
      map.points.forEach((point, number) =>
        point.classList.toggle("dim", alone && data.occurrences[number][3] !== sense));
    }
  });
  return button;
}));
slider.addEventListener("input", move);
move();
requestAnimationFrame(() => document.body.classList.add("moving")); // after all points have their first position
