// A text whose tokens are shaded by surprisal, with the alternatives to the selected token.
import { bars, make, percent, visible } from "./dom.js";
import { t } from "./strings.js";

const MAX_BITS = 14; // surprisal of the darkest shade

export function surprisalText({ pick } = {}) {
  const text = make("span", { role: "group", "aria-label": t("tokens"), tabIndex: 0, className: "token-group" });
  const prompt = make("span", { className: "prompt" });
  const details = make("div", { className: "token-details", "aria-live": "polite" });
  const ramp = make("span", { className: "ramp", "aria-hidden": "true" });
  const scale = make("p", { className: "scale faint" }, t("lowSurprisal"), ramp, t("highSurprisal"));
  const paper = make("div", { className: "paper" }, make("div", { className: "shaded" }, prompt, text), scale);
  const element = make("div", { className: "reading" }, paper, details);
  let tokens = [], elements = [], selected = -1;

  const showHint = () => details.replaceChildren(make("p", { className: "faint" }, t("tokenHint")));

  function showDetails(index) {
    const token = tokens[index];
    if (!token) return showHint();
    const { text: surface, name: vocabularyName = surface, logprob, alternatives } = token;
    const rows = alternatives.map((other) => ({ ...other, value: Math.exp(other.logprob), marked: other.text === vocabularyName }));
    if (!rows.some(({ marked }) => marked)) rows.push({ text: vocabularyName, value: Math.exp(logprob), marked: true });
    const bits = (-logprob / Math.LN2).toFixed(1);
    details.replaceChildren(
      make("h3", {}, "“", make("span", { className: "token-name" }, visible(surface).trim()), "”"),
      make("p", { className: "faint" }, t("tokenSurprisal", { probability: percent(Math.exp(logprob)), bits })),
      bars(rows, { label: t("alternatives"), pick: pick && ((row) => row.text !== vocabularyName && pick(index, row.text)) }),
      ...(pick ? [make("p", { className: "faint" }, t("pickHint"))] : []));
  }

  function select(index) {
    elements[selected]?.removeAttribute("aria-current");
    selected = index;
    elements[index]?.setAttribute("aria-current", "true");
    elements[index]?.scrollIntoView({ block: "nearest" });
    showDetails(index);
  }

  const indexOf = (event) => elements.indexOf(event.target.closest(".token"));
  text.addEventListener("mouseover", (event) => indexOf(event) >= 0 && showDetails(indexOf(event)));
  text.addEventListener("mouseleave", () => showDetails(selected));
  text.addEventListener("click", (event) => indexOf(event) >= 0 && select(indexOf(event)));
  text.addEventListener("keydown", (event) => {
    const last = tokens.length - 1;
    const to = { ArrowRight: Math.min(last, selected + 1), ArrowLeft: Math.max(0, selected - 1), Home: 0, End: last }[event.key];
    if (to === undefined || !tokens.length) return;
    event.preventDefault();
    select(to);
  });
  showHint();

  return {
    element,
    get length() {
      return tokens.length;
    },
    textBefore: (index) => tokens.slice(0, index).map((token) => token.text).join(""),
    clear(newPrompt = "") {
      [tokens, elements, selected] = [[], [], -1];
      text.replaceChildren();
      prompt.textContent = newPrompt;
      showHint();
    },
    // {text, logprob, alternatives: [{text, logprob}], gap, name}: `gap` precedes the token in the text, `name` is the
    // token in the vocabulary.
    add(token) {
      tokens.push(token);
      const weight = Math.min(1, -token.logprob / Math.LN2 / MAX_BITS);
      const element = make("span", { className: "token", style: { "--weight": weight.toFixed(3) } }, token.text);
      elements.push(element);
      text.append(token.gap ?? "", element);
    },
  };
}
