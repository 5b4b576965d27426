"""What families make of words and texts, side by side: neighbours, and what they write and fill in."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from polyseme.comparison.report_plots import badge
from polyseme.comparison.report_rows import Row, Rows, pairs_in
from polyseme.comparison.report_words import cut, shown

_MOST_WORDS, _MOST_NEAR, _MOST_PROMPTS, _MOST_TEXTS = 12, 10, 8, 3
_TEXT = 600  # characters of what was written


def draw_neighbours(rows: Rows) -> str:
    """The words that are nearest to some, a panel a word."""
    words: dict[str, dict[str, list[tuple[str, float]]]] = {}
    for row in rows.of["neighbours"]:
        words.setdefault(row["word"], {})[row["family"]] = pairs_in(row, "neighbours")[:_MOST_NEAR]
    panels = []
    for word, found in [*words.items()][:_MOST_WORDS]:
        lines = []
        for family in rows.families:
            if family in found:
                near = "".join(
                    f"<li>{shown(other, 40)} <small>{nearness:.2f}</small></li>" for other, nearness in found[family]
                )
                lines.append(
                    (family, f'<ol class="near">{near}</ol>' if near else '<p class="faint">does not know it</p>')
                )
        panels.append((word, _side_by_side(lines, rows)))
    return draw_panels("neighbours", panels)


def draw_examples(rows: Rows) -> str:
    """What families write and fill in, a panel a prompt."""
    prompts: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows.of["example"]:
        prompts.setdefault((row["kind"], row["prompt"]), {})[row["family"]] = row
    panels = []
    for (kind, prompt), found in sorted(prompts.items(), key=lambda item: item[0][0] != "generate")[:_MOST_PROMPTS]:
        show = _filled if kind == "fill" else _written
        lines = [(family, show(found[family], prompt)) for family in rows.families if family in found]
        panels.append((prompt, _side_by_side(lines, rows)))
    return draw_panels("examples", panels)


def _written(row: Row, prompt: str) -> str:
    given = row.get("texts")
    texts = [text for text in given if isinstance(text, str)] if isinstance(given, list) else []
    parts = []
    for text in texts[:_MOST_TEXTS]:
        begun, rest = (prompt, text[len(prompt) :]) if text.startswith(prompt) else ("", text)
        begin = f'<span class="faint">{shown(begun, 200)}</span> ' if begun else ""
        parts.append(f"<p>{begin}{escape(cut(rest, _TEXT))}</p>")
    return "".join(parts) or '<p class="faint">nothing</p>'


def _filled(row: Row, prompt: str) -> str:
    items = "".join(
        f'<li style="--share:{min(1.0, max(0.0, chance)):.3f}">{shown(word, 40)} <small>{chance:.0%}</small></li>'
        for word, chance in pairs_in(row, "filled")[:_MOST_NEAR]
    )
    return f'<ol class="near filled">{items}</ol>' if items else '<p class="faint">nothing</p>'


def _side_by_side(lines: Sequence[tuple[str, str]], rows: Rows) -> str:
    items = [f"<dt>{badge(family, rows)}</dt><dd>{what}</dd>" for family, what in lines]
    return f'<dl class="beside">{"".join(items)}</dl>'


def draw_panels(key: str, panels: Sequence[tuple[str, str]]) -> str:
    """Panels below each other; a program shows one at a time."""
    parts = [
        f'<section class="panel" data-label="{shown(label, 60)}"><h3>{shown(label, 200)}</h3>{body}</section>'
        for label, body in panels
    ]
    return f'<div class="panels" data-key="{key}">{"".join(parts)}</div>' if parts else ""
