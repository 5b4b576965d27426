// What a report can do beyond being read: choose a drawing, sort a table, show one panel at a time, read a map, copy a command.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);

function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function all(selector, within = document) {
  return [...within.querySelectorAll(selector)];
}

// Quality against cost: every drawing is there, one is shown.
const quality = document.getElementById("quality"), cost = document.getElementById("cost");
if (quality) {
  const show = () => {
    for (const drawing of all("[data-front]")) {
      drawing.hidden = drawing.dataset.front !== `${quality.value} ${cost.value}`;
    }
  };
  quality.closest(".choices").hidden = false;
  quality.addEventListener("change", show);
  cost.addEventListener("change", show);
  show(); // a browser may have kept what was chosen before
}

// Tables: a column's name sorts by it, once more the other way about; what is missing stays below.
for (const table of all(".sortable")) {
  const heads = all("thead th", table), body = table.tBodies[0], first = [...body.rows];
  heads.forEach((head, column) => {
    const button = make("button", { type: "button" }, head.textContent);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const begin = column === 0 || "lower" in head.dataset ? "ascending" : "descending";
      const other = begin === "ascending" ? "descending" : "ascending";
      const way = head.getAttribute("aria-sort") === begin ? other : begin;
      heads.forEach((one) => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", way);
      const sign = way === "ascending" ? 1 : -1;
      const value = (row) => row.cells[column].dataset.value;
      const numeric = first.some((row) => value(row) !== undefined);
      body.append(...[...first].sort((one, two) => {
        if (!numeric) return sign * one.cells[column].textContent.localeCompare(two.cells[column].textContent);
        const [mine, theirs] = [value(one), value(two)];
        if (mine === undefined || theirs === undefined) return (mine === undefined) - (theirs === undefined);
        return sign * (mine - theirs);
      }));
    });
  });
}

// Panels: one at a time, chosen by a row of buttons; paper shows them all.
for (const panels of all(".panels")) {
  const every = all(":scope > .panel", panels);
  if (every.length < 2) continue;
  const buttons = every.map((panel, number) => {
    const button = make("button", { type: "button" }, panel.dataset.label);
    button.addEventListener("click", () => show(number));
    return button;
  });
  const show = (number) => {
    every.forEach((panel, other) => panel.classList.toggle("put-away", other !== number));
    buttons.forEach((button, other) => button.setAttribute("aria-pressed", String(other === number)));
  };
  panels.prepend(make("div", { class: "tabs", role: "group", "aria-label": "Show" }, ...buttons));
  show(0);
}

// Legends: a family that is pressed stands out in the drawings of its section.
for (const legend of all(".legend")) {
  const section = legend.closest("section"), items = all("li", legend);
  for (const item of items) {
    item.setAttribute("role", "button");
    item.setAttribute("tabindex", "0");
    item.setAttribute("aria-pressed", "false");
    const press = () => {
      const pressed = item.getAttribute("aria-pressed") !== "true";
      items.forEach((other) => other.setAttribute("aria-pressed", String(other === item && pressed)));
      for (const thing of all("svg [data-thing]", section)) {
        thing.classList.toggle("dim", pressed && thing.dataset.thing !== item.dataset.thing);
      }
    };
    item.addEventListener("click", press);
    item.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      press();
    });
  }
}

// Maps of a word: the sentence that is pointed at is read below, and marked in the maps of all families.
for (const maps of all(".maps")) {
  const sentences = data.sentences[maps.dataset.sentences], reading = maps.parentElement.querySelector(".reading");
  const marks = all("use", maps);
  let chosen = null;
  const read = (number) => {
    chosen = number;
    const [before, word, after] = sentences[number];
    reading.replaceChildren(before, make("mark", {}, word), after);
    for (const mark of marks) {
      const now = Number(mark.dataset.number) === number;
      mark.classList.toggle("now", now);
    }
  };
  for (const map of all(".map", maps)) {
    const places = all("use", map).map((mark) => ({
      number: Number(mark.dataset.number), x: Number(mark.getAttribute("x")), y: Number(mark.getAttribute("y")),
    }));
    if (!places.length) continue;
    map.setAttribute("tabindex", "0");
    map.setAttribute("role", "application");
    map.setAttribute("aria-label", `${map.getAttribute("aria-label")}; arrow keys walk over it`);
    map.addEventListener("pointerover", (event) => event.target.dataset.number && read(Number(event.target.dataset.number)));
    map.addEventListener("click", (event) => event.target.dataset.number && read(Number(event.target.dataset.number)));
    map.addEventListener("keydown", (event) => {
      const step = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (!step) return;
      event.preventDefault();
      const here = places.findIndex((place) => place.number === chosen);
      if (here < 0) return read(places[0].number);
      let best = null, least = Infinity;
      for (const place of places) {
        const [dx, dy] = [place.x - places[here].x, place.y - places[here].y];
        const along = dx * step[0] + dy * step[1], across = Math.abs(dx * step[1]) + Math.abs(dy * step[0]);
        if (along > 0 && across <= along && along + across < least) [best, least] = [place, along + across];
      }
      const next = (here + step[0] + step[1] + places.length) % places.length; // where none lies that way
      read((best ?? places[next]).number);
    });
  }
}

// Commands: a button copies; where a browser does not allow that, the text is selected.
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
