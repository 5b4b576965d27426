// The page around the views: which is shown, in which language and light, and with which key.
import { linkTo, read, write } from "./address.js";
import { ask, problems, Refusal, setKey } from "./api.js";
import { short } from "./charts.js";
import { button, choice, code, field, make, notice } from "./dom.js";
import { about } from "./models.js";
import { language, say, setLanguage } from "./strings.js";
import * as attention from "./views/attention.js";
import * as fill from "./views/fill.js";
import * as layers from "./views/layers.js";
import * as neighbours from "./views/neighbours.js";
import * as runs from "./views/runs.js";
import * as senses from "./views/senses.js";
import * as tasks from "./views/tasks.js";
import * as writing from "./views/write.js";

const VIEWS = { write: writing, fill, senses, attention, layers, tasks, neighbours, runs };
// What would make a view work where no served model can.
const COMMANDS = {
  write: "polyseme pretrain gpt2 --corpus docstrings --budget 10m --out runs/gpt2",
  fill: "polyseme pretrain bert --corpus docstrings --budget 10m --out runs/bert",
  senses: "polyseme serve runs/skipgram runs/bert",
  attention: "polyseme pretrain bert --corpus docstrings --budget 10m --out runs/bert",
  tasks: "polyseme finetune runs/bert --train train.tsv --dev dev.tsv --out runs/bert-tuned",
  neighbours: "polyseme pretrain skipgram --corpus docstrings --out runs/skipgram",
};
const THEMES = ["system", "light", "dark"];

const find = (id) => document.getElementById(id);
let models = [], unserved = [], problem = "", keyless = false;
let leaving = new AbortController(); // of the view that is shown

async function load() {
  try {
    models = (await ask("v1/models")).data;
    unserved = Object.entries(await problems());
    problem = "";
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    problem = error.message;
  }
}

function render({ focus = false } = {}) {
  const { view: asked, values } = read();
  const view = asked in VIEWS ? asked : firstView();
  if (view !== asked) history.replaceState(null, "", linkTo(view));
  setLanguage(values.get("lang") ?? navigator.language.slice(0, 2));
  paint(values.get("theme"));
  header(values);
  navigation(view);
  show(view, values);
  document.title = `${say(view)} · Polyseme`;
  if (focus) find("view").focus({ preventScroll: true });
}

// The first view that the served models can do something in.
function firstView() {
  return Object.keys(VIEWS).find((name) => VIEWS[name].can.length && able(VIEWS[name]).length) ?? "write";
}

const able = (view) => models.filter((model) => view.can.some((call) => about(model).can?.includes(call)));

function paint(theme) {
  const root = document.documentElement, before = root.dataset.theme;
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  else delete root.dataset.theme;
  if (before !== root.dataset.theme) document.dispatchEvent(new CustomEvent("repaint"));
}

function header(values) {
  find("skip").textContent = say("skip");
  const other = button(say("language"), { kind: "quiet", lang: language() === "zh" ? "en" : "zh-Hans" });
  other.addEventListener("click", () => {
    write({ lang: language() === "zh" ? "en" : "zh" }, { entry: true });
    render();
    find("header").querySelector("button").focus();
  });
  const theme = choice(THEMES.map((name) => [name, say(`theme_${name}`)]), values.get("theme") ?? "system");
  theme.setAttribute("aria-label", say("theme"));
  theme.addEventListener("change", () => {
    write({ theme: theme.value === "system" ? null : theme.value });
    paint(theme.value);
    navigation(read().view);
  });
  find("header").replaceChildren(
    make("a", { className: "brand", href: linkTo(firstView()) }, make("img", { src: "icon.svg", alt: "", width: 32, height: 32 }),
      make("strong", {}, "polyseme"), make("span", { className: "faint" }, say("tagline"))),
    make("div", { className: "switches" }, other, theme));
  find("footer").replaceChildren(
    make("details", { open: unserved.length > 0 },
      make("summary", {}, models.length === 1 ? say("servedOne") : say("served", { count: models.length })),
      make("ul", { className: "served" }, ...models.map(servedLine)), ...unservedList()),
    make("a", { href: "docs" }, say("docs")));
}

function servedLine(model) {
  const { family, parameters } = about(model);
  return make("li", {}, make("strong", {}, model.id), ` ${family ?? ""}`,
    make("span", { className: "faint" }, parameters ? ` · ${say("parameters", { number: short(parameters) })}` : ""));
}

function unservedList() {
  const lines = unserved.map(([name, why]) => make("li", {}, make("strong", {}, name), ": ", why));
  return lines.length ? [make("p", {}, say("unserved")), make("ul", { className: "unserved" }, ...lines)] : [];
}

function navigation(view) {
  find("views").setAttribute("aria-label", say("views"));
  find("views").replaceChildren(...Object.keys(VIEWS).map((name) => {
    const link = make("a", { href: linkTo(name) }, say(name));
    if (name === view) link.setAttribute("aria-current", "page");
    if (VIEWS[name].can.length && !able(VIEWS[name]).length) link.className = "unable";
    return link;
  }));
  const now = find("views").querySelector("[aria-current]"); // where the row is too long for the screen
  now.parentElement.scrollLeft = now.offsetLeft - now.parentElement.offsetLeft - 40;
}

function show(name, values) {
  leaving.abort();
  leaving = new AbortController();
  const view = VIEWS[name], mine = able(view);
  const context = {
    models,
    language: language(),
    signal: leaving.signal,
    get: (key, otherwise = "") => values.get(key) ?? otherwise,
    given: (key) => values.has(key),
    // Into the address; an entry to go back to unless it is a detail.
    set: (changes, { entry = true } = {}) => write(changes, { entry: entry && leaving.signal === context.signal }),
  };
  const parts = [make("h1", {}, say(name)), make("p", { className: "about" }, say(`${name}About`))];
  if (keyless) parts.unshift(keyForm());
  if (problem) parts.push(notice(make("p", { className: "wrong", role: "alert" }, problem)));
  else if (!models.length) parts.push(notice(make("p", {}, say("noModels")), make("p", {}, code("polyseme serve runs/*"))));
  else if (view.can.length && !mine.length) {
    parts.push(notice(make("p", {}, say("cannot"), " ", say(`${name}Needs`)), make("p", {}, code(COMMANDS[name]))));
  } else parts.push(...view.open(context, mine));
  find("view").replaceChildren(...parts);
}

function keyForm() {
  const input = make("input", { type: "password", autocomplete: "off", required: true });
  const element = make("form", { className: "key notice" }, field(say("key"), input, { hint: say("keyHint") }),
    button(say("useKey"), { kind: "main", type: "submit" }));
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    setKey(input.value);
    keyless = false;
    await load();
    render();
  });
  return element;
}

document.addEventListener("keyless", () => {
  if (keyless) return;
  keyless = true;
  const shown = find("view").querySelector("h1");
  shown?.before(keyForm()); // before the first answer there is no view, and show() puts it there
});
addEventListener("popstate", () => render());
find("views").addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  history.pushState(null, "", link.href);
  render({ focus: true });
});
find("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address is ours
  find("view").focus();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new CustomEvent("repaint")));

paint(read().values.get("theme")); // before anything is asked, so that a dark page is never light first
await load();
render();
performance.mark("ready");
