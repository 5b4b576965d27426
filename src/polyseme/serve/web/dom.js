// Fields, buttons and what else the views are put together from.
import { make } from "./inside/drawing.js";

export { make };

let made = 0;

// A field under its name; what it is for, if it has to be said, is read out with it.
export function field(label, input, { hint = "" } = {}) {
  input.id ||= `field-${++made}`;
  const parts = [make("label", { htmlFor: input.id }, label), input];
  if (hint) {
    const about = make("small", { className: "faint", id: `${input.id}-hint` }, hint);
    input.setAttribute("aria-describedby", about.id);
    parts.push(about);
  }
  return make("div", { className: "field" }, ...parts);
}

export function textArea(value, { rows = 3 } = {}) {
  return make("textarea", { value, rows, spellcheck: false, maxLength: 20000 });
}

export function textInput(value) {
  return make("input", { type: "text", value, spellcheck: false, autocomplete: "off", maxLength: 20000 });
}

export function numberInput(value, { min, max, step = 1 }) {
  return make("input", { type: "number", value, min, max, step, required: true, inputMode: "decimal" });
}

export function choice(options, chosen) {
  const element = make("select", {}, ...options.map(([value, label]) => make("option", { value }, label)));
  if (options.some(([value]) => String(value) === String(chosen))) element.value = chosen;
  return element;
}

export function button(label, { kind = "", type = "button", ...more } = {}) {
  return make("button", { type, className: kind, ...more }, label);
}

// Enter with Control sends a form from a field of several lines, where Enter alone is a new line.
export function form(submit, ...children) {
  const element = make("form", { className: "ask", autocomplete: "off", noValidate: false }, ...children);
  element.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  element.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) element.requestSubmit();
  });
  return element;
}

// Probabilities as bars, which are a list to those who hear them; with `pick`, each is a button. The longest bar is as
// long as there is room, or, where they are to be judged by their size, one of 1 would be.
export function bars(rows, { label, pick, digits = 1, whole = false } = {}) {
  const most = whole ? 1 : Math.max(...rows.map(({ value }) => Math.abs(value)), 1e-9);
  return make("ol", { className: "bars", "aria-label": label ?? "" }, ...rows.map((row) => {
    const { text, value, shown = percent(value, digits), marked = false } = row;
    const name = make(pick ? "button" : "span", { className: "name", ...(pick ? { type: "button" } : {}) }, visible(text));
    if (pick) name.addEventListener("click", () => pick(row));
    const bar = make("span", { className: "bar", "aria-hidden": "true", style: { "--share": Math.max(0, value) / most } });
    return make("li", { className: marked ? "marked" : "" }, name, bar, make("span", { className: "number" }, shown));
  }));
}

export function percent(value, digits = 1) {
  if (value > 0 && value < 0.0005) return "< 0.1 %";
  return `${(100 * value).toFixed(value >= 0.9995 ? 0 : digits)} %`;
}

// A token that cannot be seen is shown by signs for what it is.
export function visible(text) {
  if (text === "") return "∅";
  return /^\s+$/.test(text) ? text.replaceAll("\n", "↵").replaceAll("\t", "⇥").replaceAll(/\s/g, "␣") : text;
}

export function card(title, ...children) {
  return make("section", { className: "card" }, ...(title ? [make("h3", {}, title)] : []), ...children);
}

export function code(text) {
  return make("code", {}, text);
}

// A tab list over one panel: arrows move, as readers of screens expect.
export function tabs(names, chosen, open, label) {
  const buttons = names.map(([name, shown]) => button(shown, {
    role: "tab", "aria-selected": String(name === chosen), tabIndex: name === chosen ? 0 : -1 }));
  const go = (place) => {
    buttons.forEach((other, number) => {
      other.setAttribute("aria-selected", String(number === place));
      other.tabIndex = number === place ? 0 : -1;
    });
    buttons[place].focus();
    open(names[place][0]);
  };
  buttons.forEach((tab, place) => tab.addEventListener("click", () => go(place)));
  const list = make("div", { role: "tablist", className: "tabs", "aria-label": label }, ...buttons);
  list.addEventListener("keydown", (event) => {
    const now = buttons.indexOf(document.activeElement), last = buttons.length - 1;
    const to = { ArrowRight: now === last ? 0 : now + 1, ArrowLeft: now ? now - 1 : last, Home: 0, End: last }[event.key];
    if (now < 0 || to === undefined) return;
    event.preventDefault();
    go(to);
  });
  requestAnimationFrame(() => { // once it is on the page, where the row may be too long for the screen
    const shown = list.querySelector("[aria-selected=true]");
    if (shown) list.scrollLeft = shown.offsetLeft - 40;
  });
  return list;
}

// Copies by the clipboard where the browser lets us, which it does on this machine and over https only.
export async function copy(text, near) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(near);
    return document.execCommand("copy");
  }
}

export function notice(...children) {
  return make("div", { className: "notice" }, ...children);
}
