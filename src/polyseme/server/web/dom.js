// Form fields, buttons and other elements of the views.
import { make } from "./shared/dom.js";

export { make };

let numFields = 0;

// An input with a label and, optionally, a hint that screen readers announce with it.
export function field(label, input, { hint = "" } = {}) {
  input.id ||= `field-${++numFields}`;
  const parts = [make("label", { htmlFor: input.id }, label), input];
  if (hint) {
    const note = make("small", { className: "faint", id: `${input.id}-hint` }, hint);
    input.setAttribute("aria-describedby", note.id);
    parts.push(note);
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

export function select(options, value) {
  const element = make("select", {}, ...options.map(([each, label]) => make("option", { value: each }, label)));
  if (options.some(([each]) => String(each) === String(value))) element.value = value;
  return element;
}

export function button(label, { kind = "", type = "button", ...more } = {}) {
  return make("button", { type, className: kind, ...more }, label);
}

// Ctrl+Enter submits from a multi-line field, where Enter inserts a line break.
export function form(submit, ...children) {
  const element = make("form", { className: "request", autocomplete: "off", noValidate: false }, ...children);
  element.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  element.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) element.requestSubmit();
  });
  return element;
}

// A bar chart that is a list to screen readers; with `pick`, each name is a button. A full bar is the largest value, or 1
// with `absolute`.
export function bars(rows, { label, pick, digits = 1, absolute = false } = {}) {
  const full = absolute ? 1 : Math.max(...rows.map(({ value }) => Math.abs(value)), 1e-9);
  return make("ol", { className: "bars", "aria-label": label ?? "" }, ...rows.map((row) => {
    const { text, value, shown = percent(value, digits), marked = false } = row;
    const name = make(pick ? "button" : "span", { className: "name", ...(pick ? { type: "button" } : {}) }, visible(text));
    if (pick) name.addEventListener("click", () => pick(row));
    const bar = make("span", { className: "bar", "aria-hidden": "true", style: { "--share": Math.max(0, value) / full } });
    return make("li", { className: marked ? "marked" : "" }, name, bar, make("span", { className: "number" }, shown));
  }));
}

export function percent(value, digits = 1) {
  if (value > 0 && value < 0.0005) return "< 0.1 %";
  return `${(100 * value).toFixed(value >= 0.9995 ? 0 : digits)} %`;
}

// White space and empty tokens as visible symbols.
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

// A tab list over one panel, with the keyboard interaction of the ARIA pattern.
export function tabs(names, selected, open, label) {
  const buttons = names.map(([name, title]) => button(title, {
    role: "tab", "aria-selected": String(name === selected), tabIndex: name === selected ? 0 : -1 }));
  const activate = (index) => {
    buttons.forEach((other, number) => {
      other.setAttribute("aria-selected", String(number === index));
      other.tabIndex = number === index ? 0 : -1;
    });
    buttons[index].focus();
    open(names[index][0]);
  };
  buttons.forEach((tab, index) => tab.addEventListener("click", () => activate(index)));
  const list = make("div", { role: "tablist", className: "tabs", "aria-label": label }, ...buttons);
  list.addEventListener("keydown", (event) => {
    const now = buttons.indexOf(document.activeElement), last = buttons.length - 1;
    const to = { ArrowRight: now === last ? 0 : now + 1, ArrowLeft: now ? now - 1 : last, Home: 0, End: last }[event.key];
    if (now < 0 || to === undefined) return;
    event.preventDefault();
    activate(to);
  });
  requestAnimationFrame(() => { // when it is laid out: the row may be wider than the screen
    const active = list.querySelector("[aria-selected=true]");
    if (active) list.scrollLeft = active.offsetLeft - 40;
  });
  return list;
}

// Browsers allow the clipboard API on localhost and over HTTPS only; elsewhere the text of `element` is selected.
export async function copy(text, element) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(element);
    return document.execCommand("copy");
  }
}

export function notice(...children) {
  return make("div", { className: "notice" }, ...children);
}
