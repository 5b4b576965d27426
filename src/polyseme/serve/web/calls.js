// The same question from a program: a line for a shell and a few for Python, to be copied.
import { addressOf, hasKey } from "./api.js";
import { button, copy, make } from "./dom.js";
import { say } from "./strings.js";

const shell = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

// Text and numbers as Python writes them; JSON is near enough but for these three words.
export function python(value) {
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (value === true || value === false) return value ? "True" : "False";
  if (value === null || value === undefined) return "None";
  if (typeof value === "object") {
    return `{${Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${python(each)}`).join(", ")}}`;
  }
  return JSON.stringify(value);
}

// A call of the library: the model by its directory, a verb, what it is given, and settings by name.
export function library(model, verb, given, settings = {}) {
  const named = Object.entries(settings).map(([name, value]) => `${name}=${python(value)}`);
  const place = python(model.polyseme?.directory ?? model.id);
  return `import polyseme as ps\nps.load(${place}).${verb}(${[...given.map(python), ...named].join(", ")})`;
}

// A call of OpenAI's client, which works unchanged.
export function openai(verb, settings, { stream = false } = {}) {
  const named = Object.entries(settings).map(([name, value]) => `${name}=${python(value)}`).join(", ");
  const secret = hasKey() ? `os.environ["POLYSEME_API_KEY"]` : `"none"`;
  const opened = `client = OpenAI(base_url=${python(addressOf("v1"))}, api_key=${secret})`;
  const called = stream
    ? `for part in client.${verb}.create(${named}, stream=True):\n    print(part.choices[0].text, end="", flush=True)`
    : `client.${verb}.create(${named})`;
  return `${hasKey() ? "import os\n" : ""}from openai import OpenAI\n${opened}\n${called}`;
}

export function curl(path, body) {
  const parts = ["curl", body?.stream ? "-N " : "", addressOf(path)].filter(Boolean);
  if (hasKey()) parts.push(`-H "Authorization: Bearer $POLYSEME_API_KEY"`);
  if (body) parts.push("-H 'Content-Type: application/json'", "-d", shell(JSON.stringify(body)));
  return parts.join(" ").replace("  ", " ");
}

export function calls() {
  const list = make("div");
  const element = make("details", { className: "calls" }, make("summary", {}, say("calls")), list);
  return {
    element,
    // `asked` is a path and a body, `lines` of Python.
    tell({ path, body }, lines) {
      list.replaceChildren(snippet(say("shell"), curl(path, body)), snippet("Python", lines));
    },
  };
}

function snippet(name, text) {
  const shown = make("pre", { tabIndex: 0, "aria-label": name }, text);
  const taker = button(say("copy"), { kind: "small" });
  taker.setAttribute("aria-label", `${say("copy")}: ${name}`);
  const said = make("span", { className: "faint", role: "status" });
  taker.addEventListener("click", async () => {
    said.textContent = (await copy(text, shown)) ? say("copied") : say("copyBySelf");
  });
  return make("div", { className: "snippet" }, make("div", { className: "bar-of" }, make("span", {}, name), said, taker), shown);
}
