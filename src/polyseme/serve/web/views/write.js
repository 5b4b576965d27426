// Write: what a model goes on with, token by token while it comes, and what else it might have written.
import { stream } from "../api.js";
import { asking } from "../asking.js";
import { calls, openai } from "../calls.js";
import { button, field, form, make, numberInput, textArea } from "../dom.js";
import { example } from "../examples.js";
import { oneModel } from "../models.js";
import { say } from "../strings.js";
import { shadedText } from "../tokens.js";

const ALTERNATIVES = 8;

export const can = ["completions"];

export function open(context, models) {
  const model = oneModel(context, models);
  const prompt = textArea(context.get("prompt", example("write")), { rows: 2 });
  const heat = numberInput(context.get("temperature", "0.8"), { min: 0, max: 2, step: 0.1 });
  const length = numberInput(context.get("length", "60"), { min: 1, max: 512 });
  const seed = numberInput(context.get("seed", "1"), { min: 0, max: 2 ** 31 });
  const go = button(say("write"), { kind: "main", type: "submit" }), end = button(say("stop"), { disabled: true });
  const results = make("div", { className: "results" });
  const { line, ask, stop } = asking(context, results);
  const called = calls();

  const shaded = shadedText({ pick: (place, text) => {
    prompt.value += shaded.textUntil(place) + text;
    submit();
  } });
  results.append(shaded.element);

  const question = () => ({ model: model.chosen.id, prompt: prompt.value, max_tokens: Number(length.value),
    temperature: Number(heat.value), seed: Number(seed.value) });

  function tell() {
    const body = question();
    called.tell({ path: "v1/completions", body: { ...body, stream: true } }, openai("completions", body, { stream: true }));
  }

  function run() {
    const body = question();
    tell();
    shaded.clear(body.prompt);
    results.hidden = false;
    end.disabled = false;
    return ask(async (signal) => {
      const started = performance.now();
      for await (const { choices } of stream("v1/completions", { ...body, stream: true, logprobs: ALTERNATIVES }, signal)) {
        for (const token of tokensOf(choices[0])) shaded.add(token);
      }
      const seconds = (performance.now() - started) / 1000;
      return say("written", { count: shaded.length, speed: (shaded.length / seconds).toFixed(0) });
    }).finally(() => { end.disabled = true; });
  }

  function submit() {
    context.set({ model: model.chosen.id, prompt: prompt.value, temperature: heat.value, length: length.value, seed: seed.value });
    return run();
  }

  end.addEventListener("click", () => stop());
  const asked = form(submit, field(say("prompt"), prompt),
    make("div", { className: "row-of broad" }, model.element, field(say("temperature"), heat, { hint: say("temperatureHint") }),
      field(say("length"), length), field(say("seed"), seed, { hint: say("seedHint") })),
    make("div", { className: "buttons" }, go, end));
  asked.addEventListener("change", tell);
  asked.addEventListener("keydown", (event) => event.key === "Escape" && stop());
  results.hidden = true;
  tell();
  if (context.given("prompt")) run();
  return [asked, line, results, called.element];
}

function* tokensOf({ text, logprobs }) {
  if (!logprobs?.tokens?.length) {
    if (text) yield { text, logprob: 0, alternatives: [] };
    return;
  }
  for (const [place, token] of logprobs.tokens.entries()) {
    const others = Object.entries(logprobs.top_logprobs?.[place] ?? {}).map(([other, logprob]) => ({ text: other, logprob }));
    yield { text: token, logprob: logprobs.token_logprobs[place] ?? 0, alternatives: others.sort((a, b) => b.logprob - a.logprob) };
  }
}
