// Senses: sentences with one word in several uses, and where each model puts it, layer by layer.
import { ask } from "../api.js";
import { asking } from "../asking.js";
import { calls, library } from "../calls.js";
import { button, card, field, form, make, textArea, textInput } from "../dom.js";
import { example } from "../examples.js";
import { WordMap, colour, icon } from "../inside/word_map.js";
import { about, isStatic, severalModels } from "../models.js";
import { say } from "../strings.js";

export const can = ["senses"];

// Lines of text with the number of their group; a blank line begins another use of the word.
export function usesOf(text) {
  const found = [];
  let use = 0, fresh = false;
  for (const line of text.split("\n")) {
    if (line.trim() === "") fresh = found.length > 0;
    else {
      if (fresh) use++;
      fresh = false;
      found.push({ text: line.trim(), use });
    }
  }
  return found;
}

export function open(context, models) {
  const chosen = severalModels(context, models);
  const word = textInput(context.get("word", example("senses").word));
  const texts = textArea(context.get("texts", example("senses").texts), { rows: 8 });
  const slider = make("input", { type: "range", min: 0, "aria-label": say("layer") });
  const sentences = make("ol", { className: "sentences" });
  const maps = make("div", { className: "side-by-side" });
  const results = make("div", { hidden: true }, make("div", { className: "slider" }, say("bottom"), slider, say("top")), maps,
    make("h3", {}, say("sentences")), sentences);
  const { line, ask: start } = asking(context, results);
  const called = calls();
  let cards = [], points = [], passing = null, picked = 0;

  function run() {
    const uses = usesOf(texts.value), askedModels = chosen.chosen;
    const body = { word: word.value.trim(), texts: uses.map(({ text }) => text) };
    if (!askedModels.length) {
      line.textContent = say("chooseModel");
      return;
    }
    called.tell({ path: "v1/senses", body: { model: askedModels.at(-1).id, ...body } },
      library(askedModels.at(-1), "senses", [body.word, body.texts]));
    return start(async (signal) => {
      const found = await Promise.all(askedModels.map((model) => ask("v1/senses", { model: model.id, ...body }, signal)));
      points = found[0].layers[0].points.map(({ text, start: from, end }) => {
        const { text: whole, use } = uses[text];
        return { text: whole, use, start: from, end };
      });
      picked = 0;
      const top = Math.max(...found.map(({ layers }) => layers.length - 1)); // a step of the slider is a layer of the deepest
      slider.max = top;
      slider.value = context.get("layer", top);
      slider.disabled = top === 0;
      cards = found.map(({ layers }, place) => mapCard(askedModels[place], layers));
      maps.replaceChildren(...cards.map(({ element }) => element));
      sentences.replaceChildren(...points.map((point, number) => sentence(point, number)));
      results.hidden = false;
      move();
      requestAnimationFrame(() => results.classList.add("moving")); // not before all stand at their first places
      return say("occurrences", { count: points.length });
    });
  }

  function mapCard(model, layers) {
    const map = new WordMap({ label: say("mapOf", { model: model.id }), senses: points.map(({ use }) => use), hover, choose });
    const where = make("p", { className: "faint" });
    return { layers, map, where, fixed: isStatic(model),
      element: card(model.id, make("span", { className: "tag" }, about(model).family ?? ""), where, map.element) };
  }

  function sentence({ text, start: from, end, use }, number) {
    const characters = [...text], part = (...bounds) => characters.slice(...bounds).join("");
    const marked = make("mark", { style: { "--sense": colour(use) } }, part(from, end));
    const shown = button("", { kind: "plain" });
    shown.append(icon(use), part(0, from), marked, part(end));
    shown.addEventListener("mouseenter", () => hover(number));
    shown.addEventListener("mouseleave", () => hover(null));
    shown.addEventListener("focus", () => choose(number));
    shown.addEventListener("click", () => choose(number));
    return make("li", {}, shown);
  }

  // All models are at their bottom and at their top together.
  function move() {
    for (const { layers, map, where, fixed } of cards) {
      const number = Math.round((slider.value / (Number(slider.max) || 1)) * (layers.length - 1));
      const places = centred(layers[number].points);
      map.move(places);
      const same = places.every(([x, y]) => x === places[0][0] && y === places[0][1]);
      where.textContent = (fixed ? say("static") : say("layerOf", { number, last: layers.length - 1 }))
        + (same && points.length > 1 ? say("samePlace") : "");
    }
    slider.setAttribute("aria-valuetext", cards.map(({ where }) => where.textContent).join(", "));
    show();
  }

  function show() {
    for (const { map } of cards) map.circle(passing ?? picked, picked);
    [...sentences.children].forEach((item, number) => item.classList.toggle("now", number === (passing ?? picked)));
  }

  function hover(number) {
    passing = number;
    show();
  }

  function choose(number) {
    [picked, passing] = [number, null];
    show();
    line.textContent = points[number].text;
  }

  slider.addEventListener("input", move);
  slider.addEventListener("change", () => context.set({ layer: slider.value }, { entry: false }));
  const submit = () => {
    context.set({ models: chosen.names, word: word.value, texts: texts.value });
    return run();
  };
  chosen.element.addEventListener("change", submit);
  run();
  const asked = make("div", { className: "halves" }, make("div", {}, chosen.element, field(say("word"), word)),
    field(say("sentences"), texts, { hint: say("usesHint") }));
  return [form(submit, asked, make("div", { className: "buttons" }, button(say("map"), { kind: "main", type: "submit" }))),
    line, results, called.element];
}

// Points as they come, moved and scaled to fill the square from -1 to 1; what differs by rounding alone is one place.
function centred(points) {
  const bounds = ["x", "y"].map((axis) => {
    const values = points.map((point) => point[axis]);
    return [Math.min(...values), Math.max(...values)];
  });
  const extent = Math.max(...bounds.map(([low, high]) => high - low));
  const place = (value, [low, high]) => (extent > 1e-5 ? (2 * value - low - high) / extent : 0);
  return points.map(({ x, y }) => [place(x, bounds[0]), place(y, bounds[1])]);
}
