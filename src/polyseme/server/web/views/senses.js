// Word senses: the occurrences of a word in several sentences, mapped by each model layer by layer.
import { fetchJson } from "../api.js";
import { button, card, field, form, make, textArea, textInput } from "../dom.js";
import { example } from "../examples.js";
import { infoOf, isStatic, modelCheckboxes } from "../models.js";
import { requestRunner } from "../request.js";
import { WordMap, colour, icon } from "../shared/word_map.js";
import { codeSnippets, libraryCall } from "../snippets.js";
import { t } from "../strings.js";

export const endpoints = ["senses"];

// Sentences with the index of their sense; a blank line starts a new sense.
export function parseSenses(text) {
  const found = [];
  let sense = 0, afterBlank = false;
  for (const line of text.split("\n")) {
    if (line.trim() === "") afterBlank = found.length > 0;
    else {
      if (afterBlank) sense++;
      afterBlank = false;
      found.push({ text: line.trim(), sense });
    }
  }
  return found;
}

export function open(context, models) {
  const selection = modelCheckboxes(context, models);
  const word = textInput(context.get("word", example("senses").word));
  const texts = textArea(context.get("texts", example("senses").texts), { rows: 8 });
  const slider = make("input", { type: "range", min: 0, "aria-label": t("layer") });
  const sentences = make("ol", { className: "sentences" });
  const maps = make("div", { className: "side-by-side" });
  const results = make("div", { hidden: true }, make("div", { className: "slider" }, t("bottom"), slider, t("top")), maps,
    make("h3", {}, t("sentences")), sentences);
  const { status, run: start } = requestRunner(context, results);
  const snippets = codeSnippets();
  let cards = [], points = [], hovered = null, selected = 0;

  function run() {
    const parsed = parseSenses(texts.value), chosen = selection.chosen;
    const body = { word: word.value.trim(), texts: parsed.map(({ text }) => text) };
    if (!chosen.length) {
      status.textContent = t("chooseModel");
      return;
    }
    snippets.update({ path: "v1/senses", body: { model: chosen.at(-1).id, ...body } },
      libraryCall(chosen.at(-1), "senses", [body.word, body.texts]));
    return start(async (signal) => {
      const found = await Promise.all(chosen.map((model) => fetchJson("v1/senses", { model: model.id, ...body }, signal)));
      points = found[0].layers[0].points.map(({ text: index, start: from, end }) => ({ ...parsed[index], start: from, end }));
      selected = 0;
      const top = Math.max(...found.map(({ layers }) => layers.length - 1)); // one step per layer of the deepest model
      slider.max = top;
      slider.value = context.get("layer", top);
      slider.disabled = top === 0;
      cards = found.map(({ layers }, index) => mapCard(chosen[index], layers));
      maps.replaceChildren(...cards.map(({ element }) => element));
      sentences.replaceChildren(...points.map(sentenceItem));
      results.hidden = false;
      moveToLayer();
      requestAnimationFrame(() => results.classList.add("moving")); // animate from the second placement on
      return t("occurrences", { count: points.length });
    });
  }

  function mapCard(model, layers) {
    const map = new WordMap({ label: t("mapOf", { model: model.id }), senses: points.map(({ sense }) => sense), hover, choose });
    const caption = make("p", { className: "faint" });
    return { layers, map, caption, fixed: isStatic(model),
      element: card(model.id, make("span", { className: "tag" }, infoOf(model).family ?? ""), caption, map.element) };
  }

  function sentenceItem({ text, start: from, end, sense }, index) {
    const characters = [...text], part = (...bounds) => characters.slice(...bounds).join("");
    const marked = make("mark", { style: { "--sense": colour(sense) } }, part(from, end));
    const item = button("", { kind: "plain" });
    item.append(icon(sense), part(0, from), marked, part(end));
    item.addEventListener("mouseenter", () => hover(index));
    item.addEventListener("mouseleave", () => hover(null));
    item.addEventListener("focus", () => choose(index));
    item.addEventListener("click", () => choose(index));
    return make("li", {}, item);
  }

  // The ends of the slider are the first and the last layer of every model.
  function moveToLayer() {
    for (const { layers, map, caption, fixed } of cards) {
      const number = Math.round((slider.value / (Number(slider.max) || 1)) * (layers.length - 1));
      const positions = normalized(layers[number].points);
      map.move(positions);
      const identical = positions.every(([x, y]) => x === positions[0][0] && y === positions[0][1]);
      caption.textContent = (fixed ? t("static") : t("layerOf", { number, last: layers.length - 1 }))
        + (identical && points.length > 1 ? t("samePosition") : "");
    }
    slider.setAttribute("aria-valuetext", cards.map(({ caption }) => caption.textContent).join(", "));
    highlight();
  }

  function highlight() {
    for (const { map } of cards) map.circle(hovered ?? selected, selected);
    [...sentences.children].forEach((item, index) => item.classList.toggle("now", index === (hovered ?? selected)));
  }

  function hover(index) {
    hovered = index;
    highlight();
  }

  function choose(index) {
    [selected, hovered] = [index, null];
    highlight();
    status.textContent = points[index].text;
  }

  slider.addEventListener("input", moveToLayer);
  slider.addEventListener("change", () => context.set({ layer: slider.value }, { entry: false }));
  const submit = () => {
    context.set({ models: selection.names, word: word.value, texts: texts.value });
    return run();
  };
  selection.element.addEventListener("change", submit);
  run();
  const fields = make("div", { className: "halves" }, make("div", {}, selection.element, field(t("word"), word)),
    field(t("sentences"), texts, { hint: t("sensesHint") }));
  return [form(submit, fields, make("div", { className: "buttons" }, button(t("sensesButton"), { kind: "main", type: "submit" }))),
    status, results, snippets.element];
}

// Points scaled to fill the square from -1 to 1; differences by rounding alone count as one position.
function normalized(points) {
  const bounds = ["x", "y"].map((axis) => {
    const values = points.map((point) => point[axis]);
    return [Math.min(...values), Math.max(...values)];
  });
  const extent = Math.max(...bounds.map(([low, high]) => high - low));
  const scale = (value, [low, high]) => (extent > 1e-5 ? (2 * value - low - high) / extent : 0);
  return points.map(({ x, y }) => [scale(x, bounds[0]), scale(y, bounds[1])]);
}
