// Attention: where the tokens of a text look, by the drawings of the page that `polyseme attention` writes.
import { ask } from "../api.js";
import { asking } from "../asking.js";
import { calls, library } from "../calls.js";
import { button, choice, field, form, make, textArea, textInput, visible } from "../dom.js";
import { example } from "../examples.js";
import { HeadGrid, HeadView } from "../inside/attention_head.js";
import { readColours } from "../inside/attention_weights.js";
import { oneModel } from "../models.js";
import { say } from "../strings.js";

export const can = ["attention"];

// What heads are called in an answer, and the words for it here.
const HEADS = { "previous token": "headPrevious", "next token": "headNext", "same token": "headSame",
  "first token (parked)": "headFirst", separators: "headSeparators", broad: "headBroad", mixed: "headMixed" };

// What the drawings say, in the language of the page.
const spoken = () => ({
  all: say("allTokens"),
  looks: (token, others) => say("looksAt", { token, others }),
  seen: (token, others) => say("isSeenBy", { token, others }),
  cell: (token, other, weight) => say("looksAt", { token, others: `${other} ${weight}` }),
  nothing: say("nothingSpecial"),
  looking: say("tokensLooking"),
  lookedAt: say("tokensSeen"),
  weights: (layer, head) => say("weightsOf", { layer, head }),
  head: (layer, head, label) => say("headNumber", { layer, head }) + (label ? ` · ${label}` : ""),
});

export function open(context, models) {
  const model = oneModel(context, models);
  const text = textArea(context.get("text", example("attention")), { rows: 2 });
  const second = textInput(context.get("second", ""));
  const state = { layer: Number(context.get("layer", "1")) - 1 || 0, head: Number(context.get("head", "1")) - 1 || 0 };
  const layers = choice([], ""), heads = choice([], ""), label = make("span", { className: "tag" });
  const parts = choice([], ""), partField = field(say("weights"), parts);
  const view = new HeadView({ spoken: spoken(), turn });
  const grid = new HeadGrid({ spoken: spoken(), open: (layer, head) => {
    show(layer, head);
    one.scrollIntoView({ block: "nearest" });
  } });
  const chosen = make("div", { className: "row-of" }, partField, field(say("layer"), layers), field(say("head"), heads), label);
  const one = make("section", { className: "card" }, chosen, view.said, view.view);
  const results = make("div", { hidden: true }, make("p", { className: "faint" }, say("attentionKeys")), one,
    make("h3", {}, say("allHeads")), make("p", { className: "faint" }, say("gridHint")), grid.element);
  const { line, ask: start } = asking(context, results);
  const called = calls();
  let answer = null, found = null; // all weights, and those that are shown: a model that translates has two kinds

  const question = () => ({ model: model.chosen.id, input: text.value, ...(second.value.trim() ? { second: second.value } : {}) });

  function run() {
    const body = question();
    const texts = [body.input, body.second].filter((each) => each !== undefined);
    called.tell({ path: "v1/attention", body }, library(model.chosen, "attention", texts));
    return start(async (signal) => {
      answer = await ask("v1/attention", body, signal);
      const kinds = [answer, answer.cross].filter(Boolean);
      parts.replaceChildren(...kinds.map(({ name }, place) => make("option", { value: place }, name)));
      partField.hidden = parts.length < 2;
      parts.value = answer.cross && context.get("part") === "1" ? "1" : "0";
      readColours();
      results.hidden = false;
      fill();
      return say("headsFound", { layers: found.layers, heads: found.heads, tokens: found.tokens.length });
    });
  }

  function fill() {
    found = parts.value === "1" ? answer.cross : answer;
    const names = (tokens) => tokens.map(({ text: token }) => ({ shown: visible(token), token }));
    view.fill([names(found.tokens), names(found.seen ?? found.tokens)]);
    const numbers = (count) => Array.from({ length: count }, (_, place) => make("option", { value: place }, place + 1));
    layers.replaceChildren(...numbers(found.layers));
    heads.replaceChildren(...numbers(found.heads));
    grid.fill({ layers: found.layers, heads: found.heads, mapOf, labels: labels() });
    show(Math.min(state.layer, found.layers - 1), Math.min(state.head, found.heads - 1));
  }

  // What each head is called, layer by layer.
  const labels = () => found.heads_told.map(({ label: called }) => (HEADS[called] ? say(HEADS[called]) : called));

  function mapOf(layer, head) {
    const rows = found.weights[layer][head];
    return { weights: Float32Array.from(rows.flat()), rows: rows.length, columns: rows[0].length };
  }

  function show(layer, head) {
    Object.assign(state, { layer, head });
    [layers.value, heads.value] = [layer, head];
    label.textContent = labels()[layer * found.heads + head] ?? "";
    label.hidden = !label.textContent;
    view.show(mapOf(layer, head), state);
    grid.mark(state);
    context.set({ layer: layer + 1, head: head + 1 }, { entry: false });
  }

  // Another layer or head, around at the ends.
  function turn(what, by) {
    const total = found.layers * found.heads;
    const place = (state.layer * found.heads + state.head + (what === "head" ? by : by * found.heads) + total) % total;
    show(Math.floor(place / found.heads), place % found.heads);
  }

  for (const select of [layers, heads]) select.addEventListener("change", () => show(Number(layers.value), Number(heads.value)));
  parts.addEventListener("change", () => {
    context.set({ part: parts.value === "1" ? "1" : null }, { entry: false });
    fill();
  });
  const redraw = () => {
    if (!found) return;
    readColours();
    grid.fill({ layers: found.layers, heads: found.heads, mapOf, labels: labels() });
    show(state.layer, state.head);
  };
  document.addEventListener("repaint", redraw, { signal: context.signal });

  const submit = () => {
    context.set({ model: model.chosen.id, text: text.value, second: second.value || null });
    return run();
  };
  run();
  return [form(submit, field(say("text"), text),
    make("div", { className: "row-of even" }, model.element, field(say("second"), second, { hint: say("secondHint") })),
    make("div", { className: "buttons" }, button(say("look"), { kind: "main", type: "submit" }))), line, results, called.element];
}
