// Neighbours and analogies: the words nearest to a word, and what is to a third as a second to a first.
import { ask } from "../api.js";
import { asking } from "../asking.js";
import { calls, library } from "../calls.js";
import { bars, button, card, field, form, make, tabs, textInput } from "../dom.js";
import { example } from "../examples.js";
import { isStatic, severalModels } from "../models.js";
import { say } from "../strings.js";

const TOP = 12;

export const can = ["neighbours", "analogy"];

export function open(context, models) {
  let kind = context.get("kind", "neighbours");
  const chosen = severalModels(context, models, { first: models.filter(isStatic) }); // others know few whole words
  const word = textInput(context.get("word", example("neighbours")));
  const [a, b, c] = ["a", "b", "c"].map((name, place) => textInput(context.get(name, example("analogy")[place])));
  const results = make("div", { className: "side-by-side" });
  const { line, ask: start } = asking(context, results);
  const called = calls();
  const single = make("div", {}, field(say("word"), word));
  const triple = make("div", { className: "analogy" }, field(say("wordA"), a), make("span", { "aria-hidden": "true" }, say("isTo")),
    field(say("wordB"), b), make("span", { "aria-hidden": "true" }, say("as")), field(say("wordC"), c),
    make("span", { "aria-hidden": "true" }, say("isToWhat")));

  function question() {
    if (kind === "analogy") return { a: a.value.trim(), b: b.value.trim(), c: c.value.trim() };
    return { word: word.value.trim() };
  }

  // A word that one model does not know says nothing about the others.
  async function listed(model, signal) {
    try {
      const { data } = await ask(`v1/${kind}`, { model: model.id, ...question(), top: TOP }, signal);
      const rows = data.map(({ text, similarity }) => ({ text, value: similarity, shown: similarity.toFixed(3) }));
      return card(model.id, bars(rows, { label: say("nearest"), whole: true, pick: (row) => {
        word.value = row.text.trim();
        if (kind === "neighbours") submit();
        else picker.querySelector("[role=tab]").click();
      } }));
    } catch (error) {
      if (signal.aborted || error.status === 401) throw error;
      return card(model.id, make("p", { className: error.code === "unknown_word" ? "faint" : "wrong" }, error.message));
    }
  }

  function run() {
    const asked = chosen.chosen;
    if (!asked.length) {
      line.textContent = say("chooseModel");
      return undefined;
    }
    called.tell({ path: `v1/${kind}`, body: { model: asked[0].id, ...question(), top: TOP } },
      library(asked[0], kind, Object.values(question()), { top: TOP }));
    return start(async (signal) => {
      results.replaceChildren(...await Promise.all(asked.map((model) => listed(model, signal))));
    });
  }

  const submit = () => {
    context.set({ kind, models: chosen.names, ...question() });
    return run();
  };
  const lay = () => {
    single.hidden = kind === "analogy";
    triple.hidden = kind !== "analogy";
  };
  const picker = tabs([["neighbours", say("nearest")], ["analogy", say("analogy")]], kind, (name) => {
    kind = name;
    lay();
    submit();
  }, say("neighbours"));
  chosen.element.addEventListener("change", submit);
  lay();
  run();
  return [picker, form(submit, chosen.element, single, triple,
    make("div", { className: "buttons" }, button(say("find"), { kind: "main", type: "submit" }))), line, results, called.element];
}
