"""The report of a comparison: a stand-alone HTML page and a Markdown file, rendered from the results alone."""

from html import escape
from importlib.resources import files
from pathlib import Path

from polyseme.comparison.report.charts import (
    draw_label_curves,
    draw_learning_curves,
    draw_legend,
    draw_strip,
    family_badge,
)
from polyseme.comparison.report.decision import Decision
from polyseme.comparison.report.labels import escape_text, family_name, format_budget, truncate
from polyseme.comparison.report.markdown import write_markdown
from polyseme.comparison.report.panels import draw_examples, draw_neighbours
from polyseme.comparison.report.pareto import COSTS, draw_pareto_front, find_qualities
from polyseme.comparison.report.results_view import ResultsView, fill_template, get_number, get_text, load_results
from polyseme.comparison.report.sense_maps import draw_sense_maps
from polyseme.comparison.report.sentences import (
    Recommendation,
    describe_cost,
    describe_datasets,
    describe_score,
    explain,
    recommend,
    what_would_change,
)
from polyseme.comparison.report.tables import (
    SCORE_KEY,
    cost_columns,
    draw_commands,
    draw_table,
    draw_terms,
    list_settings,
    score_columns,
    spread_columns,
)
from polyseme.rendering.html import page
from polyseme.system.atomic_io import write_file
from polyseme.system.formatting import format_count
from polyseme.system.io_errors import writable

PAGE, MARKDOWN = "report.html", "report.md"

_STANDARD_ERRORS = (
    "All ± are one standard error: from the sampling variance of the test set, and from the variances of the means "
    "over trainings and over samples of labels. Differences are tested by a hierarchical bootstrap of 2,000 resamples: "
    "test items are resampled, and means over trainings and label samples are drawn from t distributions. As all "
    "options are evaluated on the same items, these errors are smaller than the ± suggest; where the outcomes of "
    "single items were not recorded, they are computed from both ±. p-values are two-sided and adjusted for the number "
    "of options in the comparison (Holm, 1979), and a difference is significant if p < 0.05; 95 % intervals are not "
    "adjusted."
)
_SCALES = {
    "causal": "each token given all tokens to its left",
    "bidirectional": "mean of the left-to-right and the right-to-left model",
    "masked": "each token masked in turn, given both sides: an easier task, so not comparable with the others",
}


def write_report(folder: Path) -> Path:
    """Write report.html and report.md into the folder of a comparison; the output depends on the results alone."""
    results = load_results(folder)
    recommendation = recommend(results)
    contents = {PAGE: draw_page(results, recommendation), MARKDOWN: write_markdown(results, recommendation)}
    with writable(folder / PAGE, "free some space, or choose another folder"):
        for file, content in contents.items():
            write_file(folder / file, content.encode("utf-8", "replace"))  # JSON may hold lone surrogates
    return folder / PAGE


def draw_page(results: ResultsView, recommendation: Recommendation) -> str:
    """The HTML page."""
    senses, sentences = draw_sense_maps(results)
    scores = draw_table(score_columns(results), results, "Scores")
    costs = draw_table(cost_columns(results), results, "Costs") if any(results.families.values()) else ""
    sections = [
        ("pareto", "Quality against cost", _pareto(results)),
        ("scores", "Scores", scores and f"<p>{SCORE_KEY}</p>{scores}{_spreads(results)}"),
        ("costs", "Costs", costs),
        ("learning", "Learning curves", _learning_curves(results)),
        ("labels", "Scores by number of labels", _label_curves(results)),
        ("neighbours", "Nearest neighbours", draw_neighbours(results)),
        ("senses", "Ambiguous words", _senses(results, senses) if sentences else ""),
        ("examples", "Generated text and predictions", draw_examples(results)),
        ("reproduction", "Reproduction", _reproduction(results)),
    ]
    present = [(key, title, html) for key, title, html in sections if html]
    links = "".join(f'<a href="#{key}">{title}</a>' for key, title, _ in present)
    body = [
        f"<header>{_header(results)}</header><main>",
        _recommendation(results, recommendation),
        f'<nav aria-label="Sections">{links}</nav>' if links else "",
        *(f'<section id="{key}"><h2>{title}</h2>{html}</section>' for key, title, html in present),
        "</main>",
    ]
    assets = files(__package__)
    script, style = (assets.joinpath(f"report.{kind}").read_text("utf-8") for kind in ("js", "css"))
    html = "\n".join(filter(None, body))
    return page(_title(results), html, data={"sentences": sentences}, script=script, style=style)


def _title(results: ResultsView) -> str:
    corpus = truncate(Path(get_text(results.comparison, "corpus")).name, 60)
    return f"Which model for {corpus}?" if corpus else "Which model?"


def _header(results: ResultsView) -> str:
    of = results.comparison
    budget, cores = get_text(of, "budget"), get_number(of, "cores")
    on = f" on {cores:.0f} core{'s' * (cores != 1)}" if cores else ""
    parts = [
        f"{len(results.families)} famil{'y' if len(results.families) == 1 else 'ies'}",
        fill_template("{} words of training text", of.get("words", {}), "train", format_count),
        f"{truncate(format_budget(budget), 40)} per family{on}" if budget else "",
        truncate(get_text(of, "date"), 30),
    ]
    line = " · ".join(escape(part) for part in parts if part)
    return f'<h1>{escape(_title(results))}</h1><p class="faint">{line}</p>'


def _recommendation(results: ResultsView, recommendation: Recommendation) -> str:
    cards = "".join(_card(decision, results) for decision in recommendation.decisions)
    items = "".join(f"<li>{escape(limit)}</li>" for limit in recommendation.limitations)
    key = (
        f'{draw_legend(results, results.trained)}<p class="faint key">Better scores are further right. Shaded: not '
        "significantly different from the best, taken alone. Dashed: majority or chance baseline.</p>"
    )
    return (
        f'<section id="recommendation"><p class="verdict">{escape(recommendation.summary)}</p>'
        f'<p class="because">{escape(recommendation.confidence)}</p>'
        + (f'<div class="cards">{cards}</div>{key}' if cards else "")
        + (f'<h2 class="small">Limitations</h2><ul class="limits">{items}</ul>' if items else "")
        + "</section>"
    )


def _card(decision: Decision, results: ResultsView) -> str:
    parts = [f"<h3>{decision.use.name}</h3>"]
    score, overall = decision.score, decision.overall
    if decision.family is None or score is None:
        parts.append('<p class="family none">none</p>')
    else:
        parts.append(f'<p class="family">{family_badge(decision.family, results)}</p>')
        metric = escape_text(describe_score(decision), 90)
        parts.append(f'<p class="score">{score} <span class="faint">{metric}</span></p>')
        if cost := describe_cost(decision, results):
            parts.append(f'<p class="score">{escape(cost)}</p>')
    parts.append(draw_strip(decision, results))
    if decision.option is not None and decision.runner_up is not None and overall is not None:
        option, other = decision.option, decision.runner_up
        place = "best score" if other == decision.best else "runner-up"
        differs = overall.difference(option, other).significant
        parts.append(
            f'<p class="next"><span class="faint">{place}:</span> {escape(other.name)} {overall.scores[other]} '
            f'<span class="faint">{"significant" if differs else "not significant"}</span></p>'
        )
    parts.append(f'<p class="why">{escape_text(explain(decision, results), 800)}</p>')
    if change := what_would_change(decision):
        parts.append(f'<p class="why">{escape_text(change, 600)}</p>')
    if decision.by_dataset:
        parts.append(f'<p class="why faint">{escape_text(describe_datasets(decision), 600)}</p>')
    return f'<article class="card">{"".join(parts)}</article>'


def _spreads(results: ResultsView) -> str:
    table = draw_table(spread_columns(results), results, "Variation between trainings")
    about = "<h3>Variation between trainings</h3><p>Standard deviation over the trainings of each family.</p>"
    return table and about + table


def _pareto(results: ResultsView) -> str:
    qualities = find_qualities(results)
    rows = results.families.values()
    costs = [cost for cost in COSTS if any(get_number(row, cost.key) is not None for row in rows)]
    if not qualities or not costs:
        return ""
    charts = [
        f'<div data-chart="{row} {column}"{" hidden" * (row + column > 0)}>'
        f"{draw_pareto_front(results, quality, cost)}</div>"
        for row, quality in enumerate(qualities)
        for column, cost in enumerate(costs)
    ]
    quality_options = "".join(f'<option value="{row}">{escape(one.name)}</option>' for row, one in enumerate(qualities))
    cost_options = "".join(f'<option value="{column}">{escape(one.name)}</option>' for column, one in enumerate(costs))
    return (
        "<p>Better is up, cheaper is left. Filled markers are on the Pareto front: no other family is both better and "
        "cheaper.</p>"
        f'<p class="choices" hidden><label>quality <select id="quality">{quality_options}</select></label> '
        f'<label>cost <select id="cost">{cost_options}</select></label></p>'
        f'<div class="wide pareto-chart">{"".join(charts)}</div>'
    )


def _learning_curves(results: ResultsView) -> str:
    charts = draw_learning_curves(results)
    if not charts:
        return ""
    with_points = {row["family"] for row in results.of["learning_curve"] if row["points"]}
    html = "".join(
        f"<figure><figcaption>{escape_text(title, 60)} "
        f'<span class="faint">{_SCALES.get(scale, "")}</span></figcaption>{chart}</figure>'
        for scale, title, chart in charts
    )
    legend = draw_legend(results, with_points)
    return f'<p>On the dev text, during training.</p>{legend}<div class="figures three">{html}</div>'


def _label_curves(results: ResultsView) -> str:
    parts = []
    for task, description in results.tasks.items():
        charts = draw_label_curves(results, task)
        if not charts:
            continue
        html = "".join(f"<figure><figcaption>{escape(title)}</figcaption>{chart}</figure>" for title, chart in charts)
        about = escape_text(get_text(description, "about"), 200)
        parts.append(
            f'<h3>{escape_text(task, 100)} <span class="faint">{about}</span></h3><div class="figures">{html}</div>'
        )
    if not parts:
        return ""
    legend = draw_legend(results, {row["family"] for row in results.of["task"]})
    key = (
        "Each method has a chart on equal axes; TF-IDF is in all of them. Hollow markers: fine-tuning did not "
        "converge. Error bars: one standard error."
    )
    return f"{legend}<p>{key}</p>{''.join(parts)}"


def _senses(results: ResultsView, maps: str) -> str:
    method = truncate(get_text(results.ambiguous_words, "method"), 300)
    family = get_text(results.ambiguous_words, "found_by")
    found = f"Found with {escape(family_name(family))}: {escape(method.rstrip('.'))}. " if method and family else ""
    return (
        f"<p>{found}Each marker is an occurrence of the word, positioned by the first two principal components of its "
        "contextual vectors; colours and shapes are clusters. Static families have one vector for all occurrences. "
        f"Point at a marker, or use the arrow keys, to read its sentence.</p>{maps}"
    )


def _reproduction(results: ResultsView) -> str:
    failures = "".join(
        f"<li>{escape(family_name(row['family']))}, {escape_text(row['stage'], 40)}: "
        f"{escape_text(get_text(row, 'message'), 500)}</li>"
        for row in results.of["failure"]
    )
    settings = draw_terms(list_settings(results))
    return (
        draw_commands(results)
        + (f"<h3>Failures</h3><ul>{failures}</ul>" if failures else "")
        + (f"<h3>Evaluation settings</h3>{settings}" if settings else "")
        + f"<h3>Standard errors</h3><p>{_STANDARD_ERRORS}</p>"
    )
