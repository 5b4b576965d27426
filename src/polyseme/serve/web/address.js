// What is shown stands in the address, so that it can be shared and gone back to: #view?name=value&…
const KEPT = ["lang", "theme"]; // these go along from view to view

export function read() {
  const [view, query = ""] = location.hash.slice(1).split(/\?(.*)/s);
  return { view, values: new URLSearchParams(query) };
}

export function linkTo(view, values = {}) {
  const before = read().values, query = new URLSearchParams();
  for (const name of KEPT) if (before.has(name)) query.set(name, before.get(name));
  for (const [name, value] of Object.entries(values)) if (value !== null && value !== "") query.set(name, value);
  return `#${view}${query.size ? `?${query}` : ""}`;
}

// Change the address of what is shown; a new entry where it is something to go back from. A name without value goes.
export function write(changes, { entry = false } = {}) {
  const { view, values } = read();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined) values.delete(name);
    else values.set(name, value);
  }
  const to = `#${view}${values.size ? `?${values}` : ""}`;
  if (to === location.hash) return;
  if (entry) history.pushState(null, "", to);
  else history.replaceState(null, "", to);
}
