// Building of HTML and SVG elements, for stand-alone pages and the playground.

const SVG_ELEMENTS = new Set(["svg", "path", "circle", "rect", "line", "polyline", "g", "title", "text"]);

// Texts are set as text, and styles as properties, because the content security policy forbids style attributes.
export function make(name, properties = {}, ...children) {
  const isSvg = SVG_ELEMENTS.has(name);
  const element = isSvg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "style") for (const [style, to] of Object.entries(value)) element.style.setProperty(style, to);
    else if (!isSvg && key in element && key !== "role" && key !== "list") element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}
