"""Maps of the user's own ambiguous words: where each family puts every place of a word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from polyseme.comparison.report_panels import draw_panels
from polyseme.comparison.report_plots import badge
from polyseme.comparison.report_rows import Row, Rows, is_number, number_in, rows_in, text_in
from polyseme.comparison.report_words import cut, listed, name
from polyseme.pages import COLOURS
from polyseme.plots import SHAPES, shape

_CONTEXTS = ("none", "left", "both")
_MOST_WORDS, _MOST_PLACES = 12, 100
_MOST_GROUPS, _MOST_SENTENCES = 6, 3  # that are written out
_BESIDE = 110  # characters on either side of a word
_SIZE, _EDGE = 200, 14  # of a map, and what is left free around its marks
_SAME = 1e-9  # extent of a map on which all is in one place, but for rounding
_READING = '<p class="reading" aria-live="polite"><span class="faint">Point at a mark to read its sentence.</span></p>'


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a word stands in a text, and on a map."""

    x: float
    y: float
    text: str
    start: int
    end: int
    group: int  # of those that are alike

    def parts(self) -> tuple[str, str, str]:
        """What stands before the word, the word, and what stands behind it, as much as is read at a glance."""
        before, after = self.text[: self.start], self.text[self.end :]
        before = before if len(before) <= _BESIDE else f"…{before[-_BESIDE:]}"
        after = after if len(after) <= _BESIDE else f"{after[:_BESIDE]}…"
        first, word, last = (cut(part, 2 * _BESIDE) for part in (before, self.text[self.start : self.end], after))
        return first + " " * before.endswith(" "), word, " " * after.startswith(" ") + last


def draw_senses(rows: Rows) -> tuple[str, list[list[list[str]]]]:
    """A panel a word with a map a family; and the sentences of each word, for a program to show."""
    ambiguous = rows.comparison["ambiguous"]
    told = {text_in(row, "word"): row for row in rows_in(ambiguous, "words")}
    found: dict[str, dict[str, Row]] = {word: {} for word in told}
    for row in rows.of["senses"]:
        found.setdefault(row["word"], {})[row["family"]] = row
    panels: list[tuple[str, str]] = []
    sentences: list[list[list[str]]] = []
    for word, by_family in [(word, some) for word, some in found.items() if some][:_MOST_WORDS]:
        places = {family: read_places(by_family[family]) for family in _by_context(rows) if family in by_family}
        known: dict[tuple[str, str, str], int] = {}
        for place in (place for some in places.values() for place in some):
            known.setdefault(place.parts(), len(known))
        # Those that have one vector for all places share a map, as there is nothing to see on any.
        same = [family for family, some in places.items() if _extent(some) <= _SAME]
        groups = [same] if same else []
        groups += [[family] for family in places if family not in same]
        maps = "".join(_map(some, by_family[some[0]], places[some[0]], known, rows) for some in groups)
        shown = places.get(text_in(ambiguous, "by")) or [*places.values()][-1]
        body = f'{_about(told.get(word, {}))}<div class="maps" data-sentences="{len(sentences)}">{maps}</div>'
        panels.append((word, f"{body}{_READING}{_groups(shown)}"))
        sentences.append([list(parts) for parts in known])
    marks = "".join(f'<path id="group-{number}" d="{shape(number)}"/>' for number in range(len(SHAPES)))
    drawn = f'<svg class="nowhere" aria-hidden="true"><defs>{marks}</defs></svg>{draw_panels("senses", panels)}'
    return drawn, sentences


def read_places(row: Row) -> list[Place]:
    """The places of a word, without what is broken."""
    given = row.get("points")
    found = []
    for point in given if isinstance(given, list) else []:
        if not isinstance(point, list) or len(point) < 3 or not isinstance(point[2], str):
            continue
        x, y, text = point[:3]
        if is_number(x) and is_number(y):
            start, end, group = ([int(one) if is_number(one) else 0 for one in point[3:6]] + [0, 0, 0])[:3]
            start = min(max(0, start), len(text))
            end = min(max(start, end), len(text))
            found.append(Place(x=float(x), y=float(y), text=text, start=start, end=end, group=max(0, group)))
    return found[:_MOST_PLACES]


def _by_context(rows: Rows) -> list[str]:
    """Families, those that see less of a text first."""
    contexts = {family: rows.context(family) for family in rows.families}
    return sorted(contexts, key=lambda family: [*_CONTEXTS, contexts[family]].index(contexts[family]))


def _about(row: Row) -> str:
    count, spread = number_in(row, "count"), number_in(row, "spread")
    told = [] if count is None else [f"{count:,.0f} times in the text"]
    told += [] if spread is None else [f"spread {spread:.2f}"]
    return f'<p class="faint">{", ".join(told)}</p>' if told else ""


def _extent(places: Sequence[Place]) -> float:
    sides = ([place.x for place in places], [place.y for place in places])
    return max((max(side) - min(side) for side in sides if side), default=0.0)


def _map(
    families: Sequence[str], row: Row, places: Sequence[Place], known: dict[tuple[str, str, str], int], rows: Rows
) -> str:
    """The map of a family, or that of several which have one vector for all places."""
    xs, ys = [place.x for place in places] or [0.0], [place.y for place in places] or [0.0]
    extent = _extent(places)
    scale = (_SIZE - 2 * _EDGE) / extent if extent > _SAME else 0.0
    marks = []
    for place in places:
        x = _SIZE / 2 + scale * (place.x - (min(xs) + max(xs)) / 2)
        y = _SIZE / 2 - scale * (place.y - (min(ys) + max(ys)) / 2)
        marks.append(f'<use {_group(place.group)} x="{x:.1f}" y="{y:.1f}" data-number="{known[place.parts()]}"/>')
    layer = number_in(row, "layer")
    about = "one vector" if not scale else "" if layer is None else f"layer {layer:.0f}"
    names = " ".join(f'<span class="badge">{badge(family, rows)}</span>' for family in families)
    label = escape(", ".join(filter(None, [f"Map of {len(places)} places in {listed([*map(name, families)])}", about])))
    return (
        f'<figure><svg class="map{"" if scale else " same"}" viewBox="0 0 {_SIZE} {_SIZE}" role="img" '
        f'aria-label="{label}">{"".join(marks)}</svg>'
        f'<figcaption>{names} <span class="faint">{about}</span></figcaption></figure>'
    )


def _group(number: int) -> str:
    return f'href="#group-{number % len(SHAPES)}" class="g{number % len(COLOURS)}"'


def _groups(places: Sequence[Place]) -> str:
    """Some sentences of each group, to be read where nothing can be pointed at."""
    groups: dict[int, list[str]] = {}
    for place in sorted(places, key=lambda place: place.group):
        before, word, after = map(escape, place.parts())
        groups.setdefault(place.group, []).append(f"<li>{before}<mark>{word}</mark>{after}</li>")
    lists = "".join(
        f'<li><svg class="icon" viewBox="-9 -9 18 18" aria-hidden="true"><use {_group(group)}/></svg>'
        f"<ul>{''.join(items[:_MOST_SENTENCES])}</ul></li>"
        for group, items in [*groups.items()][:_MOST_GROUPS]
    )
    return f'<ul class="groups">{lists}</ul>' if lists else ""
