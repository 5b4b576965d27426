"""A comparison report in Markdown."""

import re
from collections.abc import Iterator, Sequence

from polyseme.comparison.report.decision import Decision
from polyseme.comparison.report.labels import family_name, truncate
from polyseme.comparison.report.results_view import ResultsView, get_text
from polyseme.comparison.report.sentences import (
    Recommendation,
    describe_cost,
    describe_datasets,
    describe_score,
    explain,
    what_would_change,
)
from polyseme.comparison.report.tables import (
    SCORE_KEY,
    Cell,
    Column,
    cost_columns,
    list_settings,
    score_columns,
    spread_columns,
)

# Characters with a meaning in Markdown; the last two groups only at the start of a line.
_SPECIAL = re.compile(r"([\\`*_{}\[\]|~$^])|^(?=[#+=-])|(?<=^\d)(?=[.)](?:\s|$))")
_MAX_WORDS, _MAX_NEIGHBOURS = 12, 6


def write_markdown(results: ResultsView, recommendation: Recommendation) -> str:
    """The whole report."""
    return "\n".join(_lines(results, recommendation)) + "\n"


def escape_markdown(text: str, most: int = 300) -> str:
    """A truncated text, escaped for Markdown and HTML."""
    safe = truncate(text, most).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(lambda match: f"\\{match[0]}", safe)


def _lines(results: ResultsView, recommendation: Recommendation) -> Iterator[str]:
    corpus = get_text(results.comparison, "corpus")
    yield f"# Which model{f' for {escape_markdown(corpus)}' if corpus else ''}?"
    yield from ("", escape_markdown(recommendation.summary, 2000), "")
    yield from (escape_markdown(recommendation.confidence, 2000), "")
    if recommendation.decisions:
        yield from _table(
            ["use", "recommended", "score", "metric", "cost", "runner-up", "why", "what would change this"],
            [_decision_row(decision, results) for decision in recommendation.decisions],
        )
    for limit in recommendation.limitations:
        yield f"- {escape_markdown(limit)}"
    if scores := score_columns(results):
        yield from ("", "## Scores", "")
        yield from (SCORE_KEY, "")
        yield from _family_table(scores, results)
        for column in scores:
            yield f"- {escape_markdown(column.name)}: {escape_markdown(column.description)}"
    if spreads := spread_columns(results):
        yield from ("", "### Variation between trainings", "")
        yield from ("Standard deviation over the trainings of each family.", "")
        yield from _family_table(spreads, results)
    if any(results.families.values()):
        yield from ("", "## Costs", "")
        yield from _family_table(cost_columns(results), results)
    yield from _neighbours(results)
    yield from ("", "## Reproduction", "")
    commands = [("whole comparison", get_text(results.comparison, "command"))]
    commands += [(family_name(family), get_text(row, "command")) for family, row in results.families.items()]
    for title, command in commands:
        if command:
            yield from (f"{escape_markdown(title, 40)}:", "", *_fenced(command), "")
    for row in results.of["failure"]:
        stage, message = escape_markdown(get_text(row, "stage"), 40), escape_markdown(get_text(row, "message"), 500)
        yield f"- {escape_markdown(family_name(row['family']))} failed ({stage}): {message}"
    if settings := list_settings(results):
        yield from ("", "## Evaluation settings", "")
        yield from _table(["", ""], [[escape_markdown(name, 80), escape_markdown(value)] for name, value in settings])


def _decision_row(decision: Decision, results: ResultsView) -> list[str]:
    score, runner_up = decision.score, ""
    if decision.runner_up is not None and decision.overall is not None:
        name, other = escape_markdown(decision.runner_up.name), decision.overall.scores[decision.runner_up]
        runner_up = f"{name} {other}{'' if decision.significant else ', not significant'}"
    return [
        decision.use.name,
        f"**{escape_markdown(family_name(decision.family))}**" if decision.family else "none",
        str(score or ""),
        escape_markdown(describe_score(decision), 100),
        describe_cost(decision, results),
        runner_up,
        escape_markdown(" ".join(filter(None, [explain(decision, results), describe_datasets(decision)])), 1400),
        escape_markdown(what_would_change(decision), 600),
    ]


def _neighbours(results: ResultsView) -> Iterator[str]:
    words = dict([*results.group("neighbours", "word").items()][:_MAX_WORDS])
    if not words:
        return
    yield from ("", "## Nearest neighbours", "")
    body = []
    for family in results.families:
        if any(family in rows for rows in words.values()):
            pairs = (rows.get(family, {}).get("neighbours", ())[:_MAX_NEIGHBOURS] for rows in words.values())
            lists = (", ".join(escape_markdown(word, 40) for word, _ in some) for some in pairs)
            body.append([escape_markdown(family_name(family)), *lists])
    yield from _table(["", *(escape_markdown(word, 40) for (word,) in words)], body)


def _family_table(columns: Sequence[Column], results: ResultsView) -> Iterator[str]:
    body = []
    for family in results.families:
        cells = (column.cells.get(family, Cell()) for column in columns)
        texts = [(escape_markdown(cell.text, 60), cell.best) for cell in cells]
        body.append([escape_markdown(family_name(family)), *(f"**{text}**" if best else text for text, best in texts)])
    yield from _table(["family", *(escape_markdown(column.name, 60) for column in columns)], body)


def _table(header: Sequence[str], body: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    yield from (f"| {' | '.join(cells)} |" for cells in body)
    yield ""


def _fenced(text: str) -> list[str]:
    """A command in a fence longer than any run of backticks in it."""
    line = " ".join(text[:2000].split())
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", line)), default=0))
    return [fence, line, fence]
