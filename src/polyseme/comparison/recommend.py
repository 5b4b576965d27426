"""Which family to use for what, and how sure that is: a pure function of the rows of a comparison.

The best of a use is that with the highest mean at the largest number of labels. Families that are not worse than it by
more than two standard errors of the difference count as equal to it, and the cheapest to use among them is recommended
(by a quarter at least, else the better). What even the best has hardly learnt is not advised, and is told among the
limits. A family without context is out wherever one with context is better beyond noise. It is also out where only the
network above it knows context: linear probes of all without context are behind, and it is no better fine-tuned.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from polyseme.comparison.report_rows import Rows, number_in, text_in
from polyseme.comparison.report_scores import Measured, Score, measure_figures, measure_tasks, noise, together
from polyseme.comparison.report_words import budget, cut, duration, listed, method, name, scored, short

STATIC = "none"
_COSTS = ("embedding_seconds", "disk_bytes", "parameters")  # of use
_LITTLE = 0.1  # of the way from nothing learnt to all right
_MUCH = 1.25  # times as much; timings of one program are farther apart than a few percent


@dataclass(frozen=True, kw_only=True)
class Use:
    """Something that representations are used for, and what measures it."""

    key: str
    name: str
    phrase: str  # behind "for"
    kinds: tuple[str, ...]  # of measurements
    scales: tuple[str, ...] = ()  # of likelihoods, the first that there is


USES = (
    Use(key="search", name="Search and likeness", phrase="search", kinds=("similarity", "words")),
    Use(key="classify", name="Classifying", phrase="classifying", kinds=("classify",)),
    Use(key="tag", name="Tagging", phrase="tagging", kinds=("tag",)),
    Use(key="pair", name="Pairs of texts", phrase="pairs", kinds=("pair",)),
    Use(key="questions", name="Questions", phrase="questions", kinds=("span", "choice")),
    Use(
        key="writing",
        name="Writing on",
        phrase="writing on",
        kinds=("likelihood",),
        scales=("causal", "bidirectional"),
    ),
    Use(key="blanks", name="Filling blanks", phrase="filling blanks", kinds=("likelihood",), scales=("masked",)),
    Use(key="senses", name="Meaning in context", phrase="meaning in context", kinds=("senses",)),
)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What is recommended for a use, and what stands behind it."""

    use: Use
    parts: Sequence[Measured]  # what was measured; empty where nothing was
    whole: Measured | None = None  # their mean, which it was chosen by
    family: str | None = None  # none where none has learnt it
    equals: Sequence[str] = ()  # families within noise of the best, the recommended one among them
    best: str | None = None  # by mean
    runner_up: str | None = None
    beyond_noise: bool = False  # whether the recommended one is better than the runner-up
    margin: float = 0.0  # two standard errors of the difference from the runner-up
    context_needed: bool = False  # whether every family without context is out
    why: str = ""
    few: str = ""  # which is best with few labels
    notes: Sequence[str] = ()

    @property
    def score(self) -> Score | None:
        """Of what is recommended."""
        return self.whole.scores[self.family] if self.whole and self.family else None

    @property
    def hardly(self) -> bool:
        """Whether what is recommended has learnt little, though more than nothing."""
        if self.score is None or self.whole is None or self.whole.baseline is None:
            return False
        return self.whole.gain(self.score.value, self.whole.baseline) < _LITTLE * (1 - self.whole.baseline)


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """Two sentences, what they rest on, and what they do not say."""

    sentences: tuple[str, str]
    choices: Sequence[Choice]  # of all uses that were measured, in order
    unmeasured: Sequence[Use]
    limits: Sequence[str]


def recommend(rows: Rows) -> Recommendation:
    """What to use for what."""
    measured, few = [*measure_figures(rows), *measure_tasks(rows)], measure_tasks(rows, fewest=True)
    every = [_choose(use, measured, few, rows) for use in USES]
    choices = [choice for choice in every if choice.parts]
    return Recommendation(
        sentences=(_first_sentence(rows, choices), _second_sentence(choices)),
        choices=choices,
        unmeasured=[choice.use for choice in every if not choice.parts],
        limits=_limits(rows, choices),
    )


def judge(use: Use, parts: Sequence[Measured], rows: Rows) -> Choice:
    """Choose among families by what was measured of them for a use."""
    learnt = [part for part in parts if any(map(part.beats_nothing, part.scores))]
    notes = _left_out(parts)
    notes += [f"None learnt {cut(part.name, 60)}: {_nothing(part)}." for part in parts if part not in learnt and learnt]
    if not learnt:
        return Choice(use=use, parts=parts, whole=parts[0], why=_nobody(parts), notes=notes)
    learnt = _comparable(learnt, rows)
    whole = together(learnt)
    notes += [f"{left_out}." for left_out in whole.left_out] if len(learnt) > 1 else []
    able = [family for family in whole.scores if whole.beats_nothing(family)]
    behind, leaning = _behind_context(learnt, rows), _leaning_on_labels(whole, learnt, rows)
    if use.key == "senses" and any(rows.context(family) not in (STATIC, "") for family in able):
        behind |= {family for family in whole.scores if rows.context(family) == STATIC}
    out = behind | leaning
    able = [one for one in able if one not in out] or [one for one in whole.scores if one not in out]
    best = max(able, key=_rank(whole, rows))
    equals = [family for family in able if _level(best, family, [whole, *learnt])]
    family = _cheapest(equals, whole, rows)
    others = [other for other in whole.scores if other != family]
    runner_up = max(others, key=_rank(whole, rows), default=None)
    chosen = Choice(
        use=use,
        parts=parts,
        whole=whole,
        family=family,
        equals=equals,
        best=best,
        runner_up=runner_up,
        beyond_noise=runner_up is not None and whole.beyond_noise(family, runner_up),
        margin=0.0 if runner_up is None else 2 * noise(whole.scores[family], whole.scores[runner_up]),
        context_needed=bool(behind) and behind >= {one for one in whole.scores if rows.context(one) == STATIC},
        notes=notes,
    )
    return replace(chosen, why=_why(chosen, behind, leaning, rows))


def _choose(use: Use, measured: Sequence[Measured], few: Sequence[Measured], rows: Rows) -> Choice:
    parts = [one for one in measured if one.kind in use.kinds and one.scores]
    others: list[Measured] = []
    if use.scales:  # these are different questions: the use is the first that anybody was asked, of the most families
        parts = [one for one in parts if one.metric in use.scales]
        others = sorted(parts, key=lambda one: (use.scales.index(one.metric), -len(one.scores)))
        parts = [others.pop(0)] if others else []
    if not parts:
        return Choice(use=use, parts=())
    choice = judge(use, parts, rows)
    if use.scales:
        apart = [one for one in others if not set(one.scores) & set(parts[0].scores)]
        told = [
            f"Measured on another scale: {listed([*map(name, one.scores)])} ({cut(one.name, 60)})." for one in apart
        ]
        choice = replace(choice, notes=[*choice.notes, *told])
    fewer = [one for one in few if one.kind in use.kinds and one.scores]
    return replace(choice, few=_with_few(choice, judge(use, fewer, rows))) if fewer else choice


def _comparable(parts: Sequence[Measured], rows: Rows) -> list[Measured]:
    """Measurements that some families have in common; where too few have all, that of the most families."""
    common = {family for family in parts[0].scores if all(family in part.scores for part in parts)}
    most = max(parts, key=lambda part: len(part.scores))
    enough = len(common) >= min(2, len(most.scores)) and common - _behind_context(parts, rows)
    return list(parts) if enough else [most]


def _behind_context(parts: Sequence[Measured], rows: Rows) -> set[str]:
    """Families without context that one with context beats beyond noise in any of some measurements."""
    return {
        family
        for part in parts
        for family in part.scores
        if rows.context(family) == STATIC
        and any(part.beyond_noise(other, family) for other in part.scores if rows.context(other) not in (STATIC, ""))
    }


def _leaning_on_labels(whole: Measured, parts: Sequence[Measured], rows: Rows) -> set[str]:
    """Families without context where linear probes need it, unless one of them is better than all with it.

    What is fine-tuned above them reads in context, which it has to learn from the labels.
    """
    keys = {part.key for part in parts}
    probes = [probe for probe in measure_tasks(rows, method="linear") if probe.key in keys]
    static = {family for family in whole.scores if rows.context(family) == STATIC}
    reading = {family for family in whole.scores if rows.context(family) not in (STATIC, "")}
    needed = any(static & probe.scores.keys() <= _behind_context([probe], rows) for probe in probes)
    better = any(all(whole.beyond_noise(family, other) for other in reading) for family in static)
    return static if needed and not better else set()


def _level(best: str, family: str, measured: Sequence[Measured]) -> bool:
    """Whether a family is as good as the best: not behind in the mean, nor in a part without being ahead in another."""
    whole, *parts = measured
    behind, ahead = (any(part.beyond_noise(*pair) for part in parts) for pair in ((best, family), (family, best)))
    return not whole.beyond_noise(best, family) and (ahead or not behind)


def _rank(whole: Measured, rows: Rows) -> Callable[[str], tuple[float, ...]]:
    """The better is more, and of equals the cheaper."""
    return lambda family: (whole.gain(whole.scores[family].value, 0.0), *(-cost for cost in _costs(rows, family)))


def _cheapest(families: Sequence[str], whole: Measured, rows: Rows) -> str:
    """The cheapest to use: by seconds, then by size; where neither differs by much, the better."""
    costs = {family: _costs(rows, family) for family in families}
    for place in range(len(_COSTS)):
        least = min(costs[family][place] for family in families)
        families = [family for family in families if costs[family][place] <= _MUCH * least]
    return max(families, key=_rank(whole, rows))


def _costs(rows: Rows, family: str) -> tuple[float, ...]:
    """What it takes to use a family; what is not known of it counts as endless."""
    costs = (number_in(rows.families.get(family, {}), key) for key in _COSTS)
    return tuple(math.inf if cost is None or cost < 0 else cost for cost in costs)


def _left_out(parts: Sequence[Measured]) -> list[str]:
    """What was not measured, each once, with where that was."""
    where: dict[str, list[str]] = {}
    for part in parts:
        for note in part.left_out:
            where.setdefault(note, []).append(cut(part.about or part.name, 40))
    return [f"{note} ({listed(names)})." for note, names in where.items()]


def _nothing(part: Measured) -> str:
    told = "chance" if part.kind in ("senses", "minimal-pairs", "words") else "the commonest answer"
    return f"no family is above {told} ({scored(part.baseline or 0.0)}) beyond noise"


def _nobody(parts: Sequence[Measured]) -> str:
    told = "; ".join(f"{cut(part.name, 60)}: {_nothing(part)}" for part in parts)
    return f"None learnt it. {told[:1].upper()}{told[1:]}."


def _why(choice: Choice, behind: set[str], leaning: set[str], rows: Rows) -> str:
    whole, family, best, other = choice.whole, choice.family, choice.best, choice.runner_up
    assert whole is not None and family is not None and best is not None
    seconds = number_in(rows.families.get(family, {}), "embedding_seconds")
    spent = "" if seconds is None else f" ({duration(seconds)} for 1,000 sentences)"
    equals = [name(one) for one in choice.equals if one != family]
    parts = []
    if other is None:
        parts.append("the only family that was measured on this")
    elif choice.beyond_noise:
        gap = whole.gain(whole.scores[family].value, whole.scores[other].value)
        parts.append(f"better than {name(other)} by {gap:.3f}, which is more than noise ({choice.margin:.3f})")
    elif equals and family == best:
        verb = "is" if len(equals) == 1 else "are"
        parts.append(f"the best mean, though {listed(equals)} {verb} within noise; none is much cheaper to use{spent}")
    elif equals:
        gap = whole.gain(whole.scores[best].value, whole.scores[family].value)
        parts.append(f"{name(best)} is ahead by {gap:.3f}, within noise; of these equals the cheapest to use{spent}")
    if other is not None and other not in choice.equals and not choice.beyond_noise:
        lead = whole.gain(whole.scores[other].value, whole.scores[family].value)
        parts += ["the best mean"] if lead <= 0 and not equals else []
        where = "is ahead" if lead > choice.margin else "is within noise"
        parts.append(f"{name(other)} {where}, but {_reason(choice, other, behind, leaning)}")
    if choice.context_needed:
        without = [name(one) for one in whole.scores if one in behind]
        told = f"{len(without)} families" if len(without) > 2 else listed(without)
        parts.append(f"without context, {told} {'fall' if len(without) > 1 else 'falls'} short")
    if any(whole.scores[one].error is None for one in (family, other) if one):
        parts.append("how large noise is here is not known")
    told = "; ".join(parts)
    return f"{told[:1].upper()}{told[1:]}."


def _reason(choice: Choice, other: str, behind: set[str], leaning: set[str]) -> str:
    """Why a family is not among the equals, though its mean is not behind that of the best."""
    if other in behind:
        return "sees no context, which is needed here"
    if other in leaning:
        return "sees no context, which linear probes show is needed here: what was fine-tuned above it does"
    best = str(choice.best)
    parts = [part for part in choice.parts if {best, other} <= part.scores.keys() and part.beyond_noise(best, other)]
    if parts:
        return f"is behind on {listed([cut(part.name, 40) for part in parts])}"
    return "may have learnt nothing"


def _with_few(choice: Choice, few: Choice) -> str:
    if not few.whole or not choice.whole:
        return ""
    before = f"With {few.whole.labels:,} labels"
    if few.family is None:
        return f"{before} none learnt it." if choice.family else ""
    score = few.whole.scores[few.family]
    told = f"{name(few.family)}, {scored(score.value, score.error)}"
    if few.family == choice.family:
        return f"{before} too: {told}."
    if choice.family in few.equals:
        return f"{before} {told}, no different from {name(str(choice.family))} beyond noise."
    return f"{before} rather {told}."


def _first_sentence(rows: Rows, choices: Sequence[Choice]) -> str:
    words = number_in(rows.comparison, "words", "train")
    spent = text_in(rows.comparison, "budget")
    given = [f"your {short(words)} words"] if words is not None else []
    given += [f"{cut(budget(spent), 40)} for each family"] if spent else []
    by_family: dict[str, list[str]] = {}
    for choice in choices:
        if choice.family is not None and not choice.hardly:
            by_family.setdefault(choice.family, []).append(choice.use.phrase)
    begin = f"With {' and '.join(given)}: " if given else ""
    if not by_family:
        nothing = "no family learnt anything that was measured" if choices else "nothing has been measured yet"
        nothing = nothing.replace("anything", "much") if any(choice.family for choice in choices) else nothing
        return f"{begin}{nothing}." if begin else f"{nothing[0].upper()}{nothing[1:]}."
    told = [f"{_sized(rows, family)} for {listed(uses)}" for family, uses in by_family.items()]
    return f"{begin}{'; '.join(told) if any(' and ' in one for one in told) else listed(told)}."


def _second_sentence(choices: Sequence[Choice]) -> str:
    chosen = [choice for choice in choices if choice.family is not None and not choice.hardly]
    if not chosen:
        return "More text, more minutes or more labels may change that." if choices else "Let the comparison run on."
    told = []
    margins = [choice.margin for choice in chosen if choice.margin and choice.use.kinds != ("likelihood",)]
    if margins:
        told.append(f"differences under about ±{statistics.median(margins):.2g} are noise")
    equal = [choice.use.phrase for choice in chosen if len(choice.equals) > 1]
    if equal:
        told.append(
            f"for {_some(equal, chosen)} several families are equal within it, and the cheapest to use is named"
        )
    context = [choice.use.phrase for choice in chosen if choice.context_needed]
    if context:
        told.append(f"for {_some(context, chosen)} no family without context can keep up")
    clear = [choice.use.phrase for choice in chosen if len(choice.equals) == 1 and choice.beyond_noise]
    if clear and not equal and not context:
        told.append(f"for {listed(clear)} the lead is more than that")
    sentence = "; ".join(told) or "nothing is known of the noise in these figures"
    return f"{sentence[0].upper()}{sentence[1:]}."


def _some(phrases: Sequence[str], chosen: Sequence[Choice]) -> str:
    """Uses by name, or how many they are."""
    if len(phrases) < 4:
        return listed(phrases)
    return "every use" if len(phrases) == len(chosen) else f"{len(phrases)} of {len(chosen)} uses"


def _limits(rows: Rows, choices: Sequence[Choice]) -> list[str]:
    limits = []
    if len(rows.trained) > 0:
        limits.append("Every family was trained once: the spread between trainings is not in the ±.")
    seeds = number_in(rows.comparison, "seeds")
    if rows.of["task"]:
        over = "one seed, so the spread over labels drawn is not in the ±" if seeds == 1 else None
        over = over or (f"{seeds:.0f} seeds" if seeds else "seeds")
        limits.append(f"Scores on tasks are means over {over}." if seeds != 1 else f"Tasks were learnt with {over}.")
    steps = [number for row in rows.of["task"] if (number := number_in(row, "steps"))]
    if steps:
        span = f"{min(steps):,.0f}" if min(steps) == max(steps) else f"{min(steps):,.0f} to {max(steps):,.0f}"
        limits.append(f"Fine-tunings had {span} steps each; with more of them others may be ahead.")
    if len({one.metric for one in measure_figures(rows) if one.kind == "likelihood"}) > 1:
        limits.append(
            "Likelihoods of families that read from the left, both ways or around a blank are different "
            "questions, and are not compared with each other."
        )
    limits += [f"None learnt {choice.use.phrase}." for choice in choices if choice.family is None]
    limits += [
        f"All hardly learnt {choice.use.phrase}: {name(str(choice.family))} has {scored(choice.score.value)}, "
        f"and {scored(choice.whole.baseline)} is to be had for nothing."
        for choice in choices
        if choice.hardly and choice.score and choice.whole and choice.whole.baseline is not None
    ]
    failed: dict[str, str] = {}
    for row in rows.of["failure"]:
        failed[row["family"]] = cut(text_in(row, "message") or text_in(row, "stage") or "no reason given", 200)
    limits += [f"{name(family)} failed: {message}" for family, message in failed.items()]
    silent = [name(family) for family in rows.families if family not in rows.trained and family not in failed]
    if silent:
        limits.append(f"Not done yet: {listed(silent)}.")
    return limits


def _sized(rows: Rows, family: str) -> str:
    size = text_in(rows.families.get(family, {}), "size")
    return f"{name(family)} {cut(size, 20)}" if size and rows.context(family) != STATIC else name(family)


def describe_score(choice: Choice) -> str:
    """The score of what is recommended, on what, and by which method."""
    whole, score = choice.whole, choice.score
    if whole is None or score is None:
        return ""
    told = [whole.metric if whole.labels and len(choice.parts) == 1 else whole.name]
    told += [method(score.method)] if score.method else []
    told += [f"{whole.labels:,} labels"] if whole.labels else []
    return ", ".join(filter(None, told))
