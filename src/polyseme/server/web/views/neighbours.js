// Nearest neighbours and analogies of word embeddings.
import { fetchJson } from "../api.js";
import { bars, button, card, field, form, make, tabs, textInput } from "../dom.js";
import { example } from "../examples.js";
import { isStatic, modelCheckboxes } from "../models.js";
import { requestRunner } from "../request.js";
import { codeSnippets, libraryCall } from "../snippets.js";
import { t } from "../strings.js";

const TOP = 12;

export const endpoints = ["neighbours", "analogy"];

// Which word is not known, with the similar ones that the server names.
function unknownWord(word, message) {
  const [, similar] = message.match(/did you mean (.*)\?$/) ?? [];
  return t("unknownWord", { word }) + (similar ? t("similarWords", { words: similar.split(", ").join(t("comma")) }) : "");
}

export function open(context, models) {
  let kind = context.get("kind", "neighbours");
  const selection = modelCheckboxes(context, models, { preferred: models.filter(isStatic) }); // subword models know few words
  const word = textInput(context.get("word", example("neighbours")));
  const [a, b, c] = ["a", "b", "c"].map((name, index) => textInput(context.get(name, example("analogy")[index])));
  const results = make("div", { className: "side-by-side" });
  const { status, run: start } = requestRunner(context, results);
  const snippets = codeSnippets();
  const single = make("div", {}, field(t("word"), word));
  const triple = make("div", { className: "analogy" }, field(t("analogyA"), a), make("span", { "aria-hidden": "true" }, t("isTo")),
    field(t("analogyB"), b), make("span", { "aria-hidden": "true" }, t("as")), field(t("analogyC"), c),
    make("span", { "aria-hidden": "true" }, t("isToWhat")));

  function words() {
    if (kind === "analogy") return { a: a.value.trim(), b: b.value.trim(), c: c.value.trim() };
    return { word: word.value.trim() };
  }

  // An error of one model, such as an unknown word, does not affect the others.
  async function modelCard(model, signal) {
    try {
      const { data } = await fetchJson(`v1/${kind}`, { model: model.id, ...words(), top: TOP }, signal);
      const rows = data.map(({ text, similarity }) => ({ text, value: similarity, shown: similarity.toFixed(3) }));
      return card(model.id, bars(rows, { label: t("nearest"), absolute: true, pick: (row) => {
        word.value = row.text.trim();
        if (kind === "neighbours") submit();
        else picker.querySelector("[role=tab]").click();
      } }));
    } catch (error) {
      if (signal.aborted || error.status === 401) throw error;
      if (error.code !== "unknown_word") return card(model.id, make("p", { className: "wrong" }, error.message));
      return card(model.id, make("p", { className: "faint" }, unknownWord(words()[error.param], error.message)));
    }
  }

  function run() {
    const chosen = selection.chosen;
    if (!chosen.length) {
      status.textContent = t("chooseModel");
      return undefined;
    }
    snippets.update({ path: `v1/${kind}`, body: { model: chosen[0].id, ...words(), top: TOP } },
      libraryCall(chosen[0], kind, Object.values(words()), { top: TOP }));
    return start(async (signal) => {
      results.replaceChildren(...await Promise.all(chosen.map((model) => modelCard(model, signal))));
    });
  }

  const submit = () => {
    context.set({ kind, models: selection.names, ...words() });
    return run();
  };
  const showFields = () => {
    single.hidden = kind === "analogy";
    triple.hidden = kind !== "analogy";
  };
  const picker = tabs([["neighbours", t("nearest")], ["analogy", t("analogy")]], kind, (name) => {
    kind = name;
    showFields();
    submit();
  }, t("neighbours"));
  selection.element.addEventListener("change", submit);
  showFields();
  run();
  return [picker, form(submit, selection.element, single, triple,
    make("div", { className: "buttons" }, button(t("search"), { kind: "main", type: "submit" }))), status, results, snippets.element];
}
