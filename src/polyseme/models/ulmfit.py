"""ULMFiT: an AWD-LSTM language model for transfer learning (Howard and Ruder, 2018; Merity et al., 2017).

What is unusual is the dropout: DropConnect on the hidden-to-hidden weights, embedding dropout of whole words, and
elsewhere variational dropout, one mask for all time steps. The last layer has the width of the embeddings, so that the
output layer can be tied to them.
"""

from itertools import pairwise
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from polyseme.batch import Batch, Encoded, RecurrentState, State
from polyseme.layers.dropout import Dropout
from polyseme.models.base import Context, Encoder, ModelConfig, encode_padded, reversed_positions


class UlmfitConfig(ModelConfig):
    """Sizes of a ULMFiT; the defaults are those of the paper."""

    vocab_size: int = Field(60_000, ge=1)
    width: int = Field(400, ge=1)  # of the word embeddings and of the last layer
    inner_width: int = Field(1150, ge=1)  # of the other layers
    num_layers: int = Field(3, ge=1)
    direction: Literal["forward", "backward"] = "forward"  # backward: a right-to-left model
    dropout: float = Field(1.0, ge=0, le=1)  # multiplies the five probabilities below
    word_dropout: float = Field(0.05, ge=0, lt=1)  # embedding dropout: whole words of the vocabulary
    input_dropout: float = Field(0.4, ge=0, lt=1)  # of the embeddings
    layer_dropout: float = Field(0.3, ge=0, lt=1)  # between layers
    output_dropout: float = Field(0.4, ge=0, lt=1)  # of the last layer
    weight_dropout: float = Field(0.5, ge=0, lt=1)  # DropConnect on the hidden-to-hidden weights


class VariationalDropout(Dropout):
    """Dropout with one mask for all time steps (Gal and Ghahramani, 2016)."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.num_dropped:
            return x
        return x * super().forward(x.new_ones(len(x), 1, x.shape[-1]))


class Ulmfit(Encoder):
    """AWD-LSTM encoder."""

    Config = UlmfitConfig
    context: Context = "left"
    unlimited_length = True

    def __init__(self, config: UlmfitConfig) -> None:
        super().__init__(config)
        if config.direction == "backward":
            self.context = "right"
        self.widths = (config.width, *[config.inner_width] * (config.num_layers - 1), config.width)
        self.tokens = nn.Embedding(config.vocab_size, config.width)
        self.recurrent = nn.ModuleList(nn.LSTM(*widths, batch_first=True) for widths in pairwise(self.widths))
        self.drop_words = Dropout(config.dropout * config.word_dropout)
        self.drop_input = VariationalDropout(config.dropout * config.input_dropout)
        self.drop_between = VariationalDropout(config.dropout * config.layer_dropout)
        self.drop_output = VariationalDropout(config.dropout * config.output_dropout)  # applied by the objective
        self.drop_weights = Dropout(config.dropout * config.weight_dropout)
        nn.init.uniform_(self.tokens.weight, -0.1, 0.1)

    def forward(self, batch: Batch, state: State | None = None) -> Encoded:
        if batch.packed_lengths is not None:
            return encode_padded(self, batch)
        x = self.tokens(batch.ids)  # (B, T, D)
        if self.training:
            keep = self.drop_words(x.new_ones(self.config.vocab_size, 1))
            x = x * keep[batch.ids]
        layers = [x]
        rows = torch.arange(len(x), device=x.device)[:, None]
        order = (rows, reversed_positions(batch.mask)) if self.context == "right" else None
        x = x[order] if order else x
        initial = state.recurrent_state if state else batch.initial_state or self.new_state(len(x), 0).recurrent_state
        after = {}
        for number, lstm in enumerate(self.recurrent):
            x = self.drop_between(x) if number else self.drop_input(x)
            weight, recurrent, *biases = lstm.parameters()
            weights = [weight, self.drop_weights(recurrent), *biases]  # one mask for all time steps
            hidden, cell = f"hidden.{number}", f"cell.{number}"
            before, outputs = (initial[hidden][None], initial[cell][None]), []
            # Truncating layer by layer equals truncating chunk by chunk: within a chunk no layer reads an earlier one.
            for part in x.split(batch.bptt_length, 1) if batch.bptt_length else [x]:
                y, *last = torch.lstm(part, before, weights, True, 1, 0.0, self.training, False, True)
                before = last[0].detach(), last[1].detach()
                outputs.append(y)
            x = torch.cat(outputs, 1) if len(outputs) > 1 else outputs[0]
            after[hidden], after[cell] = last[0][0], last[1][0]
            layers.append(x[order] if order else x)
        state = RecurrentState(after, batch.ids.shape[1] + (state.length if state else 0))
        return Encoded(layers=tuple(layers), mask=batch.mask, state=state)

    def new_state(self, num_rows: int, max_length: int) -> RecurrentState:
        zeros = [torch.zeros(num_rows, width, device=self.device) for width in self.widths[1:]]
        return RecurrentState({f"{name}.{n}": zero for name in ("hidden", "cell") for n, zero in enumerate(zeros)})

    def layer_groups(self) -> list[nn.Module]:
        return [self.tokens, *self.recurrent]
