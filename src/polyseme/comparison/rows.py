"""The rows of results.jsonl: a closed schema for each kind."""

import json
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, NonNegativeInt

from polyseme.config import Config

Row = dict[str, Any]

Method = Literal["linear_probe", "linear_probe_with_tfidf", "fine_tuning"]  # from the simplest to the most complex

_Number = Annotated[float, Field(gt=-1e18, lt=1e18)]  # of plausible magnitude

# The lists of JSON are valid as tuples, whose items are validated strictly.
_Pair = Annotated[tuple[str, _Number], Field(strict=False)]
_MapPoint = Annotated[tuple[_Number, _Number, str, NonNegativeInt, NonNegativeInt, NonNegativeInt], Field(strict=False)]


class StrictConfig(Config):
    """Base class of rows and their parts, whose values are not converted."""

    model_config = ConfigDict(strict=True)


class ResultRow(StrictConfig):
    """Base class; `key` has the fields that identify a row of its kind: a later row replaces an earlier one."""

    key: ClassVar[tuple[str, ...]] = ()

    row: str


class FamilyResultRow(ResultRow):
    """Base class of the results of a family or baseline."""

    key: ClassVar[tuple[str, ...]] = ("family", "training")

    family: str
    training: NonNegativeInt = 0  # which one of the trainings that differ by seed


class TaskDescription(StrictConfig):
    """A labelled dataset of a comparison."""

    name: str
    kind: str
    metric: str
    derived: bool = False  # from the corpus
    train: int | None = None
    dev: int | None = None
    test: int | None = None
    about: str | None = None
    majority_baseline: float | None = None


class ComparisonRow(ResultRow):
    """Data, settings and machine."""

    corpus: str | None = None
    documents: dict[str, int] = Field(default_factory=dict)  # by split, as the following two
    characters: dict[str, int] = Field(default_factory=dict)
    words: dict[str, int] = Field(default_factory=dict)
    budget: str | None = None
    processor_seconds: float | None = None
    cores: int | None = None
    trainings: int | None = None
    seeds: int | None = None
    families: list[str] = Field(default_factory=list)
    scored_characters: int | None = None
    scored_sha256: str | None = None
    machine: dict[str, str | int] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    date: str | None = None
    command: str | None = None
    tasks: list[TaskDescription] = Field(default_factory=list)


class FamilyRow(FamilyResultRow):
    """A model and the cost of its training."""

    context: Literal["none", "left", "right", "both"]
    model_family: str | None = None
    parameters: int | None = None
    disk_bytes: int | None = None
    embedding_seconds: float | None = None  # for 1,000 sentences
    steps: int | None = None
    tokens: int | None = None
    tokens_per_second: float | None = None
    processor_seconds: float | None = None
    seconds: float | None = None
    stopped_by: str | None = None
    size: str | None = None
    size_reason: str | None = None
    epochs: float | None = None
    preparation_seconds: float | None = None
    peak_memory_bytes: int | None = None
    command: str | None = None
    directory: str | None = None
    training_overlap: float | None = None  # with the evaluated documents


class CurvePoint(StrictConfig):
    """A validation during training."""

    processor_seconds: float = Field(ge=0, lt=1e18)
    tokens: float
    bits_per_character: _Number
    scale: str


class LearningCurveRow(FamilyResultRow):
    """The dev losses of a training run."""

    name: str | None = None
    points: list[CurvePoint]


class MetricRow(FamilyResultRow):
    """A metric on held-out text or on an evaluation suite."""

    key = ("family", "training", "suite", "name", "scale")

    suite: str
    name: str
    scale: str | None = None
    value: _Number
    standard_error: float | None = None
    count: int | None = None
    items: int | None = None
    better: Literal["higher", "lower"] = "higher"
    inference_seconds: float | None = None  # for 1,000 texts; by default, the time in which the family embeds them
    layer: int | None = Field(None, ge=0)
    layers: list[float | None] = Field(default_factory=list)  # the value by layer
    outcomes: list[float | None] = Field(default_factory=list)  # by test item; None for items without a score


class TaskRow(FamilyResultRow):
    """The scores of a labelled dataset at a number of labels."""

    key = ("family", "training", "task", "method", "num_labels")

    task: str
    kind: str
    method: Method
    num_labels: int = Field(gt=0, lt=10**18)
    metric: str
    values: list[_Number] = Field(min_length=1)  # by seed
    mean: float | None = None
    std: float | None = None
    seconds: float | None = None
    inference_seconds: float | None = None  # for 1,000 texts; by default, the time in which the family embeds them
    layer: int | None = None
    steps: int | None = None
    converged: bool = True  # False: training ran out of time while the dev score still improved
    dev: float | None = None  # mean dev score of the selected models
    probe_dev: float | None = None  # mean dev score of the linear probes that fine-tuning started from
    outcomes: list[float | None] = Field(default_factory=list)  # by test item, means over seeds


class NeighboursRow(FamilyResultRow):
    """The nearest neighbours of a word."""

    key = ("family", "training", "word")

    word: str
    neighbours: list[_Pair]


class AmbiguousWordRecord(StrictConfig):
    """A word that may have several senses."""

    word: str
    count: int | None = None
    annotated: bool = False
    spread: float | None = None
    probability: float | None = None
    score: float | None = None


class AmbiguousWordsRow(ResultRow):
    """Ambiguous words, and how they were found."""

    words: list[AmbiguousWordRecord]
    found_by: str | None = None
    method: str | None = None


class SenseMapRow(FamilyResultRow):
    """The occurrences of a word, projected to a plane."""

    key = ("family", "training", "word")

    word: str
    layer: int
    points: list[_MapPoint]  # x, y, sentence, start and end of the word, cluster


class ExampleRow(FamilyResultRow):
    """Generated texts, or predictions of a masked word."""

    key = ("family", "training", "kind", "prompt")

    kind: Literal["generate", "fill"]
    prompt: str
    texts: list[str] = Field(default_factory=list)
    predictions: list[_Pair] = Field(default_factory=list)


class FailureRow(FamilyResultRow):
    """A stage that failed."""

    key = ("family", "training", "stage")

    stage: str
    message: str = ""


class DoneRow(ResultRow):
    """The end of a stage, with a checksum of its rows."""

    key = ("family", "training", "stage")

    family: str = ""  # none for a stage of the whole comparison
    training: NonNegativeInt = 0
    stage: str
    failed: bool = False
    sha256: str


ROWS: dict[str, type[ResultRow]] = {
    "comparison": ComparisonRow,
    "family": FamilyRow,
    "learning_curve": LearningCurveRow,
    "metric": MetricRow,
    "task": TaskRow,
    "neighbours": NeighboursRow,
    "ambiguous_words": AmbiguousWordsRow,
    "sense_map": SenseMapRow,
    "example": ExampleRow,
    "failure": FailureRow,
    "done": DoneRow,
}
"""The kinds of rows."""


def parse_row(line: str) -> Row | None:
    """The row of a line; None if it does not match the schema of its kind."""
    try:
        row = json.loads(line)
        ROWS[row["row"]].model_validate(row)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    return dict(row)
