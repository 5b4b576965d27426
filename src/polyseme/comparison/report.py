"""A comparison as one page that stands alone, and as Markdown; from its rows alone, never by measuring again."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from polyseme.comparison.recommend import Choice, Recommendation, describe_score, recommend
from polyseme.comparison.report_maps import draw_senses
from polyseme.comparison.report_markdown import write_markdown
from polyseme.comparison.report_panels import draw_examples, draw_neighbours
from polyseme.comparison.report_plots import (
    COSTS,
    badge,
    draw_front,
    draw_labels,
    draw_learning,
    draw_legend,
    draw_strip,
    find_qualities,
)
from polyseme.comparison.report_rows import Rows, number_in, read_rows, rows_in, text_in
from polyseme.comparison.report_tables import cost_table, draw_commands, draw_table, facts, score_table
from polyseme.comparison.report_words import budget, cut, listed, name, scored, short, shown
from polyseme.errors import DataError
from polyseme.files import write_file
from polyseme.pages import page

PAGE, MARKDOWN = "report.html", "report.md"

_ERRORS = (
    "One standard error. For tasks it has the spread over seeds, of their mean, and that of a test set of this size; "
    "for likelihoods that over documents; for the others that over items. All families answer the same questions, so "
    "that differences are rather surer than these errors say. Families count as equal where they are no more than two "
    "standard errors of the difference apart."
)
_SCALES = {
    "causal": "given all that stands before",
    "bidirectional": "the mean of reading from the left and from the right",
    "masked": "each token hidden in turn, both sides seen: easier, so a scale of its own",
}


def write_report(folder: Path) -> Path:
    """Write report.html and report.md into the folder of a comparison; the same rows give the same bytes."""
    rows = read_rows(folder)
    recommended = recommend(rows)
    written = {PAGE: draw_report(rows, recommended), MARKDOWN: write_markdown(rows, recommended)}
    try:
        for file, content in written.items():
            write_file(folder / file, content.encode("utf-8", "replace"))  # JSON may hold halves of characters
    except OSError as error:
        raise DataError(
            f"{folder / PAGE} cannot be written ({error.strerror}); make room, or choose another folder"
        ) from None
    return folder / PAGE


def draw_report(rows: Rows, recommended: Recommendation) -> str:
    """The page."""
    senses, sentences = draw_senses(rows)
    sections = [
        ("front", "Quality against cost", _fronts(rows)),
        ("scores", "What each family scored", _scores(rows)),
        ("costs", "What each family cost", _costs(rows)),
        ("learning", "While they learnt", _learning(rows)),
        ("labels", "What labels are worth", _labels(rows)),
        ("neighbours", "Neighbours of words", draw_neighbours(rows)),
        ("senses", "Words with several meanings", _senses(rows, senses) if sentences else ""),
        ("examples", "What they write", draw_examples(rows)),
        ("again", "How to do it again", _again(rows)),
    ]
    shown = [(key, title, body) for key, title, body in sections if body]
    links = "".join(f'<a href="#{key}">{title}</a>' for key, title, _ in shown)
    body = [
        f"<header>{_head(rows)}</header><main>",
        _answer(rows, recommended),
        f'<nav aria-label="Sections">{links}</nav>' if links else "",
        *(f'<section id="{key}"><h2>{title}</h2>{content}</section>' for key, title, content in shown),
        "</main>",
    ]
    here = files(__package__)
    script, style = (here.joinpath(f"report.{kind}").read_text("utf-8") for kind in ("js", "css"))
    return page(_title(rows), "\n".join(filter(None, body)), data={"sentences": sentences}, script=script, style=style)


def _title(rows: Rows) -> str:
    corpus = cut(Path(text_in(rows.comparison, "corpus")).name, 60)
    return f"Which representation for {corpus}?" if corpus else "Which representation?"


def _head(rows: Rows) -> str:
    of = rows.comparison
    words, spent = number_in(of, "words", "train"), text_in(of, "budget")
    seconds, cores = number_in(of, "processor_seconds"), number_in(of, "cores")
    parts = [f"{len(rows.families)} famil{'y' if len(rows.families) == 1 else 'ies'}"]
    parts += [] if words is None else [f"{short(words)} words to learn from"]
    if spent:
        on = f" on {cores:.0f} core{'s' * (cores != 1)}" if cores else ""
        parts.append(f"{cut(budget(spent), 40)} each{on}")
    elif seconds is not None:
        parts.append(f"{seconds:,.0f} processor seconds each")
    parts += [cut(text_in(of, "date"), 30)]
    return f'<h1>{escape(_title(rows))}</h1><p class="faint">{" · ".join(escape(part) for part in parts if part)}</p>'


def _answer(rows: Rows, recommended: Recommendation) -> str:
    first, second = recommended.sentences
    cards = "".join(_card(choice, rows) for choice in recommended.choices)
    limits = [*recommended.limits]
    if recommended.unmeasured:
        limits.append(f"Not measured here: {listed([use.name.lower() for use in recommended.unmeasured])}.")
    items = "".join(f"<li>{escape(limit)}</li>" for limit in limits)
    return (
        f'<section id="answer"><p class="verdict">{escape(first)}</p><p class="because">{escape(second)}</p>'
        + (f'<div class="cards">{cards}</div>{_read_cards(rows)}' if cards else "")
        + (f'<h2 class="small">What this does not say</h2><ul class="limits">{items}</ul>' if items else "")
        + "</section>"
    )


def _read_cards(rows: Rows) -> str:
    return (
        f'{draw_legend(rows, rows.trained)}<p class="faint key">On each line the better is to the right. The band is '
        "what noise cannot tell from the best, the broken line what is to be had without learning anything.</p>"
    )


def _card(choice: Choice, rows: Rows) -> str:
    parts = [f"<h3>{choice.use.name}</h3>"]
    score = choice.score
    if choice.family is None or score is None:
        parts.append('<p class="family none">none</p>')
    else:
        parts.append(f'<p class="family">{badge(choice.family, rows)}</p>')
        on = shown(describe_score(choice), 90)
        parts.append(f'<p class="score">{scored(score.value, score.error)} <span class="faint">{on}</span></p>')
    parts.append(draw_strip(choice, rows))
    if choice.runner_up is not None and choice.whole is not None:
        other = choice.whole.scores[choice.runner_up]
        first = choice.whole.gain(other.value, choice.whole.scores[str(choice.family)].value) > 0
        place = "best mean" if first else "next"
        apart = choice.beyond_noise or choice.whole.beyond_noise(choice.runner_up, str(choice.family))
        told = "more than noise apart" if apart else "within noise"
        parts.append(
            f'<p class="next"><span class="faint">{place}</span> {escape(name(choice.runner_up))} '
            f'{scored(other.value, other.error)} <span class="faint">{told}</span></p>'
        )
    told = " ".join([choice.why, choice.few, *choice.notes])
    parts.append(f'<p class="why">{shown(told, 600)}</p>')
    if len(choice.parts) > 1:
        parts.append(f'<p class="why faint">{shown(_of_each(choice), 400)}</p>')
    return f'<article class="card">{"".join(parts)}</article>'


def _of_each(choice: Choice) -> str:
    """Which family is first in each of several measurements."""
    firsts = []
    for part in choice.parts:
        first = max(part.scores, key=lambda family: part.gain(part.scores[family].value, 0.0))
        firsts.append(
            f"{cut(part.name, 40)}: {name(first)} {scored(part.scores[first].value, part.scores[first].error)}"
        )
    return f"First in each: {'; '.join(firsts)}."


def _fronts(rows: Rows) -> str:
    qualities = find_qualities(rows)
    costs = [cost for cost in COSTS if any(number_in(row, cost.key) is not None for row in rows.families.values())]
    if not qualities or not costs:
        return ""
    drawings = []
    for place, quality in enumerate(qualities):
        for number, cost in enumerate(costs):
            other = "" if place == number == 0 else ' class="other" hidden'
            drawings.append(f'<div data-front="{place} {number}"{other}>{draw_front(rows, quality, cost)}</div>')
    upwards = "".join(
        f'<option value="{place}">{escape(quality.name)}</option>' for place, quality in enumerate(qualities)
    )
    along = "".join(f'<option value="{number}">{escape(cost.name)}</option>' for number, cost in enumerate(costs))
    return (
        "<p>Up is better, left is cheaper. The line joins the families that none beats in both; the others are "
        "hollow.</p>"
        f'<p class="choices" hidden><label>quality <select id="quality">{upwards}</select></label> '
        f'<label>cost <select id="cost">{along}</select></label></p>'
        f'<div class="wide front-drawing">{"".join(drawings)}</div>'
    )


def _scores(rows: Rows) -> str:
    table = score_table(rows)
    if not table.columns:
        return ""
    return (
        "<p>Each with its standard error. Bold is better than all others by more than two standard errors of the "
        "difference. Tasks are at their largest number of labels, by the better of the methods that were tried.</p>"
        f"{draw_table(table, rows, 'Scores')}{_explained(table.columns, table.about)}"
    )


def _costs(rows: Rows) -> str:
    if not any(rows.families.values()):
        return ""
    table = cost_table(rows)
    return f"{draw_table(table, rows, 'Costs')}{_explained(table.columns, table.about)}"


def _explained(columns: Sequence[str], about: Sequence[str]) -> str:
    items = "".join(
        f"<dt>{escape(column)}</dt><dd>{escape(what)}</dd>" for column, what in zip(columns, about, strict=True) if what
    )
    return f'<details><summary>What the columns are</summary><dl class="terms">{items}</dl></details>'


def _learning(rows: Rows) -> str:
    drawn = draw_learning(rows)
    if not drawn:
        return ""
    families = [
        family
        for family in rows.families
        if any(row["family"] == family and rows_in(row, "points") for row in rows.of["curve"])
    ]
    figures = "".join(
        f"<figure><figcaption>{shown(title, 40)} "
        f'<span class="faint">{_SCALES.get(scale, "")}</span></figcaption>{drawing}</figure>'
        for scale, title, drawing in drawn
    )
    return f'{draw_legend(rows, families)}<div class="figures three">{figures}</div>'


def _labels(rows: Rows) -> str:
    parts = []
    for task, told in rows.tasks().items():
        drawn = draw_labels(rows, task)
        if not drawn:
            continue
        about = cut(text_in(told, "about"), 200)
        figures = "".join(
            f"<figure><figcaption>{escape(title)}</figcaption>{drawing}</figure>" for title, drawing in drawn
        )
        parts.append(
            f'<h3>{shown(task, 100)} <span class="faint">{escape(about)}</span></h3>'
            f'<div class="figures">{figures}</div>'
        )
    if not parts:
        return ""
    seen = {row["family"] for row in rows.of["task"]}
    legend = draw_legend(rows, [family for family in rows.families if family in seen])
    about = "Bars are one standard error. Hollow marks are linear probes, filled ones were fine-tuned."
    return f"{legend}<p>{about}</p>{''.join(parts)}"


def _senses(rows: Rows, drawn: str) -> str:
    how = cut(text_in(rows.comparison["ambiguous"], "how"), 300)
    by = text_in(rows.comparison["ambiguous"], "by")
    found = f"Found by {escape(name(by))}: {escape(how.rstrip('.'))}. " if how and by else ""
    return (
        f"<p>{found}Each mark is a sentence that the word stands in, by its vector there; marks and colours are groups "
        "of like vectors. A family without context has one vector for all. Point at a mark, or walk by arrow keys, to "
        f"read.</p>{drawn}"
    )


def _again(rows: Rows) -> str:
    failures = "".join(
        f"<li>{escape(name(row['family']))}, {shown(text_in(row, 'stage') or 'somewhere', 40)}: "
        f"{shown(text_in(row, 'message'), 500)}</li>"
        for row in rows.of["failure"]
    )
    told = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in facts(rows))
    return (
        draw_commands(rows)
        + (f"<h3>What failed</h3><ul>{failures}</ul>" if failures else "")
        + (f'<h3>What was measured on what</h3><dl class="terms">{told}</dl>' if told else "")
        + f"<h3>What ± is</h3><p>{_ERRORS}</p>"
    )
