"""The HTML page of sense analysis: a map of the occurrences per model, with one slider through the layers of all."""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from polyseme.analysis.occurrences import Occurrence
from polyseme.analysis.senses import LayerSenses, Senses
from polyseme.rendering.html import bundle_modules, page, read_asset

METRICS = {
    "accuracy": "1-NN accuracy, balanced",
    "silhouette": "silhouette",
    "self_similarity": "self-similarity",
    "random_similarity": "random words",
    "centroid_distance": "centroid distance",
}
"""The metrics of a layer and their column titles."""

_SENSE_METRICS = ("accuracy", "silhouette")
_CONTEXT = 160  # characters shown on either side of the word


def senses_page(results: Sequence[Senses]) -> str:
    """A stand-alone page that compares models on the same occurrences."""
    first = results[0]
    sense_ids = {sense: id for id, sense in enumerate(first.senses)}
    metrics = [key for key in METRICS if sense_ids or key not in _SENSE_METRICS]
    data = {
        "senses": [[sense, count] for sense, count in first.senses.items()],
        "metrics": [[key, METRICS[key]] for key in metrics],
        "occurrences": [
            [*_excerpt(occurrence), sense_ids.get(occurrence.sense, -1), int(index >= first.num_known)]
            for index, occurrence in enumerate(first.occurrences)
        ],
        "models": [
            {
                "name": result.name,
                "description": f"{result.family}, tokens: {' '.join(result.tokens) or 'none'}",
                "static": result.static,
                "layers": [_layer_json(layer) for layer in result.layers],
            }
            for result in results
        ],
    }
    has_queries = first.num_known < len(first.occurrences)
    title = f"{first.word}: {len(first.occurrences):,} occurrence{'s' * (len(first.occurrences) > 1)}"
    title += f", {len(sense_ids)} senses" if sense_ids else ""
    top = max(len(result.layers) for result in results) - 1
    body = f"""<h1>{escape(title)}</h1>
<p>Each point is the vector of one occurrence of the word. Arrow keys move the slider from the embedding, which does not
depend on the context, to the top layer; on a map they move from point to point.</p>
<div id="legend"></div>
<div class="controls"><label>bottom <input type="range" id="layer" aria-label="Layer" min="0" max="{top}" step="1"
value="{top}"{" disabled" if not top else ""}> top</label></div>
<div id="maps"></div>
<p id="reading" aria-live="polite"></p>
<h2>Nearest occurrences</h2><div id="lists"></div>
<h2>Every layer</h2>
<div class="wide"><table><tr><th>model</th><th>layer</th>{"".join(f"<th>{METRICS[key]}</th>" for key in metrics)}
<th>explained variance</th></tr>{"".join(_rows(results, metrics))}</table></div>
<p class="faint">{escape(_legend(has_senses=bool(sense_ids), has_queries=has_queries))}</p>"""
    script = bundle_modules("dom.js", "word_map.js", "senses_page.js")
    style = read_asset("word_map.css") + read_asset("senses_page.css")
    return page(title, body, data=data, script=script, style=style)


def _layer_json(layer: LayerSenses) -> dict[str, Any]:
    low, high = layer.points.min(0), layer.points.max(0)
    extent = float((high - low).max()) or 1.0
    return {
        "points": np.rint((2 * layer.points - low - high) / extent * 1000).astype(int).ravel().tolist(),
        "explained": [round(fraction, 4) for fraction in layer.explained],
        "nearest": layer.nearest.tolist(),
        "cosines": np.round(layer.cosines, 4).tolist(),
        "metrics": {key: None if value is None else round(value, 6) for key, value in layer.metrics.items()},
    }


def _rows(results: Sequence[Senses], metrics: Sequence[str]) -> list[str]:
    rows = []
    for model, result in enumerate(results):
        for index, layer in enumerate(result.layers):
            values = layer.metrics
            cells = [result.name, "static" if result.static else str(index)]
            cells += [_cell(values[key], values["error"] if key == "accuracy" else None) for key in metrics]
            cells.append(f"{sum(layer.explained):.0%}")
            row = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
            rows.append(f'<tr data-model="{model}" data-layer="{index}">{row}</tr>')
    return rows


def _cell(value: float | None, error: float | None) -> str:
    return "–" if value is None else f"{value:z.3f}" + (f" ± {error:.3f}" if error else "")


def _legend(*, has_senses: bool, has_queries: bool) -> str:
    candidates = "all others" if not has_queries else "those of the first file (filled points; queries are hollow)"
    sense_metrics = (
        f"1-NN accuracy: how often the nearest occurrence among {candidates} has the same sense, as the mean recall "
        "over senses; the majority baseline is one over their number. Silhouette: separation of the senses, from -1 "
        "to 1. "
    )
    return (sense_metrics if has_senses else "") + (
        "Self-similarity: the mean cosine of two occurrences; random words: the same for random words of the texts, "
        "the baseline of self-similarity (Ethayarajh, 2019). Centroid distance: the mean cosine distance from the "
        "centroid. The maps show the first two principal components of unit vectors, each map scaled to fill its "
        "square."
    )


def _excerpt(occurrence: Occurrence) -> tuple[str, str, str]:
    """The text before the word, the word, and the text after it, shortened."""
    before, after = occurrence.text[: occurrence.start], occurrence.text[occurrence.end :]
    before = before if len(before) <= _CONTEXT else "… " + before[-_CONTEXT:].split(" ", 1)[-1]
    after = after if len(after) <= _CONTEXT else after[:_CONTEXT].rsplit(" ", 1)[0] + " …"
    return before, occurrence.word, after
