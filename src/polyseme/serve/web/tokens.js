// A text token by token, each shaded by how unexpected it was; one can be looked at closely.
import { bars, make, percent, visible } from "./dom.js";
import { say } from "./strings.js";

const DARKEST = 14; // bits from which on a token is as dark as can be

export function shadedText({ pick } = {}) {
  const text = make("span", { role: "group", "aria-label": say("tokens"), tabIndex: 0, className: "tokens-of" });
  const before = make("span", { className: "given" });
  const close = make("div", { className: "close-look", "aria-live": "polite" });
  const ramp = make("span", { className: "ramp", "aria-hidden": "true" });
  const scale = make("p", { className: "scale faint" }, say("expected"), ramp, say("unexpected"));
  const paper = make("div", { className: "paper" }, make("div", { className: "shaded" }, before, text), scale);
  const element = make("div", { className: "reading" }, paper, close);
  let shown = [], elements = [], chosen = -1;

  const hint = () => close.replaceChildren(make("p", { className: "faint" }, say("lookAtToken")));

  function look(place) {
    const token = shown[place];
    if (!token) return hint();
    const { text: written, name: word = written, logprob, alternatives } = token;
    const rows = alternatives.map((other) => ({ ...other, value: Math.exp(other.logprob), marked: other.text === word }));
    if (!rows.some(({ marked }) => marked)) rows.push({ text: word, value: Math.exp(logprob), marked: true });
    const bits = (-logprob / Math.LN2).toFixed(1);
    close.replaceChildren(
      make("h3", {}, "“", make("span", { className: "token-name" }, visible(written).trim()), "”"),
      make("p", { className: "faint" }, say("tokenSaid", { probability: percent(Math.exp(logprob)), bits })),
      bars(rows, { label: say("alternatives"), pick: pick && ((row) => row.text !== word && pick(place, row.text)) }),
      ...(pick ? [make("p", { className: "faint" }, say("pickHint"))] : []));
  }

  function choose(place) {
    elements[chosen]?.removeAttribute("aria-current");
    chosen = place;
    elements[place]?.setAttribute("aria-current", "true");
    elements[place]?.scrollIntoView({ block: "nearest" });
    look(place);
  }

  const placeOf = (event) => elements.indexOf(event.target.closest(".token"));
  text.addEventListener("mouseover", (event) => placeOf(event) >= 0 && look(placeOf(event)));
  text.addEventListener("mouseleave", () => look(chosen));
  text.addEventListener("click", (event) => placeOf(event) >= 0 && choose(placeOf(event)));
  text.addEventListener("keydown", (event) => {
    const last = shown.length - 1;
    const to = { ArrowRight: Math.min(last, chosen + 1), ArrowLeft: Math.max(0, chosen - 1), Home: 0, End: last }[event.key];
    if (to === undefined || !shown.length) return;
    event.preventDefault();
    choose(to);
  });
  hint();

  return {
    element,
    get length() {
      return shown.length;
    },
    textUntil: (place) => shown.slice(0, place).map((token) => token.text).join(""),
    // What is to come follows upon a text that was given.
    clear(given = "") {
      [shown, elements, chosen] = [[], [], -1];
      text.replaceChildren();
      before.textContent = given;
      hint();
    },
    // {text, logprob, alternatives: [{text, logprob}], gap, name}: the gap stands before it and belongs to no token, the
    // name is the text as the model has it.
    add(token) {
      shown.push(token);
      const weight = Math.min(1, -token.logprob / Math.LN2 / DARKEST);
      const element = make("span", { className: "token", style: { "--weight": weight.toFixed(3) } }, token.text);
      elements.push(element);
      text.append(token.gap ?? "", element);
    },
  };
}
