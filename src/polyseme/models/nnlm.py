"""NNLM: the feedforward neural language model, which introduced trained word embeddings (Bengio et al., 2003).

What is unusual: the input is the concatenation of the embeddings of the last n - 1 words, with one table for all
positions; and the output layer has a matrix of its own, optionally connected to the embeddings directly.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from polyseme.batch import Batch, Encoded, State
from polyseme.layers.dropout import Dropout
from polyseme.models.base import Encoder, ModelConfig, encode_padded


class NnlmConfig(ModelConfig):
    """Sizes of an NNLM; the defaults are those of the best model on the Brown corpus in the paper."""

    vocab_size: int = Field(16_383, ge=1)
    order: int = Field(5, ge=2, le=100)  # n: n - 1 context words and the predicted one
    width: int = Field(30, ge=1)  # of the word embeddings
    inner_width: int = Field(100, ge=1)  # of the hidden layer
    connections: Literal["hidden", "direct"] = "hidden"  # direct: embeddings are inputs of the output layer too
    dropout: float = Field(0.0, ge=0, lt=1)


@dataclass(eq=False)
class WindowState(State):
    """Embeddings of the last n - 2 words."""

    vectors: Tensor  # (B, n - 2, D)
    length: int = 0


class Nnlm(Encoder):
    """NNLM without its output layer."""

    Config = NnlmConfig
    context = "left"
    unlimited_length = True

    def __init__(self, config: NnlmConfig) -> None:
        super().__init__(config)
        window_width = (config.order - 1) * config.width
        self.widths = (config.width, config.inner_width + (window_width if config.connections == "direct" else 0))
        self.tokens = nn.Embedding(config.vocab_size, config.width)
        self.hidden = nn.Linear(window_width, config.inner_width)
        self.drop = Dropout(config.dropout)
        nn.init.normal_(self.tokens.weight, std=0.1)

    def forward(self, batch: Batch, state: State | None = None) -> Encoded:
        if batch.packed_lengths is not None:
            return encode_padded(self, batch)
        x = self.tokens(batch.ids)  # (B, T, D)
        num_rows, num_tokens, width = x.shape
        num_before = self.config.order - 2
        before = state.vectors if isinstance(state, WindowState) else x.new_zeros(num_rows, num_before, width)
        history = torch.cat([before, x], 1)  # zeros before the first word
        views = [history[:, num_before - back :][:, :num_tokens] for back in range(self.config.order - 1)]
        window = self.drop(torch.cat(views, -1))  # (B, T, (n - 1) D), nearest first
        top = self.drop(torch.tanh(self.hidden(window)))
        if self.config.connections == "direct":
            top = torch.cat([top, window], -1)
        after = WindowState(history[:, num_tokens:], state.length + num_tokens) if state else None
        return Encoded(layers=(x, top), mask=batch.mask, state=after)

    def new_state(self, num_rows: int, max_length: int) -> WindowState:
        return WindowState(torch.zeros(num_rows, self.config.order - 2, self.config.width, device=self.device))

    def layer_groups(self) -> list[nn.Module]:
        return [self.tokens, self.hidden]
