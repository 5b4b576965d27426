// Which models are asked: one of those that can, or several side by side.
import { choice, field, make } from "./dom.js";
import { say } from "./strings.js";

export const about = (model) => model.polyseme ?? {};

// Of the models that can, the one in the address, or else the first.
export function oneModel(context, models) {
  const select = choice(models.map(({ id, polyseme }) => [id, `${id} · ${polyseme?.family ?? "?"}`]), context.get("model"));
  return { element: field(say("model"), select), select, get chosen() {
    return models.find(({ id }) => id === select.value) ?? models[0];
  } };
}

// The same with several; at first those that `first` says, or a few of different families, static ones before others: that
// is what there is to compare.
export function severalModels(context, models, { most = 3, first: wanted = [] } = {}) {
  const asked = context.get("models", "").split(",").filter((id) => models.some((model) => model.id === id));
  const first = new Set(asked.length ? asked : differing(wanted.length ? wanted : models, most).map(({ id }) => id));
  const boxes = models.map(({ id, polyseme }) => {
    const box = make("input", { type: "checkbox", value: id, checked: first.has(id) });
    return { box, label: make("label", { className: "chip" }, box, ` ${id} `, make("small", {}, polyseme?.family ?? "")) };
  });
  const element = make("fieldset", { className: "field models" }, make("legend", {}, say("models")),
    ...boxes.map(({ label }) => label));
  return {
    element,
    get chosen() {
      return staticFirst(models.filter((_, place) => boxes[place].box.checked));
    },
    get names() {
      return this.chosen.map(({ id }) => id).join(",");
    },
  };
}

function differing(models, most) {
  const seen = new Set();
  const found = models.filter((model) => !seen.has(about(model).family) && seen.add(about(model).family));
  return staticFirst(found).slice(0, most);
}

export const isStatic = (model) => about(model).context === "none";
const staticFirst = (models) => models.toSorted((a, b) => Number(isStatic(b)) - Number(isStatic(a)));
