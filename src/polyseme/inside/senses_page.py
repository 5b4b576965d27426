"""The occurrences of a word on one page: a map for each model, all moved through their layers by one slider."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np

from polyseme.inside.occurrences import Occurrence
from polyseme.inside.senses import Layer, Senses
from polyseme.pages import join_modules, page

FIGURES = {
    "accuracy": "1-NN accuracy, balanced",
    "silhouette": "silhouette",
    "self_similarity": "self-similarity",
    "other_words": "other words",
    "spread": "spread",
}
"""What is said of a layer, and how a reader is told of it."""

_OF_SENSES = ("accuracy", "silhouette")
_SHOWN = 160  # characters of a text on either side of the word
_STYLE = """
.controls { position: sticky; top: 0; z-index: 1; background: var(--ground); padding: .5rem 0;
  border-bottom: 1px solid var(--line); } .controls label { display: flex; gap: .6rem; align-items: center; }
#layer { flex: 1; padding: 0; accent-color: var(--colour-0); }
#legend { display: flex; flex-wrap: wrap; gap: .4rem; } #legend button { padding: 0 .5rem; }
#legend [aria-pressed=true] { border-color: var(--ink); }
#maps, #lists { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 18rem), 1fr)); gap: 1.2rem; }
.card h2 { margin: .8rem 0 0; overflow-wrap: anywhere; } .card h2 .faint { font-weight: normal; font-size: .9rem; }
.card p { margin: 0 0 .4rem; font-size: .9rem; min-height: 2.7em; line-height: 1.35; }
.figures { display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; margin: .2rem 0 .5rem;
  font-variant-numeric: tabular-nums; } .figures div { min-width: 5rem; }
.figures dt { font-size: .8rem; color: var(--faint); } .figures dd { margin: 0; }
#reading { position: sticky; bottom: 0; background: var(--ground); border-top: 1px solid var(--line); margin: 0;
  padding: .6rem 0; min-height: 4.8em; max-height: 40vh; overflow-y: auto; overflow-wrap: anywhere; }
mark { background: none; color: inherit; font-weight: 600; border-bottom: 3px solid var(--sense); }
.sense { white-space: nowrap; font-size: .85rem; } .sense svg { width: .9em; height: .9em; vertical-align: -.08em;
  margin-right: .3em; } .sense path { fill: currentColor; }
#lists h3 { margin: .8rem 0 0; font-size: 1rem; overflow-wrap: anywhere; } #lists p { margin: 0; min-height: 1.5em; }
#lists ol { padding: 0; margin: 0; list-style: none; }
#lists li { display: flex; flex-wrap: wrap; gap: 0 .6rem; padding: .35rem 0; border-bottom: 1px solid var(--line);
  font-size: .9rem; } .cosine { font-variant-numeric: tabular-nums; color: var(--faint); }
#lists button { border: 0; background: none; padding: 0; text-align: left; cursor: pointer; width: 100%;
  overflow-wrap: anywhere; } #lists button:hover { color: var(--colour-0); }
.now td { background: var(--panel); font-weight: 600; }
"""


def draw_senses(looks: Sequence[Senses]) -> str:
    """A page of what several models make of the same occurrences."""
    first = looks[0]
    senses = {sense: number for number, sense in enumerate(first.senses)}
    shown = [key for key in FIGURES if senses or key not in _OF_SENSES]
    data = {
        "senses": [[sense, count] for sense, count in first.senses.items()],
        "figures": [[key, FIGURES[key]] for key in shown],
        "occurrences": [
            [*_cut(occurrence), senses.get(occurrence.sense, -1), int(number >= first.num_known)]
            for number, occurrence in enumerate(first.occurrences)
        ],
        "models": [
            {
                "name": look.name,
                "about": f"{look.family}, reads it as {' '.join(look.spelling) or 'nothing'}",
                "static": look.static,
                "layers": [_layer(layer) for layer in look.layers],
            }
            for look in looks
        ],
    }
    title = f"{first.word}: {len(first.occurrences):,} occurrence{'s' * (len(first.occurrences) > 1)}"
    title += f", {len(senses)} senses" if senses else ""
    top = max(len(look.layers) for look in looks) - 1
    body = f"""<h1>{escape(title)}</h1>
<p>Each mark is a text that the word stands in, by its vector there. Arrow keys move the slider from the layer that
knows no other word to the top; on a map they walk from mark to mark.</p>
<div id="legend"></div>
<div class="controls"><label>bottom <input type="range" id="layer" aria-label="Layer" min="0" max="{top}" step="1"
value="{top}"{" disabled" if not top else ""}> top</label></div>
<div id="maps"></div>
<p id="reading" aria-live="polite"></p>
<h2>Nearest occurrences</h2><div id="lists"></div>
<h2>Every layer</h2>
<div class="wide"><table><tr><th>model</th><th>layer</th>{"".join(f"<th>{FIGURES[key]}</th>" for key in shown)}
<th>variance shown</th></tr>{"".join(_rows(looks, shown))}</table></div>
<p class="faint">{escape(_explained(bool(senses), bool(first.num_known < len(first.occurrences))))}</p>"""
    inside = files(__package__)
    script = join_modules(inside, "drawing.js", "word_map.js", "senses_page.js")
    style = inside.joinpath("word_map.css").read_text("utf-8") + _STYLE
    return page(title, body, data=data, script=script, style=style)


def _layer(layer: Layer) -> dict[str, Any]:
    low, high = layer.points.min(0), layer.points.max(0)
    extent = float((high - low).max()) or 1.0
    return {
        "points": np.rint((2 * layer.points - low - high) / extent * 1000).astype(int).ravel().tolist(),
        "explained": [round(share, 4) for share in layer.explained],
        "nearest": layer.nearest.tolist(),
        "cosines": np.round(layer.cosines, 4).tolist(),
        "figures": {key: None if value is None else round(value, 6) for key, value in layer.figures.items()},
    }


def _rows(looks: Sequence[Senses], shown: Sequence[str]) -> list[str]:
    rows = []
    for place, look in enumerate(looks):
        for number, layer in enumerate(look.layers):
            cells = [look.name, "static" if look.static else str(number)]
            cells += [_cell(layer.figures[key], layer.figures["error"] if key == "accuracy" else None) for key in shown]
            cells.append(f"{sum(layer.explained):.0%}")
            row = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
            rows.append(f'<tr data-model="{place}" data-layer="{number}">{row}</tr>')
    return rows


def _cell(value: float | None, error: float | None) -> str:
    return "–" if value is None else f"{value:z.3f}" + (f" ± {error:.3f}" if error else "")


def _explained(senses: bool, asked: bool) -> str:
    told = "all others" if not asked else "those of the first file (filled marks; those that are asked are hollow)"
    of_senses = (
        f"1-NN accuracy: how often the nearest occurrence among {told} has the same sense, as the mean of the recalls "
        "of all senses, so that a vector that is the same everywhere earns one over their number. Silhouette: how much "
        "nearer occurrences are to their own sense than to the next, from -1 to 1. "
    )
    return (of_senses if senses else "") + (
        "Self-similarity: the mean cosine of two occurrences; other words: the same of words drawn from the texts, "
        "which is to be taken off it (Ethayarajh, 2019). Spread: the mean cosine distance from the mean. The maps show "
        "the two principal components of vectors of length 1, each scaled to fill its square."
    )


def _cut(occurrence: Occurrence) -> tuple[str, str, str]:
    """What stands before the word, the word, and what stands behind it, as much as can be read at a glance."""
    before, after = occurrence.text[: occurrence.start], occurrence.text[occurrence.end :]
    before = before if len(before) <= _SHOWN else "… " + before[-_SHOWN:].split(" ", 1)[-1]
    after = after if len(after) <= _SHOWN else after[:_SHOWN].rsplit(" ", 1)[0] + " …"
    return before, occurrence.word, after
