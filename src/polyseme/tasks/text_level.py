"""Base class of tasks on one text or two: a head on a pooled vector, or on the comparison of two."""

from collections.abc import Sequence

from torch import Tensor

from polyseme.batch import Batch, Encoded
from polyseme.models.base import Encoder
from polyseme.tasks.base import ExampleT, Prediction, Task
from polyseme.tasks.config import FineTuningConfig
from polyseme.tasks.inputs.dataset import Instance
from polyseme.tasks.inputs.input_formatter import InputFormatter
from polyseme.tasks.networks.bcn import BiattentiveNetwork
from polyseme.tasks.networks.heads import AnyHead, BatchNormHead, Head, MaxoutHead
from polyseme.tasks.networks.linear_path import compare_vectors


class TextTask(Task[ExampleT, Prediction]):
    """A task with one vector per example."""

    def __init__(
        self, name: str, config: FineTuningConfig, encoder: Encoder, num_scores: int, *, num_texts: int
    ) -> None:
        features = None
        if encoder.classifier == "biattentive" and config.method in ("full", "frozen"):
            features = BiattentiveNetwork(encoder, config.width, config.dropout, num_texts=num_texts)
        super().__init__(name, config, encoder, features)
        self.num_scores = num_scores
        self.head = self._build_head(config, encoder, num_scores, num_texts)

    def _build_head(self, config: FineTuningConfig, encoder: Encoder, num_scores: int, num_texts: int) -> AnyHead:
        width, inner_width = self.features.pooled_width, 0
        if isinstance(self.features, BiattentiveNetwork):
            return MaxoutHead(width, num_scores, dropout=config.dropout)
        if num_texts > 1 and encoder.input_format == "bi_encoder":
            width, inner_width = 4 * width, width  # a linear layer alone cannot relate the two texts
        if encoder.input_format == "bi_encoder" and config.method == "gradual":
            return BatchNormHead(width, num_scores, dropout=config.dropout)
        if encoder.classifier == "dense" and config.method in ("full", "gradual"):
            inner_width = width
        bias = encoder.input_format != "delimited"  # as in transformers
        return Head(width, num_scores, dropout=config.dropout, inner_width=inner_width, bias=bias)

    def instances(self, formatter: InputFormatter, examples: Sequence[ExampleT]) -> list[Instance]:
        rows = formatter.rows([self.rows(formatter, example) for example in examples])
        return [
            Instance(example=number, rows=rows_of_example, label=self.target(example))
            for number, (rows_of_example, example) in enumerate(zip(rows, examples, strict=True))
        ]

    def rows(self, formatter: InputFormatter, example: ExampleT) -> list[tuple[str, ...]]:
        """Return the texts of each token sequence of an example."""
        return [example.texts] if formatter.joins_pairs else [(text,) for text in example.texts]

    def target(self, example: ExampleT) -> float:
        """Return the label of an example as a number, or IGNORED."""
        raise NotImplementedError

    def head_scores(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Tensor:
        return self.head(self.vectors(encoder, encoded, batch).sum(1))  # type: ignore[no-any-return]

    def vectors(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Tensor:
        """Vectors of the rows of each example, or of the first row compared to each other row, (examples, …, D)."""
        tokens = self.features(encoded)
        if isinstance(self.features, BiattentiveNetwork):
            return self.features.compare(tokens, encoded.mask, batch.rows_per_example)
        rows = self.features.pool_rows(encoder, encoded, tokens)
        rows = rows.view(-1, batch.rows_per_example, rows.shape[-1])
        if batch.rows_per_example == 1 or encoder.input_format != "bi_encoder":
            return rows
        return compare_vectors(rows[:, :1], rows[:, 1:])
