"""Sense maps: two-dimensional projections of the occurrences of ambiguous words, one map per family."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from polyseme.comparison.report.charts import family_badge
from polyseme.comparison.report.labels import family_names, truncate
from polyseme.comparison.report.panels import draw_panels
from polyseme.comparison.report.results_view import ResultsView, fill_template, get_text
from polyseme.comparison.rows import Row
from polyseme.rendering.html import COLOURS
from polyseme.rendering.svg import SHAPES, shape

_CONTEXTS = {"none": 0, "left": 1, "both": 2}  # order of the maps
_MAX_WORDS, _MAX_OCCURRENCES = 12, 100
_MAX_CLUSTERS, _MAX_SENTENCES = 6, 3  # shown below the maps
_CONTEXT_CHARACTERS = 110  # on either side of a word
_SIZE, _MARGIN = 200, 14  # of a map
_SAME_POINT = 1e-9  # extent of a map whose points coincide up to rounding
_READING = (
    '<p class="reading" aria-live="polite"><span class="faint">Point at a marker to read its sentence.</span></p>'
)

Parts = tuple[str, str, str]  # the text before a word, the word, the text behind it


class MapPoint(NamedTuple):
    """An occurrence of a word, and its position on a map."""

    x: float
    y: float
    text: str
    start: int
    end: int
    cluster: int

    def parts(self) -> Parts:
        """The word and its context, truncated."""
        before, after = self.text[: self.start], self.text[self.end :]
        before = before if len(before) <= _CONTEXT_CHARACTERS else f"…{before[-_CONTEXT_CHARACTERS:]}"
        after = after if len(after) <= _CONTEXT_CHARACTERS else f"{after[:_CONTEXT_CHARACTERS]}…"
        word = self.text[self.start : self.end]
        first, word, last = (truncate(part, 2 * _CONTEXT_CHARACTERS) for part in (before, word, after))
        return first + " " * before.endswith(" "), word, " " * after.startswith(" ") + last


def draw_sense_maps(results: ResultsView) -> tuple[str, list[list[list[str]]]]:
    """A panel per word with a map per family; and the sentences of each word, as data for the script."""
    ambiguous = results.ambiguous_words
    facts = {row["word"]: row for row in ambiguous.get("words", ())}
    families = sorted(results.families, key=lambda family: _CONTEXTS.get(results.context(family), len(_CONTEXTS)))
    panels: list[tuple[str, str]] = []
    sentences: list[list[list[str]]] = []
    for (word,), by_family in [*results.group("sense_map", "word").items()][:_MAX_WORDS]:
        maps = {
            family: [MapPoint(*point) for point in by_family[family]["points"][:_MAX_OCCURRENCES]]
            for family in families
            if family in by_family
        }
        ids: dict[Parts, int] = {}
        for point in (point for points in maps.values() for point in points):
            ids.setdefault(point.parts(), len(ids))
        # Families with one vector for all occurrences share a map.
        static = [family for family, points in maps.items() if _extent(points) <= _SAME_POINT]
        groups = [static] if static else []
        groups += [[family] for family in maps if family not in static]
        drawn = "".join(_draw_map(some, by_family[some[0]], maps[some[0]], ids, results) for some in groups)
        listed = maps.get(get_text(ambiguous, "found_by")) or [*maps.values()][-1]
        html = f'{_describe(facts.get(word, {}))}<div class="maps" data-sentences="{len(sentences)}">{drawn}</div>'
        panels.append((word, f"{html}{_READING}{_list_clusters(listed)}"))
        sentences.append([list(parts) for parts in ids])
    markers = "".join(f'<path id="cluster-{number}" d="{shape(number)}"/>' for number in range(len(SHAPES)))
    html = f'<svg class="defs" aria-hidden="true"><defs>{markers}</defs></svg>{draw_panels("senses", panels)}'
    return html, sentences


def _describe(row: Row) -> str:
    templates = {"count": "{:,.0f} occurrences in the text", "spread": "spread {:.2f}"}
    parts = [fill_template(template, row, key) for key, template in templates.items()]
    return f'<p class="faint">{", ".join(filter(None, parts))}</p>' if any(parts) else ""


def _extent(points: Sequence[MapPoint]) -> float:
    axes = ([point.x for point in points], [point.y for point in points])
    return max((max(axis) - min(axis) for axis in axes if axis), default=0.0)


def _draw_map(
    families: Sequence[str], row: Row, points: Sequence[MapPoint], ids: dict[Parts, int], results: ResultsView
) -> str:
    """The map of a family, or of several static ones."""
    xs, ys = [point.x for point in points] or [0.0], [point.y for point in points] or [0.0]
    extent = _extent(points)
    scale = (_SIZE - 2 * _MARGIN) / extent if extent > _SAME_POINT else 0.0
    markers = []
    for point in points:
        x = _SIZE / 2 + scale * (point.x - (min(xs) + max(xs)) / 2)
        y = _SIZE / 2 - scale * (point.y - (min(ys) + max(ys)) / 2)
        markers.append(f'<use {_marker(point.cluster)} x="{x:.1f}" y="{y:.1f}" data-sentence="{ids[point.parts()]}"/>')
    caption = f"layer {row['layer']}" if scale else "static vector"
    names = " ".join(f'<span class="badge">{family_badge(family, results)}</span>' for family in families)
    label = ", ".join(filter(None, [f"Map of {len(points)} occurrences, {family_names(families)}", caption]))
    return (
        f'<figure><svg class="map{"" if scale else " same"}" viewBox="0 0 {_SIZE} {_SIZE}" role="img" '
        f'aria-label="{escape(label)}">{"".join(markers)}</svg>'
        f'<figcaption>{names} <span class="faint">{caption}</span></figcaption></figure>'
    )


def _marker(cluster: int) -> str:
    return f'href="#cluster-{cluster % len(SHAPES)}" class="c{cluster % len(COLOURS)}"'


def _list_clusters(points: Sequence[MapPoint]) -> str:
    """Some sentences of each cluster, readable without a pointer."""
    clusters: dict[int, list[str]] = {}
    for point in sorted(points, key=lambda point: point.cluster):
        before, word, after = map(escape, point.parts())
        clusters.setdefault(point.cluster, []).append(f"<li>{before}<mark>{word}</mark>{after}</li>")
    lists = "".join(
        f'<li><svg class="icon" viewBox="-9 -9 18 18" aria-hidden="true"><use {_marker(cluster)}/></svg>'
        f"<ul>{''.join(items[:_MAX_SENTENCES])}</ul></li>"
        for cluster, items in [*clusters.items()][:_MAX_CLUSTERS]
    )
    return f'<ul class="clusters">{lists}</ul>' if lists else ""
