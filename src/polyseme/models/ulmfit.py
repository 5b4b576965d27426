"""ULMFiT: a language model of three LSTM layers that is adapted, then asked (Howard and Ruder, 2018).

The model is the AWD-LSTM (Merity et al., 2017). Nothing about its layers is unusual; what is dropped while it learns
is: weights between one moment and the next instead of activations, whole words of the vocabulary, and elsewhere the
same places at every moment of a row. The last layer is as wide as a word, so that the output is the embedding itself.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from polyseme.layers.dropout import Dropout
from polyseme.models.base import Context, Encoder, ModelConfig
from polyseme.tensors import Batch, Encoded, Recurrent, State


class UlmfitConfig(ModelConfig):
    """The sizes of a ULMFiT; the defaults are those of the paper."""

    vocab_size: int = Field(60_000, ge=1)
    width: int = Field(400, ge=1)  # of the vector of a word, and of the last layer
    inner_width: int = Field(1150, ge=1)  # of the layers below it
    num_layers: int = Field(3, ge=1)
    direction: Literal["forward", "backward"] = "forward"  # backward: rows are read from their end
    dropout: float = Field(1.0, ge=0, le=1)  # what these shares are multiplied by
    word_dropout: float = Field(0.05, ge=0, lt=1)  # of the words of the vocabulary
    input_dropout: float = Field(0.4, ge=0, lt=1)  # of the vectors of words
    layer_dropout: float = Field(0.3, ge=0, lt=1)  # between layers
    output_dropout: float = Field(0.4, ge=0, lt=1)  # of the last layer
    weight_dropout: float = Field(0.5, ge=0, lt=1)  # of the weights between one moment and the next


class VariationalDropout(Dropout):
    """Drops the same numbers at every moment of a row (Gal and Ghahramani, 2016)."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.num_dropped:
            return x
        return x * super().forward(x.new_ones(len(x), 1, x.shape[-1]))


class Ulmfit(Encoder):
    """See the top of this file."""

    Config = UlmfitConfig
    context: Context = "left"
    any_length = True

    def __init__(self, config: UlmfitConfig) -> None:
        super().__init__()
        self.config = config
        if config.direction == "backward":
            self.context = "right"
        self.widths = (config.width, *[config.inner_width] * (config.num_layers - 1), config.width)
        self.tokens = nn.Embedding(config.vocab_size, config.width)
        self.recurrent = nn.ModuleList(nn.LSTM(*widths, batch_first=True) for widths in pairwise(self.widths))
        self.drop_words = Dropout(config.dropout * config.word_dropout)
        self.drop_input = VariationalDropout(config.dropout * config.input_dropout)
        self.drop_between = VariationalDropout(config.dropout * config.layer_dropout)
        self.drop_output = VariationalDropout(config.dropout * config.output_dropout)  # which the objective applies
        self.drop_weights = Dropout(config.dropout * config.weight_dropout)
        nn.init.uniform_(self.tokens.weight, -0.1, 0.1)

    def forward(self, batch: Batch, state: State | None = None) -> Encoded:
        x = self.tokens(batch.ids)  # (B, T, D)
        if self.training:
            kept = self.drop_words(x.new_ones(self.config.vocab_size, 1))
            x = x * kept[batch.ids]
        layers = [x]
        order = None if batch.lengths is None and self.context == "left" else _order(batch, self.context)
        if order:
            x = x.flatten(0, 1)[order[0]]  # as it is read: rows beside each other, from their end if need be
        carried = state.carried if state else batch.carried or self.begin(len(x), 0).carried
        after = {}
        for number, lstm in enumerate(self.recurrent):
            x = self.drop_between(x) if number else self.drop_input(x)
            weight, recurrent, *biases = lstm.parameters()
            weights = [weight, self.drop_weights(recurrent), *biases]  # one choice of weights for all moments
            hidden, cell = f"hidden.{number}", f"cell.{number}"
            before, read = (carried[hidden][None], carried[cell][None]), []
            # Layer by layer is as good as chunk by chunk: what a layer reads of a chunk is made of nothing before it.
            for part in x.split(batch.chunk, 1) if batch.chunk else [x]:
                y, *last = torch.lstm(part, before, weights, True, 1, 0.0, self.training, False, True)
                before = last[0].detach(), last[1].detach()
                read.append(y)
            x = torch.cat(read, 1) if len(read) > 1 else read[0]
            after[hidden], after[cell] = last[0][0], last[1][0]
            layers.append(x.flatten(0, 1)[order[1]] if order else x)
        state = Recurrent(after, batch.ids.shape[1] + (state.length if state else 0))
        return Encoded(layers=tuple(layers), mask=batch.mask, lengths=batch.lengths, state=state)

    def begin(self, num_rows: int, max_length: int) -> Recurrent:
        carried = {}
        for number, width in enumerate(self.widths[1:]):
            nothing = torch.zeros(num_rows, width, device=self.tokens.weight.device)
            carried[f"hidden.{number}"] = carried[f"cell.{number}"] = nothing
        return Recurrent(carried)

    def summarize(self, encoded: Encoded) -> Tensor:
        return encoded.last() if self.context == "left" else encoded.first()

    def stages(self) -> list[nn.Module]:
        return [self.tokens, *self.recurrent]


def _order(batch: Batch, context: str) -> tuple[Tensor, Tensor]:
    """Which token of all is read when, (rows, T), and the other way about, (B, T); padding may be any token."""
    device = batch.ids.device
    if batch.lengths is None:
        lengths, starts = batch.mask.sum(1), torch.arange(len(batch.ids), device=device) * batch.ids.shape[1]
    else:
        lengths = torch.tensor(batch.lengths, device=device)
        starts = lengths.cumsum(0) - lengths
    moments = torch.arange(int(lengths.max()), device=device)
    places = moments if context == "left" else lengths[:, None] - 1 - moments
    places = starts[:, None] + places.clamp(min=0).minimum(lengths[:, None] - 1)
    real = moments < lengths[:, None]
    back = torch.zeros_like(batch.ids).flatten()
    back[places[real]] = torch.arange(places.numel(), device=device).view(places.shape)[real]
    return places, back.view(batch.ids.shape)
