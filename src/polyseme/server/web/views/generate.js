// Text generation: tokens as they are generated, shaded by surprisal, with their alternatives.
import { streamEvents } from "../api.js";
import { button, field, form, make, numberInput, textArea } from "../dom.js";
import { example } from "../examples.js";
import { modelSelect } from "../models.js";
import { requestRunner } from "../request.js";
import { codeSnippets, openaiCall } from "../snippets.js";
import { t } from "../strings.js";
import { surprisalText } from "../tokens.js";

const NUM_ALTERNATIVES = 8;

export const endpoints = ["completions"];

export function open(context, models) {
  const model = modelSelect(context, models);
  const prompt = textArea(context.get("prompt", example("generate")), { rows: 2 });
  const temperature = numberInput(context.get("temperature", "0.8"), { min: 0, max: 2, step: 0.1 });
  const maxTokens = numberInput(context.get("max_tokens", "60"), { min: 1, max: 512 });
  const seed = numberInput(context.get("seed", "1"), { min: 0, max: 2 ** 31 });
  const generateButton = button(t("generateButton"), { kind: "main", type: "submit" });
  const stopButton = button(t("stop"), { disabled: true });
  const results = make("div", { className: "results" });
  const { status, run: start, stop } = requestRunner(context, results, { gradually: true });
  const snippets = codeSnippets();

  const shaded = surprisalText({ pick: (index, text) => {
    prompt.value += shaded.textBefore(index) + text;
    submit();
  } });
  results.append(shaded.element);

  const requestBody = () => ({ model: model.chosen.id, prompt: prompt.value, max_tokens: Number(maxTokens.value),
    temperature: Number(temperature.value), seed: Number(seed.value) });

  function updateSnippets() {
    const body = requestBody();
    snippets.update({ path: "v1/completions", body: { ...body, stream: true } }, openaiCall("completions", body, { stream: true }));
  }

  function run() {
    const body = requestBody();
    updateSnippets();
    shaded.clear(body.prompt);
    results.hidden = false;
    stopButton.disabled = false;
    return start(async (signal) => {
      const started = performance.now();
      for await (const { choices } of streamEvents("v1/completions", { ...body, stream: true, logprobs: NUM_ALTERNATIVES }, signal)) {
        for (const token of tokensOf(choices[0])) shaded.add(token);
      }
      const seconds = (performance.now() - started) / 1000;
      return t("generated", { count: shaded.length, speed: (shaded.length / seconds).toFixed(0) });
    }).finally(() => { stopButton.disabled = true; });
  }

  function submit() {
    context.set({ model: model.chosen.id, prompt: prompt.value, temperature: temperature.value, max_tokens: maxTokens.value,
      seed: seed.value });
    return run();
  }

  stopButton.addEventListener("click", () => stop());
  const element = form(submit, field(t("prompt"), prompt),
    make("div", { className: "row-of broad" }, model.element, field(t("temperature"), temperature, { hint: t("temperatureHint") }),
      field(t("maxTokens"), maxTokens), field(t("seed"), seed, { hint: t("seedHint") })),
    make("div", { className: "buttons" }, generateButton, stopButton));
  element.addEventListener("change", updateSnippets);
  element.addEventListener("keydown", (event) => event.key === "Escape" && stop());
  results.hidden = true;
  updateSnippets();
  if (context.has("prompt")) run();
  return [element, status, results, snippets.element];
}

function* tokensOf({ text, logprobs }) {
  if (!logprobs?.tokens?.length) {
    if (text) yield { text, logprob: 0, alternatives: [] };
    return;
  }
  for (const [index, token] of logprobs.tokens.entries()) {
    const others = Object.entries(logprobs.top_logprobs?.[index] ?? {}).map(([other, logprob]) => ({ text: other, logprob }));
    yield { text: token, logprob: logprobs.token_logprobs[index] ?? 0, alternatives: others.sort((a, b) => b.logprob - a.logprob) };
  }
}
