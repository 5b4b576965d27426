// The state of the page is stored in its address, so that it can be shared and restored: #view?name=value&…
const GLOBAL = ["lang", "theme"]; // kept when the view changes

export function readAddress() {
  const [view, query = ""] = location.hash.slice(1).split(/\?(.*)/s);
  return { view, values: new URLSearchParams(query) };
}

export function linkTo(view, values = {}) {
  const before = readAddress().values, query = new URLSearchParams();
  for (const name of GLOBAL) if (before.has(name)) query.set(name, before.get(name));
  for (const [name, value] of Object.entries(values)) if (value !== null && value !== "") query.set(name, value);
  return `#${view}${query.size ? `?${query}` : ""}`;
}

// Change values of the address, with a new history entry if `entry` is set; null removes a value.
export function updateAddress(changes, { entry = false } = {}) {
  const { view, values } = readAddress();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined) values.delete(name);
    else values.set(name, value);
  }
  const to = `#${view}${values.size ? `?${values}` : ""}`;
  if (to === location.hash) return;
  if (entry) history.pushState(null, "", to);
  else history.replaceState(null, "", to);
}
