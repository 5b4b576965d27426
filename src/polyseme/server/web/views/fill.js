// Masked-token prediction: a sentence whose words can be masked, and the predictions of several models.
import { fetchJson } from "../api.js";
import { bars, button, card, field, form, make, textInput } from "../dom.js";
import { example } from "../examples.js";
import { modelCheckboxes } from "../models.js";
import { requestRunner } from "../request.js";
import { codeSnippets, libraryCall } from "../snippets.js";
import { t } from "../strings.js";

const TOP = 8, MASK = "[MASK]";
const HAN = /\p{Script=Han}/u;

export const endpoints = ["fill"];

// Words and the text between them; a mask counts as a word.
export function segment(text, language) {
  const segmenter = new Intl.Segmenter(language, { granularity: "word" });
  return text.split(/(\[MASK\])/).flatMap((part) => {
    if (part === MASK) return [{ text: part, word: true, mask: true }];
    return [...segmenter.segment(part)].map(({ segment: each, isWordLike }) => ({ text: each, word: isWordLike }));
  });
}

// What is predicted for a masked word: each character of a Chinese word, which is a token in most models.
const predicted = (word) => (HAN.test(word) ? [...word] : [word]);

export function open(context, models) {
  const selection = modelCheckboxes(context, models);
  const text = textInput(context.get("text", example("fill").text));
  const masked = new Set(context.get("masks").split(",").filter(Boolean).map(Number)); // indices of segments
  const sentence = make("div", { className: "sentence", role: "group", "aria-label": t("sentence") });
  const results = make("div", { className: "side-by-side" });
  const { status, run: start } = requestRunner(context, results);
  const snippets = codeSnippets();
  let segments = [];

  const maskedText = () => segments.map((part, index) => (masked.has(index) ? MASK.repeat(predicted(part.text).length) : part.text)).join("");

  function updateSentence() {
    segments = segment(text.value, context.language);
    if (!context.has("masks") && text.value === example("fill").text) {
      masked.add(segments.findIndex((part) => part.text === example("fill").word));
    }
    sentence.replaceChildren(...segments.map((part, index) => {
      if (part.mask) return make("span", { className: "mask" }, MASK);
      if (!part.word) return make("span", {}, part.text);
      const word = button(part.text, { kind: "word", "aria-pressed": String(masked.has(index)) });
      word.addEventListener("click", () => {
        if (!masked.delete(index)) masked.add(index);
        word.setAttribute("aria-pressed", String(masked.has(index)));
        submit();
      });
      return word;
    }));
  }

  function run() {
    const input = maskedText(), chosen = selection.chosen;
    if (!chosen.length) {
      status.textContent = t("chooseModel");
      return undefined;
    }
    snippets.update({ path: "v1/fill", body: { model: chosen[0].id, input, top: TOP } },
      libraryCall(chosen[0], "fill", [input], { top: TOP }));
    if (!input.includes(MASK)) {
      results.replaceChildren();
      status.className = "status";
      status.textContent = t("maskFirst");
      return undefined;
    }
    return start(async (signal) => {
      const found = await Promise.all(chosen.map((model) => fetchJson("v1/fill", { model: model.id, input, top: TOP }, signal)));
      results.replaceChildren(...found.map((answer, index) => predictions(chosen[index].id, answer.data[0].masks)));
    });
  }

  // What was masked, in order; of a typed mask, nothing is known.
  function originals() {
    return segments.flatMap((part, index) => (part.mask ? [""] : masked.has(index) ? predicted(part.text) : []));
  }

  function predictions(name, masks) {
    const words = originals();
    return card(name, ...masks.flatMap(({ candidates }, index) => {
      const word = (words[index] ?? "").toLowerCase();
      const rows = candidates.map(({ text: each, probability }) => ({
        text: each, value: probability, marked: word !== "" && each.trim().replace(/^##/, "").toLowerCase() === word }));
      const title = word ? t("original", { word: words[index] }) : t("maskNumber", { number: index + 1 });
      return [make("h4", {}, title), bars(rows, { label: title })];
    }));
  }

  function submit() {
    context.set({ models: selection.names, text: text.value, masks: [...masked].sort((a, b) => a - b).join(",") });
    return run();
  }

  text.addEventListener("input", () => {
    masked.clear();
    updateSentence();
  });
  const element = form(submit, selection.element, field(t("sentence"), text, { hint: t("maskHint") }),
    make("p", { className: "faint tight" }, t("clickWord")), sentence,
    make("div", { className: "buttons" }, button(t("fillButton"), { kind: "main", type: "submit" })));
  selection.element.addEventListener("change", submit);
  updateSentence();
  run();
  return [element, status, results, snippets.element];
}
