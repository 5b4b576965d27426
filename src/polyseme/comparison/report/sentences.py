"""Recommendations in words: the summary, the explanation of each decision, and the limitations."""

from collections.abc import Sequence
from dataclasses import dataclass

from polyseme.comparison.report.decision import SIMILAR_COST, Decision, decide_all, inference_seconds
from polyseme.comparison.report.labels import (
    BASELINES,
    METHODS,
    SUITES,
    capitalize,
    family_name,
    family_names,
    format_budget,
    format_score,
    metric_name,
    truncate,
)
from polyseme.comparison.report.measurements import suite_measurements
from polyseme.comparison.report.results_view import ResultsView, fill_template, get_number, get_text
from polyseme.comparison.report.scores import Measurement, Option
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
    """The reasons for a decision, its cost, the result with few labels, and what was left out of the comparison."""
    parts = [_reasons(decision, results), _few_labels(decision), *_notes(decision)]
    return " ".join(filter(None, parts))


def describe_score(decision: Decision) -> str:
    """The metric, the method and the number of labels behind the score of the recommended option."""
    overall = decision.overall
    if overall is None or decision.option is None:
        return ""
    single_task = overall.num_labels and len(decision.measurements) == 1
    parts = [metric_name(overall.metric) if single_task else overall.name]
    parts += [METHODS.get(decision.option.method, "")] if decision.option.family not in BASELINES else []
    parts += [f"{overall.num_labels:,} labels"] if overall.num_labels else []
    return ", ".join(filter(None, parts))


def describe_cost(decision: Decision, results: ResultsView) -> str:
    """The time to process 1,000 texts with the recommended option."""
    if decision.overall is None or decision.option is None:
        return ""
    seconds = inference_seconds(decision.option, decision.overall, results)
    return "" if seconds is None else f"{format_duration(seconds)} per 1,000 texts"


def describe_datasets(decision: Decision) -> str:
    """The recommended option on each dataset of a use, by the same rule."""
    parts = []
    for one in decision.by_dataset:
        (measurement,) = one.measurements
        name = measurement.description if measurement.kind in SUITES else measurement.name
        if one.option is not None:
            parts.append(f"{truncate(name, 40)}: {one.option.name} {one.score}")
    return f"Recommended on each dataset: {'; '.join(parts)}." if parts else ""


def what_would_change(decision: Decision) -> str:
    """What the label curves, the dev losses and unconverged fine-tuning suggest could change a decision."""
    if decision.overall is None or decision.option is None:
        return ""
    parts = [*_more_labels(decision), *_fewer_labels(decision), *_more_training(decision)]
    if parts:
        return f"What would change this: {'; '.join(parts)}."
    tests = ["the label curves"] if decision.few_labels else []
    tests += ["the dev losses"] if decision.dev_losses else []
    return f"Nothing in {enumerate_words(tests)} suggests that this would change." if tests else ""


def _more_labels(decision: Decision) -> list[str]:
    return [
        f"more labels, as {rise.option.name} gained {rise.difference} more than {_name(decision.option)} from "
        f"{rise.fewer:,} to {rise.more:,} labels, and as much again would put it ahead"
        for rise in decision.rises[:1]
    ]


def _fewer_labels(decision: Decision) -> list[str]:
    few, option = decision.few_labels, decision.option
    if few is None or few.overall is None or few.option is None or option is None or option == few.option:
        return []
    if option not in few.overall.scores or not few.overall.significantly_better(few.option, option):
        return []
    difference = few.overall.difference(few.option, option)
    return [
        f"fewer labels, as {few.option.name} is better than {option.name} by {difference} with "
        f"{few.overall.num_labels:,}"
    ]


def _more_training(decision: Decision) -> list[str]:
    """Unconverged fine-tuning, and dev losses that still fell at the end of the pretraining or no longer did."""
    parts = []
    unconverged = list(dict.fromkeys(option for one in decision.measurements for option in one.unconverged))
    if unconverged:
        names = enumerate_words([option.name for option in unconverged[:3]])
        rest = f" and {len(unconverged) - 3} more" if len(unconverged) > 3 else ""
        parts.append(f"longer fine-tuning, as {names}{rest} did not converge")
    falling = [one for one in decision.dev_losses if one.falling]
    if falling:
        losses = enumerate_words([f"{family_name(one.family)} ({one.fall:.1%})" for one in falling[:3]])
        short = all(one.epochs is not None and one.epochs < 1 for one in falling[:3])
        text = ", which had not seen the whole text once" if short else ""
        parts.append(
            f"longer pretraining, as the dev loss still fell in the last fifth of the training of {losses}{text}"
        )
    finished = [one for one in decision.dev_losses if not one.falling and (one.epochs or 0.0) > 1]
    if finished:
        names = family_names([one.family for one in finished[:3]])
        parts.append(f"more text, as the dev loss of {names} no longer fell after several passes over this text")
    return parts


def _name(option: Option | None) -> str:
    return option.name if option else ""


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
            nothing = "nothing is clearly better than the majority baseline or chance"
        return f"{capitalize(start + nothing)}."
    parts = [f"{_with_size(results, family)} for {enumerate_words(phrases)}" for family, phrases in uses.items()]
    if len(parts) > 1 and any(len(phrases) > 1 for phrases in uses.values()):
        advice = "; ".join([*parts[:-1], f"and {parts[-1]}"])
    else:
        advice = enumerate_words(parts)
    return f"{capitalize(f'{start}use {advice}')}."


def _confidence(decisions: Sequence[Decision]) -> str:
    """How far to trust the summary."""
    chosen = [decision for decision in decisions if decision.option is not None]
    if not decisions:
        return "Let the comparison finish first."
    if not chosen:
        return "More text, a larger budget or more labels may help."
    parts = []
    if simple := [one.use.phrase for one in chosen if one.option == one.baseline]:
        parts.append(f"For {_which(simple, chosen)}, no pretrained family is significantly better than a baseline.")
    if better := [one.use.phrase for one in chosen if one.baseline and _beats_baseline(one)]:
        parts.append(f"For {_which(better, chosen)}, the recommended family is significantly better than the baseline.")
    if missing := [one.use.phrase for one in chosen if one.baseline is None]:
        parts.append(f"For {_which(missing, chosen)}, no baseline was measured.")
    tied = [one.use.phrase for one in chosen if len(one.tied) > 1]
    if tied:
        parts.append(
            f"For {_which(tied, chosen)}, several options are statistically tied; the simplest is recommended."
        )
    clear = [one.use.phrase for one in chosen if len(one.tied) == 1 and one.significant]
    if clear and not tied:
        parts.append(f"The lead is significant for {enumerate_words(clear)}.")
    return " ".join(parts)


def _beats_baseline(decision: Decision) -> bool:
    if decision.overall is None or decision.option is None or decision.baseline in (None, decision.option):
        return False
    assert decision.baseline is not None
    return decision.overall.significantly_better(decision.option, decision.baseline)


def _which(phrases: Sequence[str], chosen: Sequence[Decision]) -> str:
    """Uses by name, or their number if there are many."""
    if len(phrases) < 4:
        return enumerate_words(phrases)
    return "every use" if len(phrases) == len(chosen) else f"{len(phrases)} of {len(chosen)} uses"


def _reasons(decision: Decision, results: ResultsView) -> str:
    overall, option, best, other = decision.overall, decision.option, decision.best, decision.runner_up
    if overall is None or option is None or best is None:
        return " ".join(map(_at_baseline, decision.at_baseline))
    mean = "mean score" if overall.parts else "score"
    parts = []
    if other is None:
        parts.append("The only family evaluated here.")
    if option == best and len(overall.scores) > 1:
        parts.append(f"Best {mean}.")
    if overall.lead(best, option) > 0:
        difference = overall.difference(option, best)
        relation = "not significant" if not difference.significant else "significant"
        parts.append(f"{best.name} scores higher by {difference}, which is {relation}{_simpler(decision, results)}.")
    if decision.baseline not in (None, option, best) and decision.baseline is not None:
        parts.append(_compare(overall, option, decision.baseline))
    if other is not None and other not in (best, decision.baseline):
        parts.append(_compare(overall, option, other))
        behind = [one.name for one in overall.parts if one.significantly_better(option, other)]
        if behind and not decision.significant:
            parts.append(f"It is significantly better on {enumerate_words([truncate(name, 40) for name in behind])}.")
    tied = [one for one in decision.tied if one not in (option, best, other, decision.baseline)]
    if tied:
        names = enumerate_words([one.name for one in tied[:4]]) if len(tied) < 5 else f"{len(tied)} other options"
        parts.append(f"{names} {'is' if len(tied) == 1 else 'are'} tied with it.")
    if any(overall.scores[one].standard_error is None for one in (option, other) if one):
        parts.append("Standard errors are unknown.")
    return " ".join(map(capitalize, parts))


def _simpler(decision: Decision, results: ResultsView) -> str:
    """How the recommended option is simpler than the best one."""
    assert decision.option is not None and decision.best is not None and decision.overall is not None
    if decision.option.family in BASELINES:
        return f"; {decision.option.name} is a baseline"
    costs = [inference_seconds(one, decision.overall, results) for one in (decision.option, decision.best)]
    less, more = (cost or 0.0 for cost in costs)
    if SIMILAR_COST * less >= more:
        return f"; {decision.option.name} is simpler"
    return f"; {decision.option.name} needs {describe_cost(decision, results)}, not {format_duration(more)}"


def _compare(overall: Measurement, option: Option, other: Option) -> str:
    """The difference between the recommended option and another in words, with its effect size."""
    difference, effect = overall.difference(option, other), overall.effect_size(option, other)
    if not difference.significant:
        relation = "better" if difference.lead > 0 else "worse"
        return f"Not significantly {relation} than {other.name}, by {difference}."
    errors = "bits" if overall.sign < 0 else "errors"
    saved = f", with {effect:.0%} fewer {errors}" if effect and effect > 0 else ""
    relation = "better" if difference.lead > 0 else "worse"
    return f"Significantly {relation} than {other.name}, by {difference}{saved}."


def _at_baseline(one: Measurement) -> str:
    """That no option is above the baseline, with the score of the best."""
    best = one.ranked()[0]
    baseline = f"{one.baseline_name} {format_score(one.baseline or 0.0)}"
    name = truncate(one.name, 60)
    return f"Nothing is clearly above the baseline on {name}: {best.name} {one.scores[best]}, {baseline}."


def _few_labels(decision: Decision) -> str:
    few = decision.few_labels
    if few is None or few.overall is None or decision.option is None:
        return ""
    start = f"With only {few.overall.num_labels:,} labels"
    if few.option is None:
        return f"{start}, nothing is clearly above the baseline."
    score = few.overall.scores[few.option]
    if few.option == decision.option:
        return f"{start}, the recommendation is the same, {score}."
    tied = f"; {decision.option.name} is tied with it" if decision.option in few.tied else ""
    return f"{start}, prefer {few.option.name}, {score}{tied}."


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
    if decision.option is not None:
        notes += map(_at_baseline, decision.at_baseline)
    notes += [
        f"On another scale, so not comparable: {family_names([*one.by_family()])} ({truncate(one.name, 60)})."
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
    if results.pretrained:
        limits.append(_trainings(results))
    seeds = get_number(results.comparison, "seeds")
    if results.of["task"]:
        if seeds == 1:
            limits.append("Tasks were run with one seed; the ± do not include the variance between label samples.")
        else:
            limits.append(f"Task scores are means over {f'{seeds:.0f} seeds' if seeds else 'seeds'}.")
    limits += _fine_tuning(results)
    if len({one.metric for one in suite_measurements(results) if one.kind == "likelihood"}) > 1:
        limits.append(
            "Likelihoods of causal, bidirectional and masked models are on different scales; do not compare them."
        )
    limits += [
        f"Nothing is recommended for {one.use.phrase}: no option is clearly above the baseline."
        for one in decisions
        if one.measurements and one.option is None
    ]
    failed = {row["family"]: truncate(row.get("message") or row["stage"], 200) for row in results.of["failure"]}
    limits += [f"{family_name(family)} failed: {message}" for family, message in failed.items()]
    if waiting := [family for family in results.families if family not in results.trained and family not in failed]:
        limits.append(f"Not finished yet: {family_names(waiting)}.")
    if not_evaluated := [one.use.phrase for one in decisions if not one.measurements]:
        limits.append(f"Not evaluated: {enumerate_words(not_evaluated)}.")
    return limits


def _trainings(results: ResultsView) -> str:
    number = results.num_trainings
    if number == 1:
        return "Each family was trained once; the ± do not include the variance between training runs."
    return f"Scores are means over {number} trainings with different seeds; the ± include their variance."


def _fine_tuning(results: ResultsView) -> list[str]:
    """The steps of fine-tuning, and what did not converge."""
    limits = []
    steps = [number for row in results.of["task"] if (number := get_number(row, "steps"))]
    if steps:
        span = f"{min(steps):,.0f}" if min(steps) == max(steps) else f"{min(steps):,.0f} to {max(steps):,.0f}"
        limits.append(f"Fine-tuning took {span} steps.")
    tuned = [row for row in results.of["task"] if get_text(row, "method") == "fine_tuning"]
    unconverged = [row for row in tuned if not row.get("converged", True)]
    if unconverged:
        families = family_names(list(dict.fromkeys(row["family"] for row in unconverged)))
        limits.append(
            f"{len(unconverged)} of {len(tuned)} fine-tuned scores did not converge within the budget ({families}); "
            "they are marked with * and not used in recommendations."
        )
    return limits


def _with_size(results: ResultsView, family: str) -> str:
    size = "" if results.is_static(family) or family in BASELINES else get_text(results.families[family], "size")
    return f"{family_name(family)} ({truncate(size, 20)})" if size else family_name(family)
