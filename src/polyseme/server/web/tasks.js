// Each task: its endpoint, fields, Python code, and how a response is displayed.
import { bars, make, percent, textArea, textInput } from "./dom.js";
import { example } from "./examples.js";
import { libraryCall } from "./snippets.js";
import { t } from "./strings.js";
import { surprisalText } from "./tokens.js";

const lines = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);
const predictCall = (row) => (model, values, task) => libraryCall(model, "predict", [[row(values)]], task ? { task } : {});
const isFineTuned = (model, kind) => Object.values(model.polyseme?.tasks ?? {}).includes(kind);
const text = { name: "text", label: "text", input: (value) => textArea(value, { rows: 2 }) };
const textPair = (name) => [
  { name: "first", label: "firstText", input: textInput, initial: () => example(name)[0] },
  { name: "second", label: "secondText", input: textInput, initial: () => example(name)[1] },
];

export const TASKS = {
  classify: {
    path: "v1/classify",
    kind: "classify",
    fields: [{ ...text, initial: () => example("classify") }],
    body: (values) => ({ input: values.text }),
    python: predictCall((values) => values.text),
    show: ({ data: [found] }) => showClass(found),
  },
  tag: {
    path: "v1/tag",
    kind: "tag",
    fields: [{ ...text, initial: () => example("tag") }],
    body: (values) => ({ input: values.text }),
    python: predictCall((values) => values.text),
    show: ({ data: [found] }, values) => [showSpans(values.text, found.spans)],
  },
  pair: {
    path: "v1/pair",
    kind: "pair",
    fields: textPair("pair"),
    body: (values) => ({ pairs: [[values.first, values.second]] }),
    python: predictCall((values) => ({ text_a: values.first, text_b: values.second })),
    show: ({ data: [found] }) => showClass(found),
  },
  answer: {
    path: "v1/answer",
    kind: "span",
    fields: [
      { name: "question", label: "question", input: textInput, initial: () => example("answer").question },
      { name: "passage", label: "passage", input: (value) => textArea(value, { rows: 5 }), initial: () => example("answer").passage },
    ],
    body: ({ question, passage }) => ({ question, passage }),
    python: predictCall(({ question, passage }) => ({ question, passage })),
    show: showAnswer,
  },
  choose: {
    path: "v1/choose",
    kind: "choice",
    fields: [
      { name: "context", label: "context", input: textInput, initial: () => example("choose").context },
      { name: "choices", label: "choices", hint: "choicesHint", input: textArea, initial: () => example("choose").choices },
    ],
    body: (values) => ({ context: values.context, choices: lines(values.choices) }),
    python: chooseCall,
    show: ({ choice, probabilities, method }, values) => {
      const isTie = probabilities.some((value, index) => index !== choice && probabilities[choice] - value < 1e-6);
      const rows = lines(values.choices).map((each, index) => (
        { text: each, value: probabilities[index], marked: index === choice && !isTie }));
      return [bars(rows, { label: t("choices"), absolute: true }), showMethod(method)];
    },
  },
  similarity: {
    path: "v1/similarity",
    kind: "similarity",
    fields: textPair("similarity"),
    body: (values) => ({ pairs: [[values.first, values.second]] }),
    python: (model, values, task) => (isFineTuned(model, "similarity")
      ? predictCall(({ first, second }) => ({ text_a: first, text_b: second }))(model, values, task)
      : libraryCall(model, "embed", [[values.first, values.second]])),
    show: ({ data: [{ score }], method }) =>
      [make("p", { className: "big" }, score.toFixed(3)), ...(method === "cosine" ? [gauge(score)] : []), showMethod(method)],
  },
  translate: {
    path: "v1/translate",
    fields: [{ ...text, initial: () => example("translate") }],
    body: (values) => ({ input: values.text }),
    python: (model, values) => libraryCall(model, "translate", [[values.text]]),
    show: ({ data: [found] }) => [make("p", { className: "paper big" }, found.text)],
  },
  score: {
    path: "v1/score",
    fields: [{ ...text, initial: () => example("score") }],
    body: (values) => ({ input: values.text, top: 6 }),
    python: (model, values) => libraryCall(model, "score", [[values.text]]),
    show: showScore,
  },
};

function showClass({ label, probabilities }) {
  const rows = Object.entries(probabilities).sort((a, b) => b[1] - a[1])
    .map(([each, value]) => ({ text: each, value, marked: each === label }));
  return [make("p", { className: "big" }, label), bars(rows, { label: t("probabilities"), absolute: true })];
}

// Offsets count code points, as in Python; JavaScript's strings count UTF-16 units.
function showSpans(whole, found) {
  const characters = [...whole], labels = [...new Set(found.map(({ label }) => label))];
  const parts = [];
  let done = 0;
  for (const { start, end, label, probability } of [...found].sort((a, b) => a.start - b.start)) {
    if (start < done) continue;
    const style = { "--mine": `var(--colour-${labels.indexOf(label) % 7})` };
    const mark = make("mark", { className: "span", style, title: percent(probability) },
      characters.slice(start, end).join(""), make("small", {}, label));
    parts.push(characters.slice(done, start).join(""), mark);
    done = end;
  }
  return make("div", {}, make("p", { className: "paper big tagged" }, ...parts, characters.slice(done).join("")),
    ...(found.length ? [] : [make("p", { className: "faint" }, t("noSpans"))]));
}

function showAnswer({ answer, start, end, probability, null_probability: nullProbability }, { passage }) {
  const characters = [...passage], part = (...bounds) => characters.slice(...bounds).join("");
  const shown = answer === null
    ? make("p", { className: "paper" }, passage)
    : make("p", { className: "paper" }, part(0, start), make("mark", { className: "answer" }, part(start, end)), part(end));
  const facts = [answer !== null && typeof probability === "number" ? t("probability", { probability: percent(probability) }) : "",
    typeof nullProbability === "number" ? t("nullProbability", { probability: percent(nullProbability) }) : ""].filter(Boolean);
  return [make("p", { className: "big" }, answer ?? t("noAnswer")), shown, make("p", { className: "faint" }, facts.join(" · "))];
}

function chooseCall(model, values, task) {
  const choices = lines(values.choices);
  return isFineTuned(model, "choice")
    ? predictCall(() => ({ context: values.context, choices }))(model, values, task)
    : libraryCall(model, "score", [choices.map((each) => ` ${each}`)], { after: choices.map(() => values.context) });
}

function showScore({ data: [found] }, values) {
  const shaded = surprisalText(), characters = [...values.text];
  let done = 0;
  for (const { text: name, start, end, log_probability: logprob, alternatives = [] } of found.tokens) {
    shaded.add({ gap: characters.slice(done, start).join(""), text: characters.slice(start, end).join(""), name, logprob,
      alternatives: alternatives.map((other) => ({ text: other.text, logprob: other.log_probability })) });
    done = Math.max(done, end);
  }
  const bits = found.bits_per_character;
  const value = make("span", { className: "big" }, bits === null ? "–" : bits.toFixed(3));
  const scale = make("span", { className: "tag" }, t(found.scale));
  return [make("p", {}, value, ` ${t("bitsPerCharacter")} `, scale), shaded.element];
}

const showMethod = (method) => make("p", { className: "faint" }, method ? t(`method_${method}`) : "");

const gauge = (score) => make("div", { className: "gauge", "aria-hidden": "true", style: { "--share": (score + 1) / 2 } });
