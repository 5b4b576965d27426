"""Looking over labelled files before a model learns from them: what will hurt, and what is good to know."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Self

from polyseme.config import nearest
from polyseme.errors import ConfigError
from polyseme.text.forms import TASKS, ChoiceExample, SimilarityExample, SpanExample, TagExample
from polyseme.text.labelled import find_file, guess_task, read_examples
from polyseme.text.records import Example, RowError

if TYPE_CHECKING:
    from polyseme.text.tokenizer import Tokenizer

_LITTLE = 0.01  # share of rows up to which damage, contradictions and leaks do no harm
_MUCH = 0.05  # the same of unknown tokens, and of rows that are too long
_NEARLY_ALL = 0.9  # share of rows with one label that deserves a word
_RARE = 10  # rows of a label that hardly teach it
_SHOWN = 3  # rows that a finding names
_BATCH = 10_000  # texts that are encoded together

Twins = list[tuple[Example, Example]]  # rows, each with an earlier one that has the same texts
Found = Iterator[tuple[bool, int, str]]  # whether it hurts, how many rows it is about, and what it is


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something about a file that one should know before training."""

    file: Path
    hurts: bool  # the model, or the trust in its scores
    num_rows: int
    what: str  # they are or do


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Where figures lie."""

    least: float
    median: float
    most: float  # 95 % lie below it
    greatest: float

    @classmethod
    def of(cls, figures: Iterable[float]) -> Self | None:
        """None of none."""
        order = sorted(figures)
        if not order:
            return None
        last = len(order) - 1
        return cls(least=order[0], median=order[last // 2], most=order[round(0.95 * last)], greatest=order[last])


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a model reads a file."""

    tokens: Spread | None  # of a row, special ones included
    unknown: float  # share of the tokens
    long: list[Example]  # rows with more tokens than the model takes at once


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What a file is like; texts are the same when they differ in white space and capitals only."""

    file: Path
    examples: list[Example]
    unusable: list[RowError]
    damaged: list[Example]  # hold U+FFFD, which stands for bytes that were no text
    repeated: Twins
    contradicting: Twins  # the same text, and another label
    leaked: Twins  # found in a file before this one
    labels: dict[str, int]
    characters: Spread | None
    words: Spread | None
    scores: Spread | None
    reading: Reading | None
    index: dict[tuple[str, ...], Example] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Report:
    """What the files of a task are like."""

    task: str
    surveys: list[Survey]
    findings: list[Finding]

    @property
    def hurts(self) -> bool:
        """Whether anything that was found does."""
        return any(finding.hurts for finding in self.findings)


def check_files(
    path: str | Path,
    *others: str | Path,
    task: str | None = None,
    columns: Mapping[str, str] | None = None,
    tokenizer: "Tokenizer | None" = None,
    max_length: int = 0,
    reads_letters: bool = False,
) -> Report:
    """Look over a file to learn from and others to measure on, and at how a model with this tokenizer reads them.

    To a model that reads letters no word is unknown.
    """
    task = task or guess_task(path, columns=columns)
    if task not in TASKS:
        raise ConfigError(f"{task!r} is no task{nearest(task, TASKS)}")
    surveys: list[Survey] = []
    findings: list[Finding] = []
    for given in (path, *others):
        unusable: list[RowError] = []
        examples = read_examples(given, TASKS[task], columns=columns, faults=unusable)
        reading = _read(examples, tokenizer, max_length, reads_letters) if tokenizer else None
        survey = _survey(find_file(given), examples, unusable, reading, surveys)
        learnt = surveys[0] if surveys else None
        found = [*_rows(survey), *_labels(survey, task, learnt), *_form(survey), *_fit(survey, task, max_length)]
        findings += [Finding(file=survey.file, hurts=hurts, num_rows=rows, what=what) for hurts, rows, what in found]
        surveys.append(survey)
    return Report(task=task, surveys=surveys, findings=sorted(findings, key=lambda finding: not finding.hurts))


def _survey(
    file: Path, examples: list[Example], unusable: list[RowError], reading: Reading | None, before: Sequence[Survey]
) -> Survey:
    index: dict[tuple[str, ...], Example] = {}
    repeated: Twins = []
    contradicting: Twins = []
    leaked: Twins = []
    for example in examples:
        key = tuple(map(_plain, example.texts))
        first = index.setdefault(key, example)
        if first is not example:
            (repeated if _verdict(first) == _verdict(example) else contradicting).append((example, first))
        leaked += [(example, other.index[key]) for other in before if key in other.index][:1]
    return Survey(
        file=file,
        examples=examples,
        unusable=unusable,
        damaged=[example for example in examples if any("\ufffd" in text for text in example.texts)],
        repeated=repeated,
        contradicting=contradicting,
        leaked=leaked,
        labels=dict(Counter(label for example in examples for label in example.labels).most_common()),
        characters=Spread.of(sum(map(len, _together(example))) for example in examples),
        words=Spread.of(sum(len(text.split()) for text in _together(example)) for example in examples),
        scores=Spread.of(example.score for example in examples if isinstance(example, SimilarityExample)),
        reading=reading,
        index=index,
    )


def _read(examples: Sequence[Example], tokenizer: "Tokenizer", max_length: int, reads_letters: bool) -> Reading:
    unknown = None if reads_letters else tokenizer.specials.unknown
    texts = list(dict.fromkeys(text for example in examples for text in _together(example)))
    counts: dict[str, tuple[int, int]] = {}  # tokens, and unknown ones
    for start in range(0, len(texts), _BATCH):
        batch = texts[start : start + _BATCH]
        for text, ids in zip(batch, tokenizer.encode_ids(batch), strict=True):
            counts[text] = len(ids), int((ids == unknown).sum())
    lengths = []
    num_tokens = num_unknown = 0
    for example in examples:
        parts = [counts[text] for text in _together(example)]
        length = sum(num for num, _ in parts)
        num_tokens += length
        num_unknown += sum(num for _, num in parts)
        # Most families have one special token before the texts, and one after each of them.
        lengths.append(length + (2 if isinstance(example, TagExample) else len(parts) + 1))
    return Reading(
        tokens=Spread.of(lengths),
        unknown=num_unknown / max(1, num_tokens),
        long=[example for example, length in zip(examples, lengths, strict=True) if length > max_length],
    )


def _rows(survey: Survey) -> Found:
    """What is wrong with single rows."""
    kinds: dict[tuple[str, str], list[RowError]] = defaultdict(list)
    for error in survey.unusable:
        kinds[error.wrong, error.remedy].append(error)
    for (wrong, remedy), errors in kinds.items():
        places = [error.place.removeprefix(f"{survey.file}, ") for error in errors]
        yield True, len(errors), f"cannot be used: {wrong} ({_some(places)}); {remedy}"
    little = _LITTLE * len(survey.examples)
    if survey.damaged:
        places = [_where(example) for example in survey.damaged]
        what = f"hold bytes that were no text ({_some(places)}); write the file anew, as UTF-8"
        yield len(places) > little, len(places), what
    if survey.contradicting:
        what = f"have the text of an earlier row but another answer ({_twins(survey.contradicting)}); decide for one"
        yield len(survey.contradicting) > little, len(survey.contradicting), what
    if survey.repeated:
        yield False, len(survey.repeated), f"repeat an earlier row ({_twins(survey.repeated)})"
    for file in dict.fromkeys(twin.file for _, twin in survey.leaked):
        leaked = [(example, twin) for example, twin in survey.leaked if twin.file == file]
        what = f"stand in {file} too ({_twins(leaked)}); drop them from one of the two"
        yield len(leaked) > little, len(leaked), what


def _labels(survey: Survey, task: str, learnt: Survey | None) -> Found:
    """What is wrong with the labels, or with those that were not `learnt`."""
    num_rows, labels = len(survey.examples), survey.labels
    if survey.scores and survey.scores.least == survey.scores.greatest:
        yield True, num_rows, f"all have the score {survey.scores.least:g}; there is nothing to learn or to measure"
    if task == "span" and [*labels] == [SpanExample.NONE]:
        yield True, num_rows, "have no answer; there is nothing to learn or to measure"
    if task not in ("classify", "pair", "tag") or not labels:
        return
    usual, count = next(iter(labels.items()))
    if learnt:
        unseen = [example for example in survey.examples if not learnt.labels.keys() >= {*example.labels}]
        if unseen:
            names = _some(repr(label) for label in labels if label not in learnt.labels)
            what = f"have labels that {learnt.file} lacks: {names} ({_some(map(_where, unseen))})"
            yield True, len(unseen), f"{what}; correct them, or add such rows there"
    elif len(labels) == 1:
        yield True, num_rows, f"all have the label {usual!r}; add rows with another one"
    elif task != "tag" and count > _NEARLY_ALL * num_rows:
        yield False, count, f"have the label {usual!r}; always saying it would be right in {count / num_rows:.0%}"
    rare = {label: count for label, count in labels.items() if count < _RARE}
    if rare and not learnt:
        yield False, sum(rare.values()), f"have labels that are too rare to learn well: {_some(map(repr, rare))}"


def _form(survey: Survey) -> Found:
    """What is particular to choices and questions."""
    choices = Counter(len(example.choices) for example in survey.examples if isinstance(example, ChoiceExample))
    if len(choices) > 1:
        usual, _ = choices.most_common(1)[0]
        yield False, choices.total() - choices[usual], f"do not have {usual} choices, as the others do"
    questions = [example for example in survey.examples if isinstance(example, SpanExample)]
    reworded = [example for example in questions if any(answer.start is None for answer in example.answers)]
    if reworded:
        places = _some(map(_where, reworded))
        yield False, len(reworded), f"have answers that are not in the passage word for word ({places})"
    ids = Counter(example.id for example in questions)
    again = [example for example in questions if ids[example.id] > 1]
    if again:
        yield False, len(again), f"share an id with another ({_some(map(_where, again))})"


def _fit(survey: Survey, task: str, max_length: int) -> Found:
    """What does not fit the model."""
    if survey.reading is None or survey.reading.tokens is None:
        return
    if survey.reading.unknown > _MUCH:
        share = f"{survey.reading.unknown:.0%}"
        yield True, len(survey.examples), f"have {share} unknown tokens; take a model that knows this language"
    long = survey.reading.long
    if long:
        fate = "and are read in windows" if task == "span" else "and are cut"
        what = f"are longer than the {max_length} tokens of the model {fate} ({_some(map(_where, long))})"
        yield task != "span" and len(long) > _MUCH * len(survey.examples), len(long), what


def _together(example: Example) -> tuple[str, ...]:
    """What the model reads at once; of choices, one is put after the context."""
    if isinstance(example, ChoiceExample):
        return (example.context, max(example.choices, key=len))
    return example.texts


def _verdict(example: Example) -> Hashable:
    """What rows with the same texts should agree in."""
    if isinstance(example, SimilarityExample):
        return example.score
    if isinstance(example, ChoiceExample):
        return example.choices[example.answer]
    if isinstance(example, SpanExample):
        return frozenset(answer.text for answer in example.answers)
    return example.labels


@lru_cache(maxsize=1000)  # a passage comes with several questions, one after another
def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _where(example: Example) -> str:
    return example.place.removeprefix(f"{example.file}, ")


def _twins(twins: Twins) -> str:
    return _some(f"{_where(example)} = {_where(twin)}" for example, twin in twins)


def _some(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
