"""Recommendations in words: the summary, the explanation of each decision, and the limitations."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from polyseme.comparison.report.decision import Decision, decide_all
from polyseme.comparison.report.labels import (
    METHODS,
    capitalize,
    family_name,
    family_names,
    format_budget,
    format_score,
    metric_name,
    truncate,
)
from polyseme.comparison.report.results_view import ResultsView, fill_template, get_number, get_text
from polyseme.comparison.report.scores import Measurement, suite_measurements
from polyseme.system.formatting import enumerate_words, format_count, format_duration


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """Decisions, and the text around them."""

    summary: str
    confidence: str
    decisions: Sequence[Decision]  # for uses with evidence
    limitations: Sequence[str]


def recommend(results: ResultsView) -> Recommendation:
    """Decide for each use, and write the advice."""
    every = decide_all(results)
    decisions = [one for one in every if one.measurements]
    return Recommendation(
        summary=_summary(results, decisions),
        confidence=_confidence(decisions),
        decisions=decisions,
        limitations=_limitations(results, every),
    )


def explain(decision: Decision, results: ResultsView) -> str:
    """The reasons for a decision, the result with few labels, and what was left out of the comparison."""
    return " ".join(filter(None, [_reasons(decision, results), _few_labels(decision), *_notes(decision)]))


def describe_score(decision: Decision) -> str:
    """The metric, the method and the number of labels behind the score of the recommended family."""
    overall, score = decision.overall, decision.score
    if overall is None or score is None:
        return ""
    single_task = overall.num_labels and len(decision.measurements) == 1
    parts = [metric_name(overall.metric) if single_task else overall.name]
    parts += [METHODS.get(score.method, "")]
    parts += [f"{overall.num_labels:,} labels"] if overall.num_labels else []
    return ", ".join(filter(None, parts))


def _summary(results: ResultsView, decisions: Sequence[Decision]) -> str:
    """The families to use, in one sentence."""
    of = results.comparison
    given = [fill_template("{} words of your text", of.get("words", {}), "train", format_count)]
    given += (
        [f"{truncate(format_budget(get_text(of, 'budget')), 40)} of training per family"] if of.get("budget") else []
    )
    uses: dict[str, list[str]] = {}
    for decision in decisions:
        if decision.family is not None:
            uses.setdefault(decision.family, []).append(decision.use.phrase)
    start = f"With {' and '.join(filter(None, given))}, " if any(given) else ""
    if not uses:
        nothing = "nothing has been evaluated yet"
        if decisions:
            nothing = "no family is clearly better than the baselines on anything that was evaluated"
        return f"{capitalize(start + nothing)}."
    parts = [f"{_with_size(results, family)} for {enumerate_words(phrases)}" for family, phrases in uses.items()]
    if len(parts) > 1 and any(len(phrases) > 1 for phrases in uses.values()):
        advice = "; ".join([*parts[:-1], f"and {parts[-1]}"])
    else:
        advice = enumerate_words(parts)
    return f"{capitalize(f'{start}use {advice}')}."


def _confidence(decisions: Sequence[Decision]) -> str:
    """How far to trust the summary."""
    chosen = [decision for decision in decisions if decision.family is not None]
    if not decisions:
        return "Let the comparison finish first."
    if not chosen:
        return "More text, a larger budget or more labels may help."
    parts = []
    margins = [one.margin for one in chosen if one.margin and not one.use.scales]
    if margins:
        parts.append(f"Differences below about {statistics.median(margins):.2g} are not significant.")
    tied = [one.use.phrase for one in chosen if len(one.tied) > 1]
    if tied:
        which = _which(tied, chosen)
        parts.append(f"For {which}, several families are statistically tied; the cheapest to run is recommended.")
    context = [one.use.phrase for one in chosen if one.context_required]
    if context:
        parts.append(f"Contextual models are significantly better for {_which(context, chosen)}.")
    clear = [one.use.phrase for one in chosen if len(one.tied) == 1 and one.significant]
    if clear and not tied and not context:
        parts.append(f"The lead is significant for {enumerate_words(clear)}.")
    return " ".join(parts) or "The scores have no standard errors, so treat small differences with caution."


def _which(phrases: Sequence[str], chosen: Sequence[Decision]) -> str:
    """Uses by name, or their number if there are many."""
    if len(phrases) < 4:
        return enumerate_words(phrases)
    return "every use" if len(phrases) == len(chosen) else f"{len(phrases)} of {len(chosen)} uses"


def _reasons(decision: Decision, results: ResultsView) -> str:
    overall, family, best, other = decision.overall, decision.family, decision.best, decision.runner_up
    if overall is None or family is None or best is None:
        return " ".join(map(_at_baseline, decision.at_baseline))
    cost = fill_template(" ({} per 1,000 sentences)", results.families[family], "embedding_seconds", format_duration)
    tied = [one for one in decision.tied if one != family]
    mean = "mean score" if len(decision.measurements) > 1 else "score"
    parts = []
    if other is None:
        parts.append("The only family evaluated here.")
    elif decision.significant:
        parts.append(
            f"Significantly better than {family_name(other)}, by {overall.lead(family, other):.3f} (two standard "
            f"errors: {decision.margin:.3f})."
        )
    elif tied and family == best:
        be = "is" if len(tied) == 1 else "are"
        parts += [f"Best {mean}.", f"{family_names(tied)} {be} tied with it, but not much cheaper to run{cost}."]
    elif tied:
        parts.append(
            f"{family_name(best)} scores {overall.lead(best, family):.3f} higher, which is not significant; "
            f"{family_name(family)} is the cheapest to run of the tied families{cost}."
        )
    if other is not None and other not in decision.tied and not decision.significant:
        lead = overall.lead(other, family)
        parts += [f"Best {mean}."] if lead <= 0 and not tied else []
        relation = "better" if lead > decision.margin else "not significantly worse"
        average = " on average" if len(decision.measurements) > 1 else ""
        parts.append(f"{family_name(other)} is {relation}{average}, but {_reason_against(decision, other)}.")
    if decision.context_required:
        static = [one for one in overall.scores if one in decision.worse_without_context]
        who = f"The {len(static)} static families" if len(static) > 2 else family_names(static)
        ignore, be = ("ignores", "is") if len(static) == 1 else ("ignore", "are")
        parts.append(f"{who}, which {ignore} context, {be} ruled out.")
    if any(overall.scores[one].standard_error is None for one in (family, other) if one):
        parts.append("Standard errors are unknown.")
    return " ".join(map(capitalize, parts))


def _reason_against(decision: Decision, other: str) -> str:
    """Why a family is not tied with the best, though its mean score is not significantly worse."""
    if other in decision.worse_without_context:
        return "its vectors ignore context, which matters here"
    if other in decision.context_from_labels:
        return "its vectors ignore context, which matters here according to the linear probes; only fine-tuning adds it"
    best = str(decision.best)
    shared = [one for one in decision.measurements if {best, other} <= one.scores.keys()]
    behind = [truncate(one.name, 40) for one in shared if one.significantly_better(best, other)]
    return f"significantly worse on {enumerate_words(behind)}" if behind else "not clearly above the baseline"


def _at_baseline(one: Measurement) -> str:
    """That no family is above the baseline, with the score of the best."""
    best = one.ranked()[0]
    baseline = f"{one.baseline_name} {format_score(one.baseline or 0.0)}"
    name = truncate(one.name, 60)
    return f"No family is clearly above the baseline on {name}: {family_name(best)} {one.scores[best]}, {baseline}."


def _few_labels(decision: Decision) -> str:
    few = decision.few_labels
    if few is None or few.overall is None or decision.family is None:
        return ""
    start = f"With only {few.overall.num_labels:,} labels"
    if few.family is None:
        return f"{start}, no family is clearly above the baseline."
    score = few.overall.scores[few.family]
    if few.family == decision.family:
        return f"{start}, the recommendation is the same ({score})."
    tied = f"; {family_name(decision.family)} is tied with it" if decision.family in few.tied else ""
    return f"{start}, prefer {family_name(few.family)} ({score}){tied}."


def _notes(decision: Decision) -> list[str]:
    """What was left out of a decision."""
    notes = []
    for reason, families in _exclusions(decision).items():
        datasets = [*families.values()]
        if any(one != datasets[0] for one in datasets):
            notes.append(f"Left out of some datasets ({reason}): {family_names([*families])}.")
        else:
            on = f" on {enumerate_words(datasets[0])}" if datasets[0] else ""
            notes.append(f"Left out ({reason}): {family_names([*families])}{on}.")
    if decision.family is not None:
        notes += map(_at_baseline, decision.at_baseline)
    notes += [
        f"On another scale, so not comparable: {family_names([*one.scores])} ({truncate(one.name, 60)})."
        for one in decision.other_scales
    ]
    return notes


def _exclusions(decision: Decision) -> dict[str, dict[str, list[str]]]:
    """Families left out of measurements: reason → family → datasets."""
    excluded: dict[str, dict[str, list[str]]] = {}
    for one in decision.measurements:
        for family in one.excluded:
            dataset = truncate(one.description or one.name, 40)
            excluded.setdefault(one.why_excluded, {}).setdefault(family, []).append(dataset)
    known = {family for families in excluded.values() for family in families}
    if decision.overall and (others := [family for family in decision.overall.excluded if family not in known]):
        excluded[decision.overall.why_excluded] = {family: [] for family in others}
    return excluded


def _limitations(results: ResultsView, decisions: Sequence[Decision]) -> list[str]:
    limits = []
    if results.trained:
        limits.append("Each family was trained once; the ± do not include the variance between training runs.")
    seeds = get_number(results.comparison, "seeds")
    if results.of["task"]:
        if seeds == 1:
            limits.append("Tasks were run with one seed; the ± do not include the variance between label samples.")
        else:
            limits.append(f"Task scores are means over {f'{seeds:.0f} seeds' if seeds else 'seeds'}.")
    steps = [number for row in results.of["task"] if (number := get_number(row, "steps"))]
    if steps:
        span = f"{min(steps):,.0f}" if min(steps) == max(steps) else f"{min(steps):,.0f} to {max(steps):,.0f}"
        limits.append(f"Fine-tuning took {span} steps; longer fine-tuning may change the ranking.")
    if len({one.metric for one in suite_measurements(results) if one.kind == "likelihood"}) > 1:
        limits.append(
            "Likelihoods of causal, bidirectional and masked models are on different scales; do not compare them."
        )
    limits += [
        f"Nothing is recommended for {one.use.phrase}: no family is clearly above the baseline."
        for one in decisions
        if one.measurements and one.family is None
    ]
    failed = {row["family"]: truncate(row.get("message") or row["stage"], 200) for row in results.of["failure"]}
    limits += [f"{family_name(family)} failed: {message}" for family, message in failed.items()]
    if waiting := [family for family in results.families if family not in results.trained and family not in failed]:
        limits.append(f"Not finished yet: {family_names(waiting)}.")
    if not_evaluated := [one.use.phrase for one in decisions if not one.measurements]:
        limits.append(f"Not evaluated: {enumerate_words(not_evaluated)}.")
    return limits


def _with_size(results: ResultsView, family: str) -> str:
    size = "" if results.is_static(family) else get_text(results.families[family], "size")
    return f"{family_name(family)} ({truncate(size, 20)})" if size else family_name(family)
