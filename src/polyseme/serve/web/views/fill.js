// Fill: a sentence whose words can be blanked, and what models would put there.
import { ask } from "../api.js";
import { asking } from "../asking.js";
import { calls, library } from "../calls.js";
import { bars, button, card, field, form, make, textInput } from "../dom.js";
import { example } from "../examples.js";
import { severalModels } from "../models.js";
import { say } from "../strings.js";

const TOP = 8, BLANK = "[MASK]";
const HAN = /\p{Script=Han}/u;

export const can = ["fill"];

// Words and what stands between them; a blank counts as a word, and so does each character of Chinese.
export function pieces(text, language) {
  const segmenter = new Intl.Segmenter(language, { granularity: "word" });
  return text.split(/(\[MASK\])/).flatMap((part) => {
    if (part === BLANK) return [{ text: part, word: true, blank: true }];
    return [...segmenter.segment(part)].flatMap(({ segment, isWordLike }) => HAN.test(segment)
      ? [...segment].map((character) => ({ text: character, word: true }))
      : [{ text: segment, word: isWordLike }]);
  });
}

export function open(context, models) {
  const chosen = severalModels(context, models);
  const text = textInput(context.get("text", example("fill").text));
  const blanks = new Set(context.get("blanks", example("fill").blanks).split(",").filter(Boolean).map(Number));
  const sentence = make("div", { className: "sentence", role: "group", "aria-label": say("sentence") });
  const results = make("div", { className: "side-by-side" });
  const { line, ask: start } = asking(context, results);
  const called = calls();
  let parts = [];

  const asked = () => parts.map((part, place) => (blanks.has(place) ? BLANK : part.text)).join("");

  function lay() {
    parts = pieces(text.value, context.language);
    sentence.replaceChildren(...parts.map((part, place) => {
      if (part.blank) return make("span", { className: "blank" }, say("blank"));
      if (!part.word) return make("span", {}, part.text);
      const word = button(part.text, { kind: "word", "aria-pressed": String(blanks.has(place)) });
      word.addEventListener("click", () => {
        if (!blanks.delete(place)) blanks.add(place);
        word.setAttribute("aria-pressed", String(blanks.has(place)));
        submit();
      });
      return word;
    }));
  }

  function run() {
    const input = asked(), askedModels = chosen.chosen;
    if (!askedModels.length) {
      line.textContent = say("chooseModel");
      return undefined;
    }
    called.tell({ path: "v1/fill", body: { model: askedModels[0].id, input, top: TOP } },
      library(askedModels[0], "fill", [input], { top: TOP }));
    if (!input.includes(BLANK)) {
      results.replaceChildren();
      line.className = "status";
      line.textContent = say("blankFirst");
      return undefined;
    }
    return start(async (signal) => {
      const found = await Promise.all(askedModels.map((model) => ask("v1/fill", { model: model.id, input, top: TOP }, signal)));
      results.replaceChildren(...found.map((answer, place) => distribution(askedModels[place].id, answer.data[0].blanks)));
    });
  }

  // What stood at each blank, in order; a blank that was typed has nothing.
  function originals() {
    return parts.flatMap((part, place) => (part.blank ? [""] : blanks.has(place) ? [part.text] : []));
  }

  function distribution(name, found) {
    const stood = originals();
    return card(name, ...found.flatMap(({ candidates }, place) => {
      const word = (stood[place] ?? "").toLowerCase();
      const rows = candidates.map(({ text: each, probability }) => ({
        text: each, value: probability, marked: word !== "" && each.trim().replace(/^##/, "").toLowerCase() === word }));
      const title = word ? say("insteadOf", { word: stood[place] }) : say("blankNumber", { number: place + 1 });
      return [make("h4", {}, title), bars(rows, { label: title })];
    }));
  }

  function submit() {
    context.set({ models: chosen.names, text: text.value, blanks: [...blanks].sort((a, b) => a - b).join(",") });
    return run();
  }

  text.addEventListener("input", () => {
    blanks.clear();
    lay();
  });
  const questions = form(submit, chosen.element, field(say("sentence"), text, { hint: say("maskHint") }),
    make("p", { className: "faint tight" }, say("clickWord")), sentence,
    make("div", { className: "buttons" }, button(say("fill"), { kind: "main", type: "submit" })));
  chosen.element.addEventListener("change", submit);
  lay();
  run();
  return [questions, line, results, called.element];
}
