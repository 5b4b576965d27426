// Each task: its call, its fields, the same in Python, and how an answer is shown.
import { library } from "./calls.js";
import { bars, make, percent, textArea, textInput } from "./dom.js";
import { example } from "./examples.js";
import { say } from "./strings.js";
import { shadedText } from "./tokens.js";

const lines = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);
const predicted = (row) => (model, values, task) => library(model, "predict", [[row(values)]], task ? { task } : {});
const text = { name: "text", label: "text", input: (value) => textArea(value, { rows: 2 }) };
const pair = (name) => [
  { name: "first", label: "first", input: textInput, start: () => example(name)[0] },
  { name: "other", label: "other", input: textInput, start: () => example(name)[1] },
];

export const TASKS = {
  classify: {
    path: "v1/classify",
    kind: "classify",
    fields: [{ ...text, start: () => example("classify") }],
    body: (values) => ({ input: values.text }),
    python: predicted((values) => values.text),
    show: ({ data: [found] }) => judged(found),
  },
  tag: {
    path: "v1/tag",
    kind: "tag",
    fields: [{ ...text, start: () => example("tag") }],
    body: (values) => ({ input: values.text }),
    python: predicted((values) => values.text),
    show: ({ data: [found] }, values) => [spans(values.text, found.spans)],
  },
  pair: {
    path: "v1/pair",
    kind: "pair",
    fields: pair("pair"),
    body: (values) => ({ pairs: [[values.first, values.other]] }),
    python: predicted((values) => ({ text_a: values.first, text_b: values.other })),
    show: ({ data: [found] }) => judged(found),
  },
  answer: {
    path: "v1/answer",
    kind: "span",
    fields: [
      { name: "question", label: "question", input: textInput, start: () => example("answer").question },
      { name: "passage", label: "passage", input: (value) => textArea(value, { rows: 5 }), start: () => example("answer").passage },
    ],
    body: ({ question, passage }) => ({ question, passage }),
    python: predicted(({ question, passage }) => ({ question, passage })),
    show: answered,
  },
  choose: {
    path: "v1/choose",
    kind: "choice",
    fields: [
      { name: "context", label: "beginning", input: textInput, start: () => example("choose").context },
      { name: "choices", label: "choices", hint: "choicesHint", input: textArea, start: () => example("choose").choices },
    ],
    body: (values) => ({ context: values.context, choices: lines(values.choices) }),
    python: chosenBy,
    show: ({ choice, probabilities, by }, values) => {
      const rows = lines(values.choices).map((each, place) => ({ text: each, value: probabilities[place], marked: place === choice }));
      return [bars(rows, { label: say("choices"), whole: true }), how(by)];
    },
  },
  similarity: {
    path: "v1/similarity",
    kind: "similarity",
    fields: pair("similarity"),
    body: (values) => ({ pairs: [[values.first, values.other]] }),
    python: (model, values, task) => (Object.values(model.polyseme?.tasks ?? {}).includes("similarity")
      ? predicted(({ first, other }) => ({ text_a: first, text_b: other }))(model, values, task)
      : library(model, "embed", [[values.first, values.other]])),
    show: (answer) => {
      const { score, by = answer.by } = answer.data[0];
      return [make("p", { className: "big" }, score.toFixed(3)), ...(by === "cosine" ? [gauge(score)] : []), how(by)];
    },
  },
  translate: {
    path: "v1/translate",
    fields: [{ ...text, start: () => example("translate") }],
    body: (values) => ({ input: values.text }),
    python: (model, values) => library(model, "translate", [[values.text]]),
    show: ({ data: [found] }) => [make("p", { className: "paper big" }, found.text)],
  },
  score: {
    path: "v1/score",
    fields: [{ ...text, start: () => example("score") }],
    body: (values) => ({ input: values.text, top: 6 }),
    python: (model, values) => library(model, "score", [[values.text]]),
    show: scored,
  },
};

function judged({ label, probabilities }) {
  const rows = Object.entries(probabilities).sort((a, b) => b[1] - a[1])
    .map(([each, value]) => ({ text: each, value, marked: each === label }));
  return [make("p", { className: "big" }, label), bars(rows, { label: say("probabilities"), whole: true })];
}

// Offsets count characters as Python does, of which an emoji is one and two of JavaScript's.
function spans(whole, found) {
  const characters = [...whole], labels = [...new Set(found.map(({ label }) => label))];
  const parts = [];
  let end = 0;
  for (const { start, end: stop, label, probability } of [...found].sort((a, b) => a.start - b.start)) {
    if (start < end) continue;
    const style = { "--mine": `var(--colour-${labels.indexOf(label) % 7})` };
    const mark = make("mark", { className: "span", style, title: percent(probability) },
      characters.slice(start, stop).join(""), make("small", {}, label));
    parts.push(characters.slice(end, start).join(""), mark);
    end = stop;
  }
  return make("div", {}, make("p", { className: "paper big tagged" }, ...parts, characters.slice(end).join("")),
    ...(found.length ? [] : [make("p", { className: "faint" }, say("noSpans"))]));
}

function answered({ answer, start, end, probability, null_probability: none }, { passage }) {
  const characters = [...passage], part = (...bounds) => characters.slice(...bounds).join("");
  const shown = answer === null
    ? make("p", { className: "paper" }, passage)
    : make("p", { className: "paper" }, part(0, start), make("mark", { className: "answer" }, part(start, end)), part(end));
  const facts = [answer !== null && typeof probability === "number" ? say("sure", { probability: percent(probability) }) : "",
    typeof none === "number" ? say("noAnswerChance", { probability: percent(none) }) : ""].filter(Boolean);
  return [make("p", { className: "big" }, answer ?? say("noAnswer")), shown, make("p", { className: "faint" }, facts.join(" · "))];
}

function chosenBy(model, values, task) {
  const tuned = Object.values(model.polyseme?.tasks ?? {}).includes("choice");
  const choices = lines(values.choices);
  return tuned
    ? predicted(() => ({ context: values.context, choices }))(model, values, task)
    : library(model, "score", [choices.map((each) => ` ${each}`)], { after: choices.map(() => values.context) });
}

function scored({ data: [found] }, values) {
  const shaded = shadedText(), characters = [...values.text];
  let before = 0;
  for (const { text: name, start, end, log_probability: logprob, alternatives = [] } of found.tokens) {
    shaded.add({ gap: characters.slice(before, start).join(""), text: characters.slice(start, end).join(""), name, logprob,
      alternatives: alternatives.map((other) => ({ text: other.text, logprob: other.log_probability })) });
    before = Math.max(before, end);
  }
  const bits = found.bits_per_character;
  const shown = make("span", { className: "big" }, bits === null ? "–" : bits.toFixed(3));
  const scale = make("span", { className: "tag" }, say(found.scale));
  return [make("p", {}, shown, ` ${say("bitsPerCharacter")} `, scale), shaded.element];
}

const how = (by) => make("p", { className: "faint" }, by ? say(`by_${by}`) : "");

const gauge = (score) => make("div", { className: "gauge", "aria-hidden": "true", style: { "--share": (score + 1) / 2 } });
