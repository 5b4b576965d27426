// Tasks: what the served models were fine-tuned for or can do as they are, one form and one picture each.
import { ask } from "../api.js";
import { asking } from "../asking.js";
import { calls } from "../calls.js";
import { button, choice, field, form, make, tabs } from "../dom.js";
import { oneModel } from "../models.js";
import { say } from "../strings.js";
import { TASKS } from "../tasks.js";

export const can = Object.keys(TASKS);

export function open(context, models) {
  const offered = can.filter((name) => able(models, name).length);
  const asked = context.get("task", offered[0]);
  const body = make("div", { role: "tabpanel" });
  let left = null; // ends what the task before was still waiting for

  function show(name, fresh) {
    left?.abort();
    left = new AbortController();
    const leaving = left;
    context.signal.addEventListener("abort", () => leaving.abort(), { once: true });
    body.setAttribute("aria-label", say(name));
    body.replaceChildren(...oneTask({ ...context, signal: left.signal }, name, able(models, name), fresh));
  }

  const first = offered.includes(asked) ? asked : offered[0];
  const picker = tabs(offered.map((name) => [name, say(name)]), first, (name) => {
    context.set({ task: name, model: null, of: null, ...Object.fromEntries(everyField().map((each) => [each, null])) });
    show(name, true);
  }, say("tasks"));
  show(first, false);
  return [picker, body];
}

const able = (models, name) => models.filter(({ polyseme }) => polyseme?.can?.includes(name));
const everyField = () => [...new Set(Object.values(TASKS).flatMap(({ fields }) => fields.map(({ name }) => name)))];

function oneTask(context, name, models, fresh) {
  const { path, kind, fields, body: bodyOf, python, show } = TASKS[name];
  const model = oneModel(context, models);
  const inputs = fields.map(({ name: each, input, start }) => input(fresh ? start() : context.get(each, start())));
  const results = make("div", { className: "results" });
  const { line, ask: start } = asking(context, results);
  const called = calls();
  const heads = make("div"); // a model may have several heads of a kind
  let head = null, only = null; // what is chosen from, where there are several; and the one that a program has to name

  function chooseHead() {
    const all = Object.entries(model.chosen.polyseme?.tasks ?? {});
    const names = all.filter(([, of]) => of === kind).map(([each]) => each);
    only = all.length > 1 ? names[0] : undefined;
    head = names.length > 1 ? choice(names.map((each) => [each, each]), context.get("of")) : null;
    heads.replaceChildren(...(head ? [field(say("head"), head)] : []));
  }

  function question() {
    const values = Object.fromEntries(fields.map(({ name: each }, place) => [each, inputs[place].value]));
    return { values, body: { model: model.chosen.id, ...(head ? { task: head.value } : {}), ...bodyOf(values) } };
  }

  function run() {
    const { values, body } = question();
    called.tell({ path, body }, python(model.chosen, values, head?.value ?? only));
    return start(async (signal) => {
      results.replaceChildren(...show(await ask(path, body, signal), values));
    });
  }

  model.select.addEventListener("change", () => {
    chooseHead();
    submit();
  });
  const submit = () => {
    context.set({ task: name, model: model.chosen.id, of: head?.value ?? null, ...question().values });
    return run();
  };
  chooseHead();
  run();
  return [
    make("p", { className: "faint tight" }, say(`${name}About`)),
    form(submit, model.element, heads,
      ...fields.map(({ label, hint }, place) => field(say(label), inputs[place], { hint: hint ? say(hint) : "" })),
      make("div", { className: "buttons" }, button(say("ask"), { kind: "main", type: "submit" }))),
    line, results, called.element,
  ];
}
