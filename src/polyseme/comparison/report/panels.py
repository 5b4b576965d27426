"""Qualitative results side by side: nearest neighbours, generated text and masked-token predictions."""

from collections.abc import Callable, Mapping, Sequence
from html import escape

from polyseme.comparison.report.charts import family_badge
from polyseme.comparison.report.labels import escape_text, truncate
from polyseme.comparison.report.results_view import ResultsView
from polyseme.comparison.rows import Row

_MAX_WORDS, _MAX_ITEMS, _MAX_PROMPTS, _MAX_TEXTS = 12, 10, 8, 3
_MAX_CHARACTERS = 600  # of a generated text


def draw_neighbours(results: ResultsView) -> str:
    """The nearest neighbours of words, one panel per word."""
    words = [*results.group("neighbours", "word").items()][:_MAX_WORDS]
    return draw_panels(
        "neighbours", [(word, _family_list(by_family, _neighbours, results)) for (word,), by_family in words]
    )


def draw_examples(results: ResultsView) -> str:
    """Generated text and masked-token predictions, one panel per prompt."""
    prompts = sorted(results.group("example", "kind", "prompt").items(), key=lambda one: one[0][0] != "generate")
    draw = {"fill": _predictions, "generate": _generated_texts}
    panels = [(prompt, _family_list(rows, draw[kind], results)) for (kind, prompt), rows in prompts[:_MAX_PROMPTS]]
    return draw_panels("examples", panels)


def _neighbours(row: Row) -> str:
    items = "".join(
        f"<li>{escape_text(word, 40)} <small>{score:.2f}</small></li>" for word, score in row["neighbours"][:_MAX_ITEMS]
    )
    return f'<ol class="near">{items}</ol>' if items else '<p class="faint">out of vocabulary</p>'


def _generated_texts(row: Row) -> str:
    prompt, parts = row["prompt"], []
    for text in row.get("texts", ())[:_MAX_TEXTS]:
        start, rest = (prompt, text[len(prompt) :]) if text.startswith(prompt) else ("", text)
        prefix = f'<span class="faint">{escape_text(start, 200)}</span> ' if start else ""
        parts.append(f"<p>{prefix}{escape(truncate(rest, _MAX_CHARACTERS))}</p>")
    return "".join(parts) or '<p class="faint">nothing</p>'


def _predictions(row: Row) -> str:
    items = "".join(
        f'<li style="--share:{min(1.0, max(0.0, probability)):.3f}">{escape_text(token, 40)} '
        f"<small>{probability:.0%}</small></li>"
        for token, probability in row.get("predictions", ())[:_MAX_ITEMS]
    )
    return f'<ol class="near filled">{items}</ol>' if items else '<p class="faint">nothing</p>'


def _family_list(rows: Mapping[str, Row], draw: Callable[[Row], str], results: ResultsView) -> str:
    items = (f"<dt>{family_badge(family, results)}</dt><dd>{draw(row)}</dd>" for family, row in rows.items())
    return f'<dl class="beside">{"".join(items)}</dl>'


def draw_panels(key: str, panels: Sequence[tuple[str, str]]) -> str:
    """Panels below each other; the script shows one at a time."""
    parts = [
        f'<section class="panel" data-label="{escape_text(label, 60)}">'
        f"<h3>{escape_text(label, 200)}</h3>{html}</section>"
        for label, html in panels
    ]
    return f'<div class="panels" data-key="{key}">{"".join(parts)}</div>' if parts else ""
