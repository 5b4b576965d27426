"""A comparison as Markdown, for those who read it where no page can be shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from polyseme.comparison.recommend import Choice, Recommendation, describe_score
from polyseme.comparison.report_rows import Rows, pairs_in, text_in
from polyseme.comparison.report_tables import Table, cost_table, facts, score_table
from polyseme.comparison.report_words import cut, listed, name, scored

_MEANT = re.compile(r"([\\`*_{}\[\]|~$^])|^(?=[#+=-])|(?<=^\d)(?=[.)](?:\s|$))")  # the last two where a line begins
_MOST_WORDS, _MOST_NEAR = 12, 6


def write_markdown(rows: Rows, recommended: Recommendation) -> str:
    """The whole report."""
    return "\n".join(_lines(rows, recommended)) + "\n"


def plain(text: str, most: int = 300) -> str:
    """A text that means nothing to Markdown or HTML."""
    safe = cut(text, most).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MEANT.sub(lambda found: f"\\{found[0]}", safe)


def _lines(rows: Rows, recommended: Recommendation) -> Iterator[str]:
    corpus = text_in(rows.comparison, "corpus")
    yield f"# Which representation{f' for {plain(corpus)}' if corpus else ''}?"
    yield from ("", plain(recommended.sentences[0], 2000), "", plain(recommended.sentences[1], 2000), "")
    if recommended.choices:
        yield from _table(
            ["for", "use", "score", "on", "beside it", "why"], [_choice_row(choice) for choice in recommended.choices]
        )
    for limit in recommended.limits:
        yield f"- {plain(limit)}"
    if recommended.unmeasured:
        yield f"- Not measured here: {listed([use.name.lower() for use in recommended.unmeasured])}."
    scores, costs = score_table(rows), cost_table(rows)
    if scores.columns:
        yield from (
            "",
            "## Scores",
            "",
            "Each with its standard error; bold is better than all others beyond noise.",
            "",
        )
        yield from _of_families(scores)
        yield from (
            f"- {plain(column)}: {plain(about)}" for column, about in zip(scores.columns, scores.about, strict=True)
        )
    if any(rows.families.values()):
        yield from ("", "## Costs", "")
        yield from _of_families(costs)
    near: dict[str, dict[str, list[tuple[str, float]]]] = {}
    for row in rows.of["neighbours"]:
        near.setdefault(row["word"], {})[row["family"]] = pairs_in(row, "neighbours")[:_MOST_NEAR]
    if near:
        yield from ("", "## Neighbours of words", "")
        words = [*near][:_MOST_WORDS]
        families = [family for family in rows.families if any(family in near[word] for word in words)]
        yield from _table(
            ["", *(plain(word, 40) for word in words)],
            [
                [
                    plain(name(family)),
                    *(", ".join(plain(other, 40) for other, _ in near[word].get(family, [])) for word in words),
                ]
                for family in families
            ],
        )
    yield from ("", "## How to do it again", "")
    for title, command in [("everything", text_in(rows.comparison, "command"))] + [
        (name(family), text_in(row, "command")) for family, row in rows.families.items()
    ]:
        if command:
            yield from (f"{plain(title, 40)}:", "", *_fenced(command), "")
    for row in rows.of["failure"]:
        stage, message = plain(text_in(row, "stage"), 40), plain(text_in(row, "message"), 500)
        yield f"- {plain(name(row['family']))} failed ({stage}): {message}"
    told = facts(rows)
    if told:
        yield from ("", "## What was measured on what", "")
        yield from _table(["", ""], [[plain(key, 80), plain(value)] for key, value in told])


def _choice_row(choice: Choice) -> list[str]:
    score, told = choice.score, " ".join([choice.why, choice.few, *choice.notes])
    following = ""
    if choice.runner_up is not None and choice.whole is not None:
        other = choice.whole.scores[choice.runner_up]
        following = f"{plain(name(choice.runner_up))} {scored(other.value, other.error)}"
        following += "" if choice.beyond_noise else ", within noise"
    return [
        choice.use.name,
        f"**{plain(name(choice.family))}**" if choice.family else "none",
        scored(score.value, score.error) if score else "",
        plain(describe_score(choice), 100),
        following,
        plain(told, 600),
    ]


def _of_families(table: Table) -> Iterator[str]:
    body = [
        [
            plain(name(family)),
            *(f"**{plain(cell.text, 60)}**" if cell.best else plain(cell.text, 60) for cell in cells),
        ]
        for family, cells in table.rows.items()
    ]
    yield from _table(["family", *(plain(column, 60) for column in table.columns)], body)


def _table(header: Sequence[str], body: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    yield from (f"| {' | '.join(cells)} |" for cells in body)
    yield ""


def _fenced(text: str) -> list[str]:
    """A command as it is, within a fence that it cannot end."""
    line = " ".join(text[:2000].split())
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", line)), default=0))
    return [fence, line, fence]
