"""N-gram language model with interpolated modified Kneser–Ney smoothing (Chen and Goodman, 1999).

What is unusual: it has no vectors. The encoder returns the ids of the last n - 1 tokens, and the head finds them in a
table of n-grams. Training is counting: a single step, whatever the budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from polyseme.batch import Batch, Encoded, LossOutput, State
from polyseme.errors import CheckpointError
from polyseme.learner import LearnerState
from polyseme.models.base import Encoder, ModelConfig, encode_padded
from polyseme.objectives.base import ObjectiveConfig, select_targets
from polyseme.objectives.causal_lm import CausalLm
from polyseme.objectives.sources import TokenSource
from polyseme.static_embeddings.base import StaticTrainer, TrainingInputs
from polyseme.tokenization.config import SpecialTokens

if TYPE_CHECKING:  # numba takes 0.2 s of every start
    from polyseme.baselines.ngram_trie import InterpolatedNgrams

_MAX_VOCAB_SIZE = 1 << 24  # layers are float32, which has every integer up to this
_MAX_NODES = 1 << 31
_NO_TOKEN = -1


class NgramConfig(ModelConfig):
    """Sizes of an n-gram model."""

    vocab_size: int = Field(1_000_000, ge=1, le=_MAX_VOCAB_SIZE)
    max_length: int = Field(1024, ge=16)  # tokens that are read at once; the context is never longer than order - 1
    order: int = Field(5, ge=2, le=6)  # n: n - 1 context tokens and the predicted one
    num_ngrams: tuple[Annotated[int, Field(ge=0)], ...] = ()  # of each length from 2 to the order; set by training

    @model_validator(mode="after")
    def _check_num_ngrams(self) -> Self:
        if len(self.num_ngrams) not in (0, self.order - 1) or self.level_starts[-1] >= _MAX_NODES:
            raise ValueError("num_ngrams is set by training; remove the setting")
        return self

    @property
    def level_starts(self) -> tuple[int, ...]:
        """The first node of n-grams of each length from 0 to the order, and the end."""
        return tuple(accumulate([0, 1, self.vocab_size, *(self.num_ngrams or [0] * (self.order - 1))]))


@dataclass(eq=False)
class WindowState(State):
    """The last n - 2 tokens."""

    tokens: Tensor  # (B, n - 2)
    length: int = 0


class Ngram(Encoder):
    """The encoder: layer 0 has the id of each token, layer 1 the ids of the last n - 1."""

    Config = NgramConfig
    context = "left"
    unlimited_length = True
    has_vectors = False

    def __init__(self, config: NgramConfig) -> None:
        super().__init__(config)
        self.widths = (1, config.order - 1)
        self.tokens = nn.Embedding(config.vocab_size, 0, _weight=torch.empty(config.vocab_size, 0))

    def forward(self, batch: Batch, state: State | None = None) -> Encoded:
        if batch.packed_lengths is not None:
            return encode_padded(self, batch)
        num_rows, num_tokens = batch.ids.shape
        before = state if isinstance(state, WindowState) else self.new_state(num_rows, num_tokens)
        history = torch.cat([before.tokens, batch.ids], 1)
        windows = history.unfold(1, self.config.order - 1, 1)  # (B, T, n - 1), the nearest last
        after = WindowState(history[:, num_tokens:], before.length + num_tokens) if state else None
        return Encoded(layers=(batch.ids[..., None].float(), windows.float()), mask=batch.mask, state=after)

    def new_state(self, num_rows: int, max_length: int) -> WindowState:
        return WindowState(torch.full((num_rows, self.config.order - 2), _NO_TOKEN, device=self.device))

    def layer_groups(self) -> list[nn.Module]:
        return [self.tokens]


class NgramLmConfig(ObjectiveConfig):
    """No settings: the discounts of Kneser–Ney smoothing are estimated from the counts."""

    by_gradient = False
    full_batch = True
    single_step = True
    kind: Literal["ngram"] = "ngram"


class NgramLm(CausalLm):
    """The head: the n-grams as a trie (`ngram_trie`); before training there are none, and all tokens are as probable.

    Logits are log-probabilities, in float64.
    """

    words: Tensor
    first: Tensor
    frequencies: Tensor
    backoffs: Tensor

    def __init__(self, encoder: Encoder, specials: SpecialTokens) -> None:
        super().__init__()
        self.end = specials.end
        self.level_starts: tuple[int, ...] = encoder.config.level_starts
        *_, num_contexts, num_nodes = self.level_starts
        begin, end = self.level_starts[1:3]
        words, first = (torch.zeros(size, dtype=torch.int32) for size in (num_nodes, num_contexts + 1))
        words[begin:end] = torch.arange(end - begin)
        first[0], first[1:] = begin, end
        self.register_buffer("words", words)
        self.register_buffer("first", first)
        self.register_buffer("frequencies", torch.zeros(num_nodes))
        self.register_buffer("backoffs", torch.ones(num_contexts))
        self._ngrams: InterpolatedNgrams | None = None  # views of the buffers

    @property
    def ngrams(self) -> InterpolatedNgrams:
        """The n-grams with their probabilities."""
        if self._ngrams is None:
            from polyseme.baselines.ngram_trie import InterpolatedNgrams, NgramTrie

            words, first, frequencies, backoffs = (buffer.cpu().numpy() for buffer in self.buffers())
            trie = NgramTrie(words=words, first=first, level_starts=self.level_starts)
            if not trie.is_consistent():
                raise CheckpointError("the n-grams of the model are damaged; restore its model.safetensors")
            self._ngrams = InterpolatedNgrams(trie=trie, frequencies=frequencies, backoffs=backoffs)
        return self._ngrams

    @ngrams.setter
    def ngrams(self, ngrams: InterpolatedNgrams) -> None:
        self._ngrams, self.level_starts = ngrams, ngrams.trie.level_starts
        self.words, self.first = torch.from_numpy(ngrams.trie.words), torch.from_numpy(ngrams.trie.first)
        self.frequencies, self.backoffs = torch.from_numpy(ngrams.frequencies), torch.from_numpy(ngrams.backoffs)

    def loss(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> LossOutput:
        nll, correct = self.token_nll(encoder, *select_targets(self.hidden_states(encoded), batch, self.name))
        return LossOutput(losses={self.name: nll.sum()}, correct={self.name: correct.sum()})

    def token_nll(self, encoder: Encoder, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        contexts, words = hidden.long().cpu().numpy(), targets.cpu().numpy()
        nll = -np.log(self.ngrams.probabilities(contexts, words))
        correct = self.ngrams.most_probable(contexts) == words
        return torch.from_numpy(nll).to(hidden.device), torch.from_numpy(correct).to(hidden.device)

    def logits(self, encoder: Encoder, hidden: Tensor) -> Tensor:
        contexts = hidden.long().flatten(0, -2).cpu().numpy()
        logits = torch.from_numpy(self.ngrams.distributions(contexts)).log_()
        return logits.view(*hidden.shape[:-1], -1).to(hidden.device)


class NgramTrainer(StaticTrainer):
    """Counts the n-grams of the whole corpus in its first step; further steps would not change them.

    Checkpoints have no n-grams: to count them again takes no longer than to read them.
    """

    def __init__(self, config: Any, inputs: TrainingInputs, encoder: Encoder, head: NgramLm) -> None:
        super().__init__(config, inputs)
        self.encoder = encoder
        self.head = head

    def train_step(self) -> dict[str, float]:
        if not self.steps_done:
            self._count()
        return {}

    def restore(self, state: LearnerState) -> None:
        super().restore(state)
        if self.steps_done:
            self._count()

    def _count(self) -> None:
        from polyseme.baselines.kneser_ney import smooth
        from polyseme.baselines.ngram_counts import count_ngrams

        sizes, tokens = self.encoder.config, self.inputs.source.store.tokens
        counts = count_ngrams(tokens, vocab_size=sizes.vocab_size, order=sizes.order, end=self.head.end)
        self.head.ngrams = smooth(counts)
        self.encoder.config = sizes.replace(num_ngrams=counts.trie.num_ngrams)

    def evaluate(self, source: TokenSource, *, num_batches: int) -> dict[str, float]:
        """Compute the loss on the start of a text, which is read in one piece."""
        num_tokens = min(source.store.num_tokens, num_batches * source.num_rows * source.length)
        first = 0 if self.head.end is None else self.head.end
        ids = torch.from_numpy(np.concatenate([[first], source.read(np.arange(num_tokens))]))
        batch = Batch.of(ids[None, :-1]).with_labels(self.head.name, ids[None, 1:])
        output = self.head(self.encoder, batch)
        metrics = {self.head.name: float(output.losses[self.head.name]) / num_tokens}
        metrics[f"{self.head.name}_accuracy"] = float(output.correct[self.head.name]) / num_tokens
        return metrics | self.head.metrics(metrics, source)
