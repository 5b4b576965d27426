"""NNLM: the first network that learnt vectors of words while learning to predict the next (Bengio et al., 2003).

Set apart from what came later in three ways: it sees the last n - 1 words and no more, laid side by side in the order
in which they stand; a word has the same vector in all of these places; and the output has a matrix of its own.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from polyseme.layers.dropout import Dropout
from polyseme.models.base import Encoder, ModelConfig
from polyseme.tensors import Batch, Encoded, State


class NnlmConfig(ModelConfig):
    """The sizes of an NNLM; the defaults are the best of the paper on the Brown corpus."""

    vocab_size: int = Field(16_383, ge=1)
    order: int = Field(5, ge=2, le=100)  # n: the words that are seen, and the one that is predicted
    width: int = Field(30, ge=1)  # of the vector of a word
    inner_width: int = Field(100, ge=1)  # of the hidden layer
    connections: Literal["hidden", "direct"] = "hidden"  # direct: words are joined to the output past that layer too
    dropout: float = Field(0.0, ge=0, lt=1)


class Words(State):
    """The vectors of the last words that were read, of those that the next one sees."""

    def __init__(self, vectors: Tensor, length: int) -> None:
        self.vectors = vectors  # (B, n - 2, D)
        self.length = length


class Nnlm(Encoder):
    """See the top of this file."""

    Config = NnlmConfig
    context = "left"
    any_length = True

    def __init__(self, config: NnlmConfig) -> None:
        super().__init__()
        self.config = config
        seen = (config.order - 1) * config.width
        self.widths = (config.width, config.inner_width + (seen if config.connections == "direct" else 0))
        self.tokens = nn.Embedding(config.vocab_size, config.width)
        self.hidden = nn.Linear(seen, config.inner_width)
        self.drop = Dropout(config.dropout)
        nn.init.normal_(self.tokens.weight, std=0.1)

    def forward(self, batch: Batch, state: State | None = None) -> Encoded:
        x = self.tokens(batch.ids)  # (B, T, D)
        before = x.new_zeros(len(x), self.config.order - 2, x.shape[-1])
        if isinstance(state, Words):
            before = state.vectors
        seen = torch.cat([before, x], 1)  # with nothing before the first word
        length = x.shape[1]
        places = torch.arange(length, device=x.device)
        if batch.lengths is not None:
            places = torch.cat([places[:number] for number in batch.lengths])
        views = []
        for back in range(self.config.order - 1):
            start = before.shape[1] - back
            view = seen[:, start : start + length]
            views.append(view if batch.lengths is None else view * (places >= back)[:, None])
        words = self.drop(torch.cat(views, -1))  # (B, T, (n - 1) D), the nearest first
        top = self.drop(torch.tanh(self.hidden(words)))
        if self.config.connections == "direct":
            top = torch.cat([top, words], -1)
        after = None
        if state is not None:
            after = Words(seen[:, length:], state.length + length)
        return Encoded(layers=(x, top), mask=batch.mask, lengths=batch.lengths, state=after)

    def begin(self, num_rows: int, max_length: int) -> Words:
        device = self.tokens.weight.device
        return Words(torch.zeros(num_rows, self.config.order - 2, self.config.width, device=device), 0)

    def summarize(self, encoded: Encoded) -> Tensor:
        return encoded.last()

    def stages(self) -> list[nn.Module]:
        return [self.tokens, self.hidden]
