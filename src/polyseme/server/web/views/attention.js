// Attention: the weights of every head, drawn as in the pages of `polyseme attention`.
import { fetchJson } from "../api.js";
import { button, field, form, make, select, textArea, textInput, visible } from "../dom.js";
import { example } from "../examples.js";
import { modelSelect } from "../models.js";
import { requestRunner } from "../request.js";
import { HeadGrid, HeadView } from "../shared/attention_head.js";
import { readColours } from "../shared/attention_weights.js";
import { codeSnippets, libraryCall } from "../snippets.js";
import { t } from "../strings.js";

export const endpoints = ["attention"];

// Labels of heads in a response, and the keys of their translations.
const HEADS = { "previous token": "headPrevious", "next token": "headNext", "same token": "headSame",
  "first token (attention sink)": "headFirst", separators: "headSeparators", broad: "headBroad", mixed: "headMixed" };

// The labels of the drawings in the language of the page.
const drawingLabels = () => ({
  all: t("allTokens"),
  attendsTo: (token, others) => t("attendsTo", { token, others }),
  attendedBy: (token, others) => t("attendedBy", { token, others }),
  cell: (token, other, weight) => t("attendsTo", { token, others: `${other} ${weight}` }),
  nothing: t("noFocus"),
  queries: t("queryTokens"),
  keys: t("keyTokens"),
  weights: (layer, head) => t("weightsOf", { layer, head }),
  head: (layer, head, label) => t("headNumber", { layer, head }) + (label ? ` · ${label}` : ""),
});

export function open(context, models) {
  const model = modelSelect(context, models);
  const text = textArea(context.get("text", example("attention")), { rows: 2 });
  const pair = textInput(context.get("text_pair", ""));
  const state = { layer: Number(context.get("layer", "1")) - 1 || 0, head: Number(context.get("head", "1")) - 1 || 0 };
  const layers = select([], ""), heads = select([], ""), label = make("span", { className: "tag" });
  const kind = select([["self", t("selfAttention")], ["cross", t("crossAttention")]], "self"), kindField = field(t("weights"), kind);
  const view = new HeadView({ strings: drawingLabels(), turn: move });
  const grid = new HeadGrid({ strings: drawingLabels(), open: (layer, head) => {
    show(layer, head);
    one.scrollIntoView({ block: "nearest" });
  } });
  const controls = make("div", { className: "row-of" }, kindField, field(t("layer"), layers), field(t("head"), heads), label);
  const one = make("section", { className: "card" }, controls, view.status, view.view);
  const results = make("div", { hidden: true }, make("p", { className: "faint" }, t("attentionKeys")), one,
    make("h3", {}, t("allHeads")), make("p", { className: "faint" }, t("gridHint")), grid.element);
  const { status, run: start } = requestRunner(context, results);
  const snippets = codeSnippets();
  let answer = null, found = null; // the response, and the self- or cross-attention in it that is shown

  const requestBody = () => ({ model: model.chosen.id, input: text.value, ...(pair.value.trim() ? { text_pair: pair.value } : {}) });

  function run() {
    const body = requestBody();
    const texts = [body.input, body.text_pair].filter((each) => each !== undefined);
    snippets.update({ path: "v1/attention", body }, libraryCall(model.chosen, "attention", texts));
    return start(async (signal) => {
      answer = await fetchJson("v1/attention", body, signal);
      const hasSelf = answer.key_tokens === null, cross = hasSelf ? answer.cross_attention : answer;
      kindField.hidden = !(hasSelf && cross);
      kind.value = cross && (!hasSelf || context.get("weights") === "cross") ? "cross" : "self";
      readColours();
      results.hidden = false;
      fill();
      return t("headsFound", { layers: found.layers, heads: found.heads, tokens: found.tokens.length });
    });
  }

  function fill() {
    found = kind.value === "cross" ? answer.cross_attention ?? answer : answer;
    const names = (tokens) => tokens.map(({ text: token }) => ({ shown: visible(token), token }));
    view.fill([names(found.tokens), names(found.key_tokens ?? found.tokens)]);
    const numbers = (count) => Array.from({ length: count }, (_, index) => make("option", { value: index }, index + 1));
    layers.replaceChildren(...numbers(found.layers));
    heads.replaceChildren(...numbers(found.heads));
    grid.fill({ layers: found.layers, heads: found.heads, mapOf, labels: headLabels() });
    show(Math.min(state.layer, found.layers - 1), Math.min(state.head, found.heads - 1));
  }

  const headLabels = () => found.head_statistics.map(({ label: name }) => (HEADS[name] ? t(HEADS[name]) : name));

  function mapOf(layer, head) {
    const rows = found.weights[layer][head];
    return { weights: Float32Array.from(rows.flat()), rows: rows.length, columns: rows[0].length };
  }

  function show(layer, head) {
    Object.assign(state, { layer, head });
    [layers.value, heads.value] = [layer, head];
    label.textContent = headLabels()[layer * found.heads + head] ?? "";
    label.hidden = !label.textContent;
    view.show(mapOf(layer, head), state);
    grid.mark(state);
    context.set({ layer: layer + 1, head: head + 1 }, { entry: false });
  }

  // To the next or previous layer or head, from the last one to the first.
  function move(what, step) {
    const total = found.layers * found.heads;
    const index = (state.layer * found.heads + state.head + (what === "head" ? step : step * found.heads) + total) % total;
    show(Math.floor(index / found.heads), index % found.heads);
  }

  for (const each of [layers, heads]) each.addEventListener("change", () => show(Number(layers.value), Number(heads.value)));
  kind.addEventListener("change", () => {
    context.set({ weights: kind.value === "cross" ? "cross" : null }, { entry: false });
    fill();
  });
  const repaint = () => {
    if (!found) return;
    readColours();
    grid.fill({ layers: found.layers, heads: found.heads, mapOf, labels: headLabels() });
    show(state.layer, state.head);
  };
  document.addEventListener("repaint", repaint, { signal: context.signal });

  const submit = () => {
    context.set({ model: model.chosen.id, text: text.value, text_pair: pair.value || null });
    return run();
  };
  run();
  return [form(submit, field(t("text"), text),
    make("div", { className: "row-of even" }, model.element, field(t("textPair"), pair, { hint: t("textPairHint") })),
    make("div", { className: "buttons" }, button(t("attentionButton"), { kind: "main", type: "submit" }))),
    status, results, snippets.element];
}
