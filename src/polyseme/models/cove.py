"""CoVe: word vectors in context, from the encoder of a model that translates (McCann et al., 2017).

Set apart from ELMo, which came after it, in three ways: it learns from translations instead of from plain text; the
vectors of words are given and stay as they are; and what it gives is these vectors beside the top of the encoder.
"""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence, pad_sequence

from polyseme.layers.dropout import Dropout
from polyseme.layers.linear import Linear
from polyseme.models.base import Encoder, ModelConfig
from polyseme.models.decoder import Decoded, Decoder, Translator, Writing
from polyseme.tensors import Batch, Encoded, State


class CoveConfig(ModelConfig):
    """The sizes of a CoVe; the defaults are those of the paper."""

    vocab_size: int = Field(50_000, ge=1)  # words of the translations at most, and then all that have a vector
    target_size: int = Field(0, ge=0)  # how many of them the decoder may write, the first ones; 0: all
    vectors: str = ""  # the run or file that the vectors of words were taken from
    width: int = Field(300, ge=1)  # of these vectors, and of those of the translations
    inner_width: int = Field(300, ge=1)  # of the encoder in each direction
    num_layers: int = Field(2, ge=1)  # of the encoder, and as many of the decoder
    dropout: float = Field(0.2, ge=0, lt=1)  # on the inputs and outputs of all layers

    @model_validator(mode="after")
    def _no_more_words_than_there_are(self) -> CoveConfig:
        if self.target_size > self.vocab_size:
            raise ValueError(
                f"target_size = {self.target_size} is more than vocab_size = {self.vocab_size}; change one"
            )
        return self


class Cove(Translator):
    """See the top of this file."""

    Config = CoveConfig
    context = "both"
    any_length = True
    biattentive = True

    def __init__(self, config: CoveConfig) -> None:
        super().__init__()
        self.config = config
        both = 2 * config.inner_width
        self.widths = (config.width, *[both] * (config.num_layers - 1), config.width + both)
        self.tokens = nn.Embedding(config.vocab_size, config.width)
        self.tokens.weight.requires_grad_(False)
        inputs = [config.width, *[both] * (config.num_layers - 1)]
        self.lstms = nn.ModuleList(nn.LSTM(width, config.inner_width, bidirectional=True) for width in inputs)
        self.drop = Dropout(config.dropout)
        initialize(self.lstms)

    def forward(self, batch: Batch, state: State | None = None) -> Encoded:
        words = self.tokens(batch.ids)  # (B, T, D)
        rows, lengths = words.transpose(0, 1), batch.mask.sum(1).cpu()
        if batch.lengths is not None:
            rows, lengths = pad_sequence(words[0].split(batch.lengths)), torch.tensor(batch.lengths)
        # Packed, so that the way back begins at the last word of a row.
        packed = pack_padded_sequence(rows, lengths, enforce_sorted=False)
        layers = [words]
        for lstm in self.lstms:
            packed = packed._replace(data=self.drop(packed.data))
            packed, _ = lstm(packed)
            layers.append(self._unpacked(packed, batch))
        layers[-1] = torch.cat([words, self.drop(layers[-1])], -1)
        return Encoded(layers=tuple(layers), mask=batch.mask, lengths=batch.lengths)

    @staticmethod
    def _unpacked(packed: PackedSequence, batch: Batch) -> Tensor:
        rows, lengths = pad_packed_sequence(packed, total_length=None if batch.lengths else batch.ids.shape[1])
        if batch.lengths is None:
            return rows.transpose(0, 1)
        return torch.cat([rows[:length, row] for row, length in enumerate(lengths.tolist())])[None]

    def summarize(self, encoded: Encoded) -> Tensor:
        return encoded.mean()

    def stages(self) -> list[nn.Module]:
        return [self.tokens, *self.lstms]

    def decoder(self) -> Decoder:
        return AttentionDecoder(self.config)


def initialize(module: nn.Module) -> None:
    """Uniform between -0.1 and 0.1, as in the authors' program."""
    for weight in module.parameters():
        nn.init.uniform_(weight, -0.1, 0.1)


class Attended(Writing):
    """The source, the state of the decoder in each layer, and what it attended to last."""

    def __init__(self, source: Tensor, mask: Tensor, layers: list[tuple[Tensor, Tensor]]) -> None:
        self.source = source  # (B, S, D), the top of the encoder
        self.mask = mask
        self.layers = layers  # h and c of each, (B, D)
        self.attended = torch.zeros_like(layers[-1][0])  # (B, D)

    def select(self, rows: Tensor) -> None:
        self.source, self.mask, self.attended = self.source[rows], self.mask[rows], self.attended[rows]
        self.layers = [(hidden[rows], cell[rows]) for hidden, cell in self.layers]


class AttentionDecoder(Decoder):
    """An LSTM that begins where the encoder ended, and looks at all of its words before each of its own."""

    def __init__(self, config: CoveConfig) -> None:
        super().__init__()
        self.vocab_size = config.target_size or config.vocab_size
        self.vectors_width, both = config.width, 2 * config.inner_width
        self.tokens = nn.Embedding(self.vocab_size, config.width)
        widths = [config.width + both, *[both] * config.num_layers]
        self.cells = nn.ModuleList(nn.LSTMCell(*pair) for pair in pairwise(widths))
        self.query = Linear(both, both)  # W_1, b_1
        self.attend = Linear(2 * both, both)  # W_2, b_2
        self.score = Linear(both, self.vocab_size)  # W_out, b_out
        self.drop = Dropout(config.dropout)
        initialize(self)

    def begin(self, encoded: Encoded, max_length: int = 0) -> Attended:
        tops = [*encoded.layers[1:-1], encoded.layers[-1][..., self.vectors_width :]]
        rows, last = torch.arange(len(encoded.mask), device=encoded.mask.device), encoded.mask.sum(1) - 1
        half = tops[0].shape[-1] // 2
        ends = [torch.cat([top[rows, last, :half], top[:, 0, half:]], -1) for top in tops]
        return Attended(tops[-1], encoded.mask, [(end, torch.zeros_like(end)) for end in ends])

    def forward(self, encoder: Encoder, ids: Tensor, writing: Writing) -> Decoded:
        assert isinstance(writing, Attended)
        hidden, attention = [], []
        for word in self.drop(self.tokens(ids)).unbind(1):  # (B, D)
            attention.append(self._step(word, writing))
            hidden.append(writing.attended)
        return Decoded(hidden=self.drop(torch.stack(hidden, 1)), attention=torch.stack(attention, 1))

    def _step(self, word: Tensor, writing: Attended) -> Tensor:
        """Go on by one word: s_t = LSTM([z_t-1; h~_t-1], s_t-1), and the rest of the paper's equations."""
        x = torch.cat([word, writing.attended], -1)
        for number, cell in enumerate(self.cells):
            writing.layers[number] = cell(x, writing.layers[number])
            x = self.drop(writing.layers[number][0])
        scores = (writing.source @ self.query(x)[..., None])[..., 0]  # (B, S)
        weights = F.softmax(scores.masked_fill(~writing.mask, float("-inf")), -1)
        context = (weights[:, None] @ writing.source)[:, 0]
        writing.attended = torch.tanh(self.attend(torch.cat([context, x], -1)))
        return weights

    def output(self, encoder: Encoder) -> tuple[Tensor, Tensor | None]:
        return self.score.weight, self.score.bias
