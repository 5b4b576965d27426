"""Quality checks of labelled files: invalid and duplicate rows, contradictions, leaks, label counts, fit to a model."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Self

from polyseme.datasets.labelled_files import find_file, read_examples
from polyseme.datasets.records import Example, RowError

if TYPE_CHECKING:
    from polyseme.tokenization.tokenizer import Tokenizer

_TOLERATED_ROWS = 0.01  # fraction of damaged, contradicting or leaked rows up to which they are only noted
_TOLERATED_TOKENS = 0.05  # fraction of unknown tokens, and of rows that are too long
_IMBALANCED = 0.9  # fraction of rows with one label above which the imbalance is noted
_RARE_LABEL = 10  # rows
_NUM_SHOWN = 3  # rows that a finding lists
_BATCH_SIZE = 10_000  # texts tokenized together

Duplicates = list[tuple[Example, Example]]  # examples, each with the earlier one that has the same texts
Findings = Iterator[tuple[bool, int, str]]  # (is_problem, num_rows, message)


@dataclass(frozen=True)
class Finding:
    """Something to know about a file before training on it."""

    file: Path
    is_problem: bool  # harms the model or the validity of its scores
    num_rows: int
    message: str  # what these rows have or do


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """Order statistics of a list of numbers."""

    minimum: float
    median: float
    percentile_95: float
    maximum: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Self | None:
        """Compute them; None for an empty list."""
        order = sorted(values)
        if not order:
            return None
        last = len(order) - 1
        return cls(
            minimum=order[0], median=order[last // 2], percentile_95=order[round(0.95 * last)], maximum=order[last]
        )


@dataclass(frozen=True, kw_only=True)
class TokenizationStats:
    """How a model tokenizes a file."""

    lengths: Distribution | None  # tokens per example, special tokens included
    unknown_fraction: float  # of all tokens
    too_long: list[Example]  # rows of more tokens than the model's maximum


@dataclass(frozen=True, kw_only=True)
class QualityReport:
    """Statistics of a file; texts that differ only in white space and case count as duplicates."""

    file: Path
    examples: list[Example]
    invalid: list[RowError]
    damaged: list[Example]  # contain U+FFFD, which replaces undecodable bytes
    repeated: Duplicates
    contradicting: Duplicates  # same texts, different labels
    leaked: Duplicates  # also found in an earlier file
    labels: dict[str, int]
    characters: Distribution | None
    words: Distribution | None
    scores: Distribution | None
    tokenization: TokenizationStats | None
    index: dict[tuple[str, ...], Example] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """Reports and findings of all files of a task."""

    reports: list[QualityReport]
    findings: list[Finding]

    @property
    def has_problems(self) -> bool:
        """Whether any finding is more than a note."""
        return any(finding.is_problem for finding in self.findings)


def check_files(
    example_type: type[Example],
    *paths: str | Path,
    columns: Mapping[str, str] | None = None,
    tokenizer: "Tokenizer | None" = None,
    max_length: int = 0,
    uses_characters: bool = False,
) -> CheckResult:
    """Check a training file and the dev or test files that belong to it, all with examples of one type.

    With the tokenizer and the maximum length of a model, unknown tokens and rows that are too long are counted as well;
    a model that `uses_characters` has no unknown tokens.
    """
    reports: list[QualityReport] = []
    findings: list[Finding] = []
    for path in paths:
        invalid: list[RowError] = []
        examples = read_examples(path, example_type, columns=columns, errors=invalid)
        tokenization = _tokenize(examples, tokenizer, max_length, uses_characters) if tokenizer else None
        report = _analyze(find_file(path), examples, invalid, tokenization, reports)
        train = reports[0] if reports else None
        found = chain(
            _check_rows(report),
            _check_labels(report, example_type, train),
            _check_structure(report, example_type),
            _check_tokenization(report, example_type, max_length),
        )
        findings += [Finding(report.file, *finding) for finding in found]
        reports.append(report)
    findings.sort(key=lambda finding: not finding.is_problem)
    return CheckResult(reports=reports, findings=findings)


def _analyze(
    file: Path,
    examples: list[Example],
    invalid: list[RowError],
    tokenization: TokenizationStats | None,
    earlier: Sequence[QualityReport],
) -> QualityReport:
    index: dict[tuple[str, ...], Example] = {}
    repeated: Duplicates = []
    contradicting: Duplicates = []
    leaked: Duplicates = []
    for example in examples:
        key = tuple(map(_normalize, example.texts))
        first = index.setdefault(key, example)
        if first is not example:
            (repeated if first.target == example.target else contradicting).append((example, first))
        leaked += [(example, other.index[key]) for other in earlier if key in other.index][:1]
    return QualityReport(
        file=file,
        examples=examples,
        invalid=invalid,
        damaged=[example for example in examples if any("\ufffd" in text for text in example.texts)],
        repeated=repeated,
        contradicting=contradicting,
        leaked=leaked,
        labels=dict(Counter(label for example in examples for label in example.labels).most_common()),
        characters=Distribution.of(sum(map(len, example.sequence_texts)) for example in examples),
        words=Distribution.of(sum(len(text.split()) for text in example.sequence_texts) for example in examples),
        scores=Distribution.of(value for example in examples for value in example.target if isinstance(value, float)),
        tokenization=tokenization,
        index=index,
    )


def _tokenize(
    examples: Sequence[Example], tokenizer: "Tokenizer", max_length: int, uses_characters: bool
) -> TokenizationStats:
    unknown = None if uses_characters else tokenizer.specials.unknown
    all_texts = [text for example in examples for text in example.sequence_texts]
    texts = list(dict.fromkeys(all_texts))
    num_tokens, num_unknown = dict[str, int](), dict[str, int]()
    for start in range(0, len(texts), _BATCH_SIZE):
        batch = texts[start : start + _BATCH_SIZE]
        for text, ids in zip(batch, tokenizer.encode_ids(batch), strict=True):
            num_tokens[text], num_unknown[text] = len(ids), int((ids == unknown).sum())
    lengths = [
        # Most families put one special token before the texts and one after each of them.
        sum(num_tokens[text] for text in example.sequence_texts) + len(example.inputs) + 1
        for example in examples
    ]
    return TokenizationStats(
        lengths=Distribution.of(lengths),
        unknown_fraction=sum(num_unknown[text] for text in all_texts)
        / max(1, sum(num_tokens[text] for text in all_texts)),
        too_long=[example for example, length in zip(examples, lengths, strict=True) if length > max_length],
    )


def _check_rows(report: QualityReport) -> Findings:
    """Invalid, damaged, duplicate and leaked rows."""
    errors: dict[tuple[str, str], list[RowError]] = defaultdict(list)
    for error in report.invalid:
        errors[error.problem, error.remedy].append(error)
    for (problem, remedy), rows in errors.items():
        places = [error.location.removeprefix(f"{report.file}, ") for error in rows]
        yield True, len(rows), f"are invalid: {problem} ({_shorten(places)}); {remedy}"
    tolerated = _TOLERATED_ROWS * len(report.examples)
    if report.damaged:
        message = f"contain undecodable bytes ({_shorten(map(_row_of, report.damaged))}); save the file as UTF-8"
        yield len(report.damaged) > tolerated, len(report.damaged), message
    if report.contradicting:
        message = f"have the text of an earlier row with another label ({_list(report.contradicting)}); correct one"
        yield len(report.contradicting) > tolerated, len(report.contradicting), message
    if report.repeated:
        yield False, len(report.repeated), f"repeat an earlier row ({_list(report.repeated)})"
    for file in dict.fromkeys(original.file for _, original in report.leaked):
        leaked = [(example, original) for example, original in report.leaked if original.file == file]
        yield len(leaked) > tolerated, len(leaked), f"also occur in {file} ({_list(leaked)}); remove them from one file"


def _check_labels(report: QualityReport, example_type: type[Example], train: QualityReport | None) -> Findings:
    """Constant targets, imbalance, rare labels, and labels that the training file lacks."""
    num_rows, labels = len(report.examples), report.labels
    if report.scores and report.scores.minimum == report.scores.maximum:
        yield True, num_rows, f"all have the score {report.scores.minimum:g}; add rows with other scores"
    if not (example_type.closed_labels and labels):
        return
    majority, count = next(iter(labels.items()))
    if train:
        unseen = [example for example in report.examples if not train.labels.keys() >= {*example.labels}]
        if unseen:
            names = _shorten(repr(label) for label in labels if label not in train.labels)
            message = f"have labels that are not in {train.file}: {names} ({_shorten(map(_row_of, unseen))})"
            yield True, len(unseen), f"{message}; correct them, or add training rows with them"
    elif len(labels) == 1:
        yield True, num_rows, f"all have the label {majority!r}; add rows with other labels"
    elif sum(labels.values()) == num_rows and count > _IMBALANCED * num_rows:
        yield False, count, f"have the label {majority!r}; always predicting it scores {count / num_rows:.0%}"
    rare = {label: count for label, count in labels.items() if count < _RARE_LABEL}
    if rare and not train:
        yield False, sum(rare.values()), f"have rare labels, which are hard to learn: {_shorten(map(repr, rare))}"


def _check_structure(report: QualityReport, example_type: type[Example]) -> Findings:
    """Problems that only this type of examples can have."""
    for is_problem, examples, problem, remedy in example_type.find_problems(report.examples) if report.examples else ():
        if examples:
            message = f"{problem} ({_shorten(map(_row_of, examples))}){remedy and f'; {remedy}'}"
            yield is_problem, len(examples), message


def _check_tokenization(report: QualityReport, example_type: type[Example], max_length: int) -> Findings:
    """Unknown tokens, and rows that exceed the maximum length of the model."""
    stats = report.tokenization
    if stats is None or stats.lengths is None:
        return
    if stats.unknown_fraction > _TOLERATED_TOKENS:
        message = f"have {stats.unknown_fraction:.0%} unknown tokens; use a model of this language"
        yield True, len(report.examples), message
    if too_long := stats.too_long:
        effect = "split" if example_type.splits_long_inputs else "truncated"
        message = f"exceed the model's {max_length} tokens and are {effect} ({_shorten(map(_row_of, too_long))})"
        tolerated = example_type.splits_long_inputs or len(too_long) <= _TOLERATED_TOKENS * len(report.examples)
        yield not tolerated, len(too_long), message


@lru_cache(maxsize=1000)  # consecutive questions share their passage
def _normalize(text: str) -> str:
    return " ".join(text.split()).casefold()


def _row_of(example: Example) -> str:
    return example.location.removeprefix(f"{example.file}, ")


def _list(duplicates: Duplicates) -> str:
    return _shorten(f"{_row_of(example)} = {_row_of(original)}" for example, original in duplicates)


def _shorten(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:_NUM_SHOWN]) + (", …" if len(names) > _NUM_SHOWN else "")
