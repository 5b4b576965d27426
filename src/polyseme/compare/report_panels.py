"""What families make of words and texts, side by side: neighbours, maps of ambiguous words, and what they write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from polyseme.compare.report_plots import icon, numbers
from polyseme.compare.report_rows import Row, Rows, is_number, number_in, pairs_in, rows_in, text_in
from polyseme.compare.report_words import cut, name
from polyseme.plots import shape

_CONTEXTS = ("none", "left", "both")
_MOST_WORDS, _MOST_NEAR, _MOST_POINTS, _MOST_PROMPTS, _MOST_TEXTS = 12, 10, 100, 8, 3
_BESIDE = 110  # characters on either side of a word
_TEXT = 600  # characters of what was written
_MAP, _EDGE = 200, 14
_GROUPS = 5  # that have a mark of their own
_SAME = 1e-9


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
                    f"<li>{escape(cut(other, 40))} <small>{nearness:.2f}</small></li>"
                    for other, nearness in found[family]
                )
                lines.append(
                    (family, f'<ol class="near">{near}</ol>' if near else '<p class="faint">does not know it</p>')
                )
        panels.append((word, _side_by_side(lines, rows)))
    return _panels("neighbours", panels)


def draw_senses(rows: Rows) -> tuple[str, list[list[list[str]]]]:
    """Maps of ambiguous words, a panel a word and a map a family; and the sentences of each for the program to show."""
    told = {text_in(row, "word"): row for row in rows_in(rows.comparison["ambiguous"], "words")}
    found: dict[str, dict[str, Row]] = {word: {} for word in told}
    for row in rows.of["senses"]:
        found.setdefault(row["word"], {})[row["family"]] = row
    panels, sentences = [], []
    for word, by_family in [(word, some) for word, some in found.items() if some][:_MOST_WORDS]:
        places: dict[tuple[str, int, int], int] = {}
        order = sorted(
            (family for family in rows.families if family in by_family),
            key=lambda family: _CONTEXTS.index(rows.context(family)) if rows.context(family) in _CONTEXTS else 3,
        )
        maps = "".join(_map(family, by_family[family], places, rows) for family in order)
        count, spread = number_in(told.get(word, {}), "count"), number_in(told.get(word, {}), "spread")
        parts = [
            "" if count is None else f"{count:,.0f} times in the text",
            "" if spread is None else f"spread {spread:.2f}",
        ]
        about = ", ".join(filter(None, parts))
        by = text_in(rows.comparison["ambiguous"], "by")
        panels.append(
            (
                word,
                (f'<p class="faint">{about}</p>' if about else "")
                + f'<div class="maps" data-sentences="{len(sentences)}">{maps}</div>'
                + '<p class="reading" aria-live="polite"></p>'
                + _groups(by_family.get(by) or by_family[order[-1]]),
            )
        )
        sentences.append([list(_around(*place)) for place in places])
    marks = "".join(f'<path id="group-{number}" d="{shape(number)}"/>' for number in range(_GROUPS))
    return f'<svg class="nowhere" aria-hidden="true"><defs>{marks}</defs></svg>{_panels("senses", panels)}', sentences


def draw_examples(rows: Rows) -> str:
    """What families write and fill in, a panel a prompt."""
    prompts: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows.of["example"]:
        prompts.setdefault((row["kind"], row["prompt"]), {})[row["family"]] = row
    panels = []
    for (kind, prompt), found in sorted(prompts.items(), key=lambda item: item[0][0] != "generate")[:_MOST_PROMPTS]:
        lines = []
        for family in rows.families:
            if family in found:
                lines.append((family, (_filled if kind == "fill" else _written)(found[family], prompt)))
        panels.append((prompt, _side_by_side(lines, rows)))
    return _panels("examples", panels)


def _written(row: Row, prompt: str) -> str:
    given = row.get("texts")
    texts = [text for text in given if isinstance(text, str)] if isinstance(given, list) else []
    parts = []
    for text in texts[:_MOST_TEXTS]:
        begun, rest = (prompt, text[len(prompt) :]) if text.startswith(prompt) else ("", text)
        begin = f'<span class="faint">{escape(cut(begun, 200))}</span> ' if begun else ""
        parts.append(f"<p>{begin}{escape(cut(rest, _TEXT))}</p>")
    return "".join(parts) or '<p class="faint">nothing</p>'


def _filled(row: Row, prompt: str) -> str:
    items = "".join(
        f'<li style="--share:{min(1.0, max(0.0, chance)):.3f}">{escape(cut(word, 40))} <small>{chance:.0%}</small></li>'
        for word, chance in pairs_in(row, "filled")[:_MOST_NEAR]
    )
    return f'<ol class="near filled">{items}</ol>' if items else '<p class="faint">nothing</p>'


def _side_by_side(lines: Sequence[tuple[str, str]], rows: Rows) -> str:
    known = numbers(rows)
    items = [f"<dt>{icon(known[family])}{escape(cut(name(family), 40))}</dt><dd>{what}</dd>" for family, what in lines]
    return f'<dl class="beside">{"".join(items)}</dl>'


def _panels(key: str, panels: Sequence[tuple[str, str]]) -> str:
    """Panels below each other; a program shows one at a time."""
    parts = [
        f'<section class="panel" data-label="{escape(cut(label, 60))}"><h3>{escape(cut(label, 200))}</h3>{body}</section>'
        for label, body in panels
    ]
    return f'<div class="panels" data-key="{key}">{"".join(parts)}</div>' if parts else ""


def _map(family: str, row: Row, places: dict[tuple[str, int, int], int], rows: Rows) -> str:
    points = _points(row)
    low = [min((point[axis] for point in points), default=0.0) for axis in (0, 1)]
    high = [max((point[axis] for point in points), default=0.0) for axis in (0, 1)]
    extent = max(high[0] - low[0], high[1] - low[1])
    middle = [(low[axis] + high[axis]) / 2 for axis in (0, 1)]
    scale = (_MAP - 2 * _EDGE) / extent if extent > _SAME else 0.0
    marks = []
    for x, y, text, start, end, group in points:
        number = places.setdefault((text, start, end), len(places))
        across, down = _MAP / 2 + scale * (x - middle[0]), _MAP / 2 - scale * (y - middle[1])
        marks.append(
            f'<use href="#group-{group % _GROUPS}" class="g{group % 7}" x="{across:.1f}" y="{down:.1f}" data-number="{number}"/>'
        )
    layer = number_in(row, "layer")
    if not points:
        about = "no places"
    elif not scale:
        about = "one vector for all of them"
    else:
        about = "" if layer is None else f"layer {layer:.0f}"
    title = cut(name(family), 40)
    return (
        f'<figure><figcaption>{icon(numbers(rows)[family])}{escape(title)} <span class="faint">{about}</span></figcaption>'
        f'<svg class="map" viewBox="0 0 {_MAP} {_MAP}" role="img" aria-label="{escape(f"Map in {title}: {len(points)} places, {about}")}">'
        f"{''.join(marks)}</svg></figure>"
    )


def _points(row: Mapping[str, Any]) -> list[tuple[float, float, str, int, int, int]]:
    """Places of a word, without what is broken."""
    given = row.get("points")
    found = []
    for point in given if isinstance(given, list) else []:
        if (
            isinstance(point, list)
            and len(point) >= 3
            and is_number(point[0])
            and is_number(point[1])
            and isinstance(point[2], str)
        ):
            start, end, group = ([int(one) if is_number(one) else 0 for one in point[3:6]] + [0, 0, 0])[:3]
            start = min(max(0, start), len(point[2]))
            found.append(
                (float(point[0]), float(point[1]), point[2], start, min(max(start, end), len(point[2])), max(0, group))
            )
    return found[:_MOST_POINTS]


def _groups(row: Row) -> str:
    """Some sentences of each group, to be read where nothing can be pointed at."""
    groups: dict[int, list[str]] = {}
    for _, _, text, start, end, group in sorted(_points(row), key=lambda point: point[5]):
        before, word, after = _around(text, start, end)
        groups.setdefault(group, []).append(f"<li>{escape(before)}<mark>{escape(word)}</mark>{escape(after)}</li>")
    lists = "".join(
        f'<li class="g{group % 7}"><svg class="icon" viewBox="-9 -9 18 18" aria-hidden="true"><use href="#group-{group % _GROUPS}"/></svg>'
        f"<ul>{''.join(items[:3])}</ul></li>"
        for group, items in [*groups.items()][:6]
    )
    return f'<ul class="groups">{lists}</ul>'


def _around(text: str, start: int, end: int) -> tuple[str, str, str]:
    before, after = text[:start], text[end:]
    before = before if len(before) <= _BESIDE else f"…{before[-_BESIDE:]}"
    after = after if len(after) <= _BESIDE else f"{after[:_BESIDE]}…"
    spaced = [cut(part, 2 * _BESIDE) for part in (before, text[start:end], after)]
    return spaced[0] + " " * before.endswith(" "), spaced[1], " " * after.startswith(" ") + spaced[2]
