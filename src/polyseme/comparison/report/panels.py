"""Qualitative results side by side: nearest neighbours, generated text and masked-token predictions."""

from collections.abc import Sequence
from html import escape

from polyseme.comparison.report.charts import family_badge
from polyseme.comparison.report.labels import escape_text, truncate
from polyseme.comparison.report.results_view import ResultsView, get_pairs
from polyseme.comparison.results import Row

_MAX_WORDS, _MAX_ITEMS, _MAX_PROMPTS, _MAX_TEXTS = 12, 10, 8, 3
_MAX_CHARACTERS = 600  # of a generated text


def draw_neighbours(results: ResultsView) -> str:
    """The nearest neighbours of words, one panel per word."""
    words: dict[str, dict[str, list[tuple[str, float]]]] = {}
    for row in results.of["neighbours"]:
        words.setdefault(row["word"], {})[row["family"]] = get_pairs(row, "neighbours")[:_MAX_ITEMS]
    panels = []
    for word, by_family in [*words.items()][:_MAX_WORDS]:
        lines = []
        for family in (family for family in results.families if family in by_family):
            items = "".join(
                f"<li>{escape_text(other, 40)} <small>{score:.2f}</small></li>" for other, score in by_family[family]
            )
            lines.append(
                (family, f'<ol class="near">{items}</ol>' if items else '<p class="faint">out of vocabulary</p>')
            )
        panels.append((word, _family_list(lines, results)))
    return draw_panels("neighbours", panels)


def draw_examples(results: ResultsView) -> str:
    """Generated text and masked-token predictions, one panel per prompt."""
    prompts: dict[tuple[str, str], dict[str, Row]] = {}
    for row in results.of["example"]:
        prompts.setdefault((row["kind"], row["prompt"]), {})[row["family"]] = row
    panels = []
    for (kind, prompt), by_family in sorted(prompts.items(), key=lambda one: one[0][0] != "generate")[:_MAX_PROMPTS]:
        draw = _predictions if kind == "fill" else _generated_texts
        lines = [(family, draw(by_family[family], prompt)) for family in results.families if family in by_family]
        panels.append((prompt, _family_list(lines, results)))
    return draw_panels("examples", panels)


def _generated_texts(row: Row, prompt: str) -> str:
    given = row.get("texts")
    texts = [text for text in given if isinstance(text, str)] if isinstance(given, list) else []
    parts = []
    for text in texts[:_MAX_TEXTS]:
        start, rest = (prompt, text[len(prompt) :]) if text.startswith(prompt) else ("", text)
        prefix = f'<span class="faint">{escape_text(start, 200)}</span> ' if start else ""
        parts.append(f"<p>{prefix}{escape(truncate(rest, _MAX_CHARACTERS))}</p>")
    return "".join(parts) or '<p class="faint">nothing</p>'


def _predictions(row: Row, prompt: str) -> str:
    items = "".join(
        f'<li style="--share:{min(1.0, max(0.0, probability)):.3f}">{escape_text(token, 40)} '
        f"<small>{probability:.0%}</small></li>"
        for token, probability in get_pairs(row, "predictions")[:_MAX_ITEMS]
    )
    return f'<ol class="near filled">{items}</ol>' if items else '<p class="faint">nothing</p>'


def _family_list(lines: Sequence[tuple[str, str]], results: ResultsView) -> str:
    items = [f"<dt>{family_badge(family, results)}</dt><dd>{html}</dd>" for family, html in lines]
    return f'<dl class="beside">{"".join(items)}</dl>'


def draw_panels(key: str, panels: Sequence[tuple[str, str]]) -> str:
    """Panels below each other; the script shows one at a time."""
    parts = [
        f'<section class="panel" data-label="{escape_text(label, 60)}">'
        f"<h3>{escape_text(label, 200)}</h3>{html}</section>"
        for label, html in panels
    ]
    return f'<div class="panels" data-key="{key}">{"".join(parts)}</div>' if parts else ""
