// The current request as a shell command and as Python code, to be copied.
import { hasKey, urlOf } from "./api.js";
import { button, copy, make } from "./dom.js";
import { t } from "./strings.js";

const shellQuote = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

export function pythonLiteral(value) {
  if (Array.isArray(value)) return `[${value.map(pythonLiteral).join(", ")}]`;
  if (value === true || value === false) return value ? "True" : "False";
  if (value === null || value === undefined) return "None";
  if (typeof value === "object") {
    return `{${Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${pythonLiteral(each)}`).join(", ")}}`;
  }
  return JSON.stringify(value);
}

const keywordArguments = (values) => Object.entries(values).map(([name, value]) => `${name}=${pythonLiteral(value)}`);

// A method of the loaded model.
export function libraryCall(model, method, positional, keywords = {}) {
  const directory = pythonLiteral(model.polyseme?.directory ?? model.id);
  const list = [...positional.map(pythonLiteral), ...keywordArguments(keywords)].join(", ");
  return `import polyseme as ps\nps.load(${directory}).${method}(${list})`;
}

// A method of OpenAI's client.
export function openaiCall(method, keywords, { stream = false } = {}) {
  const list = keywordArguments(keywords).join(", ");
  const key = hasKey() ? `os.environ["POLYSEME_API_KEY"]` : `"none"`;
  const client = `client = OpenAI(base_url=${pythonLiteral(urlOf("v1"))}, api_key=${key})`;
  const call = stream
    ? `for part in client.${method}.create(${list}, stream=True):\n    print(part.choices[0].text, end="", flush=True)`
    : `client.${method}.create(${list})`;
  return `${hasKey() ? "import os\n" : ""}from openai import OpenAI\n${client}\n${call}`;
}

export function curl(path, body) {
  const parts = ["curl", body?.stream ? "-N" : "", urlOf(path)].filter(Boolean);
  if (hasKey()) parts.push(`-H "Authorization: Bearer $POLYSEME_API_KEY"`);
  if (body) parts.push("-H 'Content-Type: application/json'", "-d", shellQuote(JSON.stringify(body)));
  return parts.join(" ");
}

export function codeSnippets() {
  const list = make("div");
  const element = make("details", { className: "snippets" }, make("summary", {}, t("snippets")), list);
  return {
    element,
    update({ path, body }, python) {
      list.replaceChildren(snippet(t("shell"), curl(path, body)), snippet("Python", python));
    },
  };
}

function snippet(name, text) {
  const block = make("pre", { tabIndex: 0, "aria-label": name }, text);
  const copyButton = button(t("copy"), { kind: "small" });
  copyButton.setAttribute("aria-label", `${t("copy")}: ${name}`);
  const status = make("span", { className: "faint", role: "status" });
  copyButton.addEventListener("click", async () => {
    status.textContent = (await copy(text, block)) ? t("copied") : t("copyManually");
  });
  return make("div", { className: "snippet" }, make("div", { className: "snippet-bar" }, make("span", {}, name), status, copyButton), block);
}
