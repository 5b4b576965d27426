// Elements of pages and of drawings, for the pages that stand alone and for the playground.

const DRAWN = new Set(["svg", "path", "circle", "rect", "line", "polyline", "g", "title", "text"]);

// Texts are only ever set as text, and styles by name: a strict policy refuses style attributes.
export function make(name, properties = {}, ...children) {
  const drawn = DRAWN.has(name);
  const element = drawn ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "style") for (const [style, to] of Object.entries(value)) element.style.setProperty(style, to);
    else if (!drawn && key in element && key !== "role" && key !== "list") element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}
