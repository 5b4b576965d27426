// Interactions of a report: chart selection, sortable tables, panels, legends, sense maps and copy buttons.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);

function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function all(selector, root = document) {
  return [...root.querySelectorAll(selector)];
}

// Quality against cost: all charts are in the page, one is visible.
const quality = document.getElementById("quality"), cost = document.getElementById("cost");
if (quality) {
  const update = () => {
    for (const chart of all("[data-chart]")) chart.hidden = chart.dataset.chart !== `${quality.value} ${cost.value}`;
  };
  quality.closest(".choices").hidden = false;
  quality.addEventListener("change", update);
  cost.addEventListener("change", update);
  update(); // browsers restore earlier selections
}

// Tables: a click on a column header sorts, a second click reverses; missing values stay last.
for (const table of all(".sortable")) {
  const headers = all("thead th", table), body = table.tBodies[0], original = [...body.rows];
  headers.forEach((header, column) => {
    const button = make("button", { type: "button" }, header.textContent);
    header.replaceChildren(button);
    button.addEventListener("click", () => {
      const initial = column === 0 || "lower" in header.dataset ? "ascending" : "descending";
      const reversed = initial === "ascending" ? "descending" : "ascending";
      const order = header.getAttribute("aria-sort") === initial ? reversed : initial;
      headers.forEach((one) => one.removeAttribute("aria-sort"));
      header.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const value = (row) => row.cells[column].dataset.value;
      const numeric = original.some((row) => value(row) !== undefined);
      body.append(...[...original].sort((a, b) => {
        if (!numeric) return sign * a.cells[column].textContent.localeCompare(b.cells[column].textContent);
        const [first, second] = [value(a), value(b)];
        if (first === undefined || second === undefined) return (first === undefined) - (second === undefined);
        return sign * (first - second);
      }));
    });
  });
}

// Panels: one at a time, selected by buttons; all are printed.
for (const container of all(".panels")) {
  const panels = all(":scope > .panel", container);
  if (panels.length < 2) continue;
  const buttons = panels.map((panel, index) => {
    const button = make("button", { type: "button" }, panel.dataset.label);
    button.addEventListener("click", () => select(index));
    return button;
  });
  const select = (selected) => {
    panels.forEach((panel, index) => panel.classList.toggle("unselected", index !== selected));
    buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(index === selected)));
  };
  container.prepend(make("div", { class: "tabs", role: "group", "aria-label": "Show" }, ...buttons));
  select(0);
}

// Legends: a pressed entry dims the other families in the charts of its section.
for (const legend of all(".legend")) {
  const section = legend.closest("section"), items = all("li", legend);
  for (const item of items) {
    item.setAttribute("role", "button");
    item.setAttribute("tabindex", "0");
    item.setAttribute("aria-pressed", "false");
    const toggle = () => {
      const pressed = item.getAttribute("aria-pressed") !== "true";
      items.forEach((one) => one.setAttribute("aria-pressed", String(one === item && pressed)));
      for (const series of all("svg [data-series]", section)) {
        series.classList.toggle("dim", pressed && series.dataset.series !== item.dataset.series);
      }
    };
    item.addEventListener("click", toggle);
    item.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      toggle();
    });
  }
}

// Sense maps: the selected sentence is shown below and highlighted in the maps of all families.
for (const maps of all(".maps")) {
  const sentences = data.sentences[maps.dataset.sentences], reading = maps.parentElement.querySelector(".reading");
  const markers = all("use", maps);
  let selected = null;
  const select = (sentence) => {
    selected = sentence;
    const [before, word, after] = sentences[sentence];
    reading.replaceChildren(before, make("mark", {}, word), after);
    for (const marker of markers) marker.classList.toggle("selected", Number(marker.dataset.sentence) === sentence);
  };
  const selectTarget = (event) => event.target.dataset.sentence && select(Number(event.target.dataset.sentence));
  for (const map of all(".map", maps)) {
    const points = all("use", map).map((marker) => ({
      sentence: Number(marker.dataset.sentence), x: Number(marker.getAttribute("x")), y: Number(marker.getAttribute("y")),
    }));
    if (!points.length) continue;
    map.setAttribute("tabindex", "0");
    map.setAttribute("role", "application");
    map.setAttribute("aria-label", `${map.getAttribute("aria-label")}; move with the arrow keys`);
    map.addEventListener("pointerover", selectTarget);
    map.addEventListener("click", selectTarget);
    map.addEventListener("keydown", (event) => {
      const step = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (!step) return;
      event.preventDefault();
      const current = points.findIndex((point) => point.sentence === selected);
      if (current < 0) return select(points[0].sentence);
      let nearest = null, least = Infinity;
      for (const point of points) {
        const [dx, dy] = [point.x - points[current].x, point.y - points[current].y];
        const along = dx * step[0] + dy * step[1], across = Math.abs(dx * step[1]) + Math.abs(dy * step[0]);
        if (along > 0 && across <= along && along + across < least) [nearest, least] = [point, along + across];
      }
      const next = points[(current + step[0] + step[1] + points.length) % points.length]; // if none lies in that direction
      select((nearest ?? next).sentence);
    });
  }
}

// Commands: a button copies; if the browser forbids that, the text is selected instead.
for (const command of all(".command")) {
  const button = make("button", { type: "button" }, "copy"), text = command.querySelector("code");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(text);
      button.textContent = "selected";
    }
    setTimeout(() => (button.textContent = "copy"), 2000);
  });
  command.append(button);
}
