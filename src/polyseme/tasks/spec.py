"""What a task consists of: one `TaskSpec` per task, defined beside its head."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from polyseme.datasets.records import Example
from polyseme.tasks.base import Task
from polyseme.tasks.config import TaskConfig


@dataclass(frozen=True, kw_only=True)
class LinearProbe:
    """How a linear model on frozen vectors solves the task."""

    inputs: Literal["text", "pair", "words"]  # what one row of features is: a text, two compared texts, or each word
    regression: bool = False  # predicts the score of an example instead of its label


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """A task: adding one to `TASKS` is all that training, prediction, comparison and serving need."""

    kind: str  # its name in settings, on the command line and in the HTTP API
    display_name: str
    Example: type[Example]  # the schema of its labelled files
    Config: type[TaskConfig]
    Head: Callable[..., Task[Any, Any]]  # called with its name, the task's config, the fine-tuning config, the encoder
    metric: Callable[[Sequence[str]], str]  # the reported metric, given the labels
    compares_texts: bool = False  # a bi-encoder can encode its texts separately
    majority_baseline: bool = False  # accuracy of the most frequent label is a baseline
    probe: LinearProbe | None = None  # None: not for this task
    use: str = ""  # the use case in a comparison report; "" for none
    endpoint: str = ""  # of the HTTP API; "" for none


def always(metric: str) -> Callable[[Sequence[str]], str]:
    """A metric that does not depend on the labels."""
    return lambda labels: metric
