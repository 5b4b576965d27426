// Tasks: one form and one result display per task that the models support.
import { fetchJson } from "../api.js";
import { button, field, form, make, select, tabs } from "../dom.js";
import { modelSelect } from "../models.js";
import { requestRunner } from "../request.js";
import { codeSnippets } from "../snippets.js";
import { t } from "../strings.js";
import { TASKS } from "../tasks.js";

export const endpoints = Object.keys(TASKS);

export function open(context, models) {
  const offered = endpoints.filter((name) => supporting(models, name).length);
  const requested = context.get("task", offered[0]);
  const panel = make("div", { role: "tabpanel" });
  let aborter = null; // aborts the requests of the task that was shown before

  function show(name, useExample) {
    aborter?.abort();
    aborter = new AbortController();
    const mine = aborter;
    context.signal.addEventListener("abort", () => mine.abort(), { once: true });
    panel.setAttribute("aria-label", t(name));
    panel.replaceChildren(...taskForm({ ...context, signal: mine.signal }, name, supporting(models, name), useExample));
  }

  const first = offered.includes(requested) ? requested : offered[0];
  const picker = tabs(offered.map((name) => [name, t(name)]), first, (name) => {
    context.set({ task: name, model: null, head: null, ...Object.fromEntries(fieldNames().map((each) => [each, null])) });
    show(name, true);
  }, t("tasks"));
  show(first, false);
  return [picker, panel];
}

const supporting = (models, name) => models.filter(({ polyseme }) => polyseme?.endpoints?.includes(name));
const fieldNames = () => [...new Set(Object.values(TASKS).flatMap(({ fields }) => fields.map(({ name }) => name)))];

function taskForm(context, name, models, useExample) {
  const { path, kind, fields, body: bodyOf, python, show } = TASKS[name];
  const model = modelSelect(context, models);
  const inputs = fields.map(({ name: each, input, initial }) => input(useExample ? initial() : context.get(each, initial())));
  const results = make("div", { className: "results" });
  const { status, run: start } = requestRunner(context, results);
  const snippets = codeSnippets();
  const heads = make("div");
  let head = null; // a select element, if the model has several tasks of this kind
  let onlyTask = null; // the name that the Python code needs, if the model has several tasks but one of this kind

  function updateHeads() {
    const all = Object.entries(model.chosen.polyseme?.tasks ?? {});
    const names = all.filter(([, each]) => each === kind).map(([each]) => each);
    onlyTask = all.length > 1 ? names[0] : undefined;
    head = names.length > 1 ? select(names.map((each) => [each, each]), context.get("head")) : null;
    heads.replaceChildren(...(head ? [field(t("task"), head)] : []));
  }

  function request() {
    const values = Object.fromEntries(fields.map(({ name: each }, index) => [each, inputs[index].value]));
    return { values, body: { model: model.chosen.id, ...(head ? { task: head.value } : {}), ...bodyOf(values) } };
  }

  function run() {
    const { values, body } = request();
    snippets.update({ path, body }, python(model.chosen, values, head?.value ?? onlyTask));
    return start(async (signal) => {
      results.replaceChildren(...show(await fetchJson(path, body, signal), values));
    });
  }

  model.select.addEventListener("change", () => {
    updateHeads();
    submit();
  });
  const submit = () => {
    context.set({ task: name, model: model.chosen.id, head: head?.value ?? null, ...request().values });
    return run();
  };
  updateHeads();
  run();
  return [
    make("p", { className: "faint tight" }, t(`${name}About`)),
    form(submit, model.element, heads,
      ...fields.map(({ label, hint }, index) => field(t(label), inputs[index], { hint: hint ? t(hint) : "" })),
      make("div", { className: "buttons" }, button(t("run"), { kind: "main", type: "submit" }))),
    status, results, snippets.element,
  ];
}
