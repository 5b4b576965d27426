// The page around the views: navigation, language, theme, API key and loaded models.
import { linkTo, readAddress, updateAddress } from "./address.js";
import { ApiError, fetchJson, fetchProblems, setKey } from "./api.js";
import { formatNumber } from "./charts.js";
import { button, code, field, make, notice, select } from "./dom.js";
import { infoOf } from "./models.js";
import { language, setLanguage, t } from "./strings.js";
import * as attention from "./views/attention.js";
import * as fill from "./views/fill.js";
import * as generate from "./views/generate.js";
import * as layers from "./views/layers.js";
import * as neighbours from "./views/neighbours.js";
import * as runs from "./views/runs.js";
import * as senses from "./views/senses.js";
import * as tasks from "./views/tasks.js";

const VIEWS = { generate, fill, senses, attention, layers, tasks, neighbours, runs };
// Commands that create a model for a view that no loaded model supports.
const COMMANDS = {
  generate: "polyseme pretrain gpt2 --corpus docstrings --budget 10m --out runs/gpt2",
  fill: "polyseme pretrain bert --corpus docstrings --budget 10m --out runs/bert",
  senses: "polyseme serve runs/skipgram runs/bert",
  attention: "polyseme pretrain bert --corpus docstrings --budget 10m --out runs/bert",
  tasks: "polyseme finetune runs/bert --train train.tsv --dev dev.tsv --out runs/bert-finetuned",
  neighbours: "polyseme pretrain skipgram --corpus docstrings --out runs/skipgram",
};
const UPDATE_MILLISECONDS = 5000; // as often as the server checks its directories
const THEMES = ["system", "light", "dark"];

const find = (id) => document.getElementById(id);
let models = [], problems = [], loadError = "", needsKey = false;
let viewAborter = new AbortController(); // aborts the requests of the current view

async function fetchModels() {
  models = (await fetchJson("v1/models")).data;
  problems = Object.entries(await fetchProblems());
}

async function load() {
  try {
    await fetchModels();
    loadError = "";
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    loadError = error.message;
  }
}

const languageOf = (values) => values.get("lang") ?? navigator.language.slice(0, 2);

function render({ focus = false } = {}) {
  const { view: requested, values } = readAddress();
  const view = requested in VIEWS ? requested : defaultView();
  if (view !== requested) history.replaceState(null, "", linkTo(view));
  setLanguage(languageOf(values));
  applyTheme(values.get("theme"));
  renderHeader(values);
  renderNavigation(view);
  renderView(view, values);
  document.title = `${t(view)} · Polyseme`;
  if (focus) find("view").focus({ preventScroll: true });
}

// The first view that a loaded model supports.
function defaultView() {
  return Object.keys(VIEWS).find((name) => VIEWS[name].endpoints.length && supporting(VIEWS[name]).length) ?? "generate";
}

const supporting = (view) => models.filter((model) => view.endpoints.some((name) => infoOf(model).endpoints?.includes(name)));

function applyTheme(theme) {
  const root = document.documentElement, before = root.dataset.theme;
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  else delete root.dataset.theme;
  if (before !== root.dataset.theme) document.dispatchEvent(new CustomEvent("repaint"));
}

function renderHeader(values) {
  find("skip").textContent = t("skip");
  const other = button(t("language"), { kind: "quiet", lang: language() === "zh" ? "en" : "zh-Hans" });
  other.addEventListener("click", () => {
    updateAddress({ lang: language() === "zh" ? "en" : "zh" }, { entry: true });
    render();
    find("header").querySelector("button").focus();
  });
  const theme = select(THEMES.map((name) => [name, t(`theme_${name}`)]), values.get("theme") ?? "system");
  theme.setAttribute("aria-label", t("theme"));
  theme.addEventListener("change", () => {
    updateAddress({ theme: theme.value === "system" ? null : theme.value });
    applyTheme(theme.value);
    renderNavigation(readAddress().view);
  });
  find("header").replaceChildren(
    make("a", { className: "brand", href: linkTo(defaultView()) }, make("img", { src: "icon.svg", alt: "", width: 32, height: 32 }),
      make("strong", {}, "polyseme"), make("span", { className: "faint" }, t("tagline"))),
    make("div", { className: "switches" }, other, theme));
  renderFooter();
}

function renderFooter() {
  const loaded = make("details", { open: problems.length > 0 }, make("summary", {}, t("loaded", { count: models.length })),
    make("ul", { className: "loaded" }, ...models.map(modelLine)), ...problemList());
  find("footer").replaceChildren(...(loadError ? [] : [loaded]), make("a", { href: "docs" }, t("docs")));
}

// A run becomes a model when its training ends, and a directory may be repaired.
async function refreshModels() {
  if (document.hidden || needsKey || !problems.length) return;
  const namesOf = () => JSON.stringify([models.map(({ id }) => id), problems]), before = namesOf(), hadNone = !models.length;
  try {
    await fetchModels();
  } catch {
    return; // the next attempt may succeed
  }
  if (namesOf() === before) return;
  if (hadNone && models.length) return render();
  renderFooter();
  renderNavigation(readAddress().view);
}

function modelLine(model) {
  const { family, parameters } = infoOf(model);
  return make("li", {}, make("strong", {}, model.id), ` ${family ?? ""}`,
    make("span", { className: "faint" }, parameters ? ` · ${t("parameters", { number: formatNumber(parameters) })}` : ""));
}

function problemList() {
  const lines = problems.map(([name, reason]) => make("li", {}, make("strong", {}, name), ": ", reason));
  return lines.length ? [make("p", {}, t("notLoaded")), make("ul", { className: "problems" }, ...lines)] : [];
}

function renderNavigation(view) {
  find("views").setAttribute("aria-label", t("views"));
  find("views").replaceChildren(...Object.keys(VIEWS).map((name) => {
    const link = make("a", { href: linkTo(name) }, t(name));
    if (name === view) link.setAttribute("aria-current", "page");
    if (VIEWS[name].endpoints.length && !supporting(VIEWS[name]).length) link.className = "unsupported";
    return link;
  }));
  const current = find("views").querySelector("[aria-current]"); // on narrow screens the row is scrolled to it
  current.parentElement.scrollLeft = current.offsetLeft - current.parentElement.offsetLeft - 40;
}

function renderView(name, values) {
  viewAborter.abort();
  viewAborter = new AbortController();
  const view = VIEWS[name], usable = supporting(view);
  const context = {
    models,
    language: language(),
    signal: viewAborter.signal,
    get: (key, otherwise = "") => values.get(key) ?? otherwise,
    has: (key) => values.has(key),
    // Update the address, with a history entry unless the change is a detail.
    set: (changes, { entry = true } = {}) => updateAddress(changes, { entry: entry && viewAborter.signal === context.signal }),
  };
  const parts = [make("h1", {}, t(name)), make("p", { className: "about" }, t(`${name}About`))];
  if (needsKey) parts.unshift(keyForm());
  if (loadError) parts.push(notice(make("p", { className: "wrong", role: "alert" }, loadError)));
  else if (!models.length) parts.push(notice(make("p", {}, t("noModels")), make("p", {}, code("polyseme serve runs/*"))));
  else if (view.endpoints.length && !usable.length) {
    parts.push(notice(make("p", {}, t("unsupported"), " ", t(`${name}Needs`)), make("p", {}, code(COMMANDS[name]))));
  } else parts.push(...view.open(context, usable));
  find("view").replaceChildren(...parts);
}

function keyForm() {
  const input = make("input", { type: "password", autocomplete: "off", required: true });
  const element = make("form", { className: "key notice" }, field(t("key"), input, { hint: t("keyHint") }),
    button(t("useKey"), { kind: "main", type: "submit" }));
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    setKey(input.value);
    needsKey = false;
    await load();
    render();
  });
  return element;
}

document.addEventListener("unauthorized", () => {
  if (needsKey) return;
  needsKey = true;
  find("view").querySelector("h1")?.before(keyForm()); // before the first response, renderView() inserts it
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
  event.preventDefault(); // its fragment would replace the state of the page
  find("view").focus();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new CustomEvent("repaint")));

applyTheme(readAddress().values.get("theme")); // before the first request, so that a dark page is never light
setLanguage(languageOf(readAddress().values)); // and its errors are in the language of the page
await load();
render();
setInterval(refreshModels, UPDATE_MILLISECONDS);
performance.mark("ready");
