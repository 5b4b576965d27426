// Model selection: one of those that support a view, or several side by side.
import { field, make, select } from "./dom.js";
import { t } from "./strings.js";

export const infoOf = (model) => model.polyseme ?? {};

// A select element; the model of the address is chosen, or the first.
export function modelSelect(context, models) {
  const element = select(models.map(({ id, polyseme }) => [id, `${id} · ${polyseme?.family ?? "?"}`]), context.get("model"));
  return { element: field(t("model"), element), select: element, get chosen() {
    return models.find(({ id }) => id === element.value) ?? models[0];
  } };
}

// Checkboxes; the models of the address are checked, or up to `most` of different families, out of `preferred` if there
// are any: a static one first, then contextual ones, if there are both.
export function modelCheckboxes(context, models, { most = 3, preferred = [] } = {}) {
  const requested = context.get("models", "").split(",").filter((id) => models.some((model) => model.id === id));
  const checked = new Set(requested.length ? requested
    : differentFamilies(preferred.length ? preferred : models, most).map(({ id }) => id));
  const boxes = models.map(({ id, polyseme }) => {
    const box = make("input", { type: "checkbox", value: id, checked: checked.has(id) });
    return { box, label: make("label", { className: "chip" }, box, ` ${id} `, make("small", {}, polyseme?.family ?? "")) };
  });
  const element = make("fieldset", { className: "field models" }, make("legend", {}, t("models")),
    ...boxes.map(({ label }) => label));
  return {
    element,
    get chosen() {
      return staticFirst(models.filter((_, index) => boxes[index].box.checked));
    },
    get names() {
      return this.chosen.map(({ id }) => id).join(",");
    },
  };
}

function differentFamilies(models, most) {
  const seen = new Set();
  const found = models.filter((model) => !seen.has(infoOf(model).family) && seen.add(infoOf(model).family));
  const fixed = found.filter(isStatic), contextual = found.filter((model) => !isStatic(model));
  const numContextual = Math.min(contextual.length, most - Math.min(1, fixed.length));
  return [...fixed.slice(0, most - numContextual), ...contextual.slice(0, numContextual)];
}

export const isStatic = (model) => infoOf(model).context === "none";
const staticFirst = (models) => models.toSorted((a, b) => Number(isStatic(b)) - Number(isStatic(a)));
