"""CoVe: contextual word vectors from the encoder of a translation model, MT-LSTM (McCann et al., 2017).

What is unusual, compared with ELMo: it is trained on parallel text instead of monolingual text; its input is pretrained
word embeddings, which stay frozen; and its output is these embeddings concatenated with the top LSTM layer.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from polyseme.batch import Batch, Encoded, State
from polyseme.layers.dropout import Dropout
from polyseme.layers.linear import Linear
from polyseme.models.base import Encoder, ModelConfig, encode_padded
from polyseme.models.seq2seq import Decoder, DecoderOutput, DecoderState, Seq2SeqEncoder


class CoveConfig(ModelConfig):
    """Sizes of a CoVe; the defaults are those of the paper."""

    vocab_size: int = Field(50_000, ge=1)  # words of the parallel text, then all others with a pretrained embedding
    target_size: int = Field(0, ge=0)  # words that the decoder can generate, the first ids; 0: all
    vectors: str = ""  # run or file of the pretrained embeddings, which a family with this setting needs
    width: int = Field(300, ge=1)  # of the source and target embeddings
    inner_width: int = Field(300, ge=1)  # of the encoder in each direction
    num_layers: int = Field(2, ge=1)  # of the encoder and of the decoder
    dropout: float = Field(0.2, ge=0, lt=1)  # on the input and output of every layer

    @model_validator(mode="after")
    def _check_target_size(self) -> Self:
        if self.target_size > self.vocab_size:
            raise ValueError(
                f"target_size = {self.target_size} exceeds vocab_size = {self.vocab_size}; change one of them"
            )
        return self


class Cove(Seq2SeqEncoder):
    """CoVe encoder: a bidirectional LSTM over frozen word embeddings."""

    Config = CoveConfig
    context = "both"
    unlimited_length = True
    classifier = "biattentive"

    def __init__(self, config: CoveConfig) -> None:
        super().__init__(config)
        output_width = 2 * config.inner_width
        self.widths = (config.width, *[output_width] * (config.num_layers - 1), config.width + output_width)
        self.tokens = nn.Embedding(config.vocab_size, config.width)
        self.tokens.weight.requires_grad_(False)
        inputs = [config.width, *[output_width] * (config.num_layers - 1)]
        self.lstms = nn.ModuleList(nn.LSTM(width, config.inner_width, bidirectional=True) for width in inputs)
        self.drop = Dropout(config.dropout)
        initialize(self.lstms)

    def forward(self, batch: Batch, state: State | None = None) -> Encoded:
        if batch.packed_lengths is not None:
            return encode_padded(self, batch)
        words = self.tokens(batch.ids)  # (B, T, D)
        # Packed, so that the backward direction starts at the last word of each sequence.
        packed = pack_padded_sequence(words, batch.mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        layers = [words]
        for lstm in self.lstms:
            packed, _ = lstm(packed._replace(data=self.drop(packed.data)))
            layers.append(pad_packed_sequence(packed, batch_first=True, total_length=batch.ids.shape[1])[0])
        layers[-1] = torch.cat([words, self.drop(layers[-1])], -1)
        return Encoded(layers=tuple(layers), mask=batch.mask)

    def layer_groups(self) -> list[nn.Module]:
        return [self.tokens, *self.lstms]

    def new_decoder(self) -> Decoder:
        return AttentionDecoder(self.config)


def initialize(module: nn.Module) -> None:
    """Initialize all weights uniformly between -0.1 and 0.1, as in the authors' code."""
    for weight in module.parameters():
        nn.init.uniform_(weight, -0.1, 0.1)


@dataclass(eq=False)
class AttentionState(DecoderState):
    """Encoded source, LSTM states and the last attentional vector."""

    source: Tensor  # (B, S, D), the top of the encoder
    mask: Tensor
    layers: list[tuple[Tensor, Tensor]]  # (h, c) of each, (B, D)
    attended: Tensor  # h~ of the paper, (B, D)

    def select(self, rows: Tensor) -> None:
        self.source, self.mask, self.attended = self.source[rows], self.mask[rows], self.attended[rows]
        self.layers = [(hidden[rows], cell[rows]) for hidden, cell in self.layers]


class AttentionDecoder(Decoder):
    """LSTM decoder with attention, initialized with the last encoder states."""

    def __init__(self, config: CoveConfig) -> None:
        super().__init__()
        self.vocab_size = config.target_size or config.vocab_size
        self.embedding_width, output_width = config.width, 2 * config.inner_width
        self.tokens = nn.Embedding(self.vocab_size, config.width)
        widths = [config.width + output_width, *[output_width] * config.num_layers]
        self.cells = nn.ModuleList(nn.LSTMCell(*pair) for pair in pairwise(widths))
        self.query = Linear(output_width, output_width)  # W_1, b_1
        self.attend = Linear(2 * output_width, output_width)  # W_2, b_2
        self.score = Linear(output_width, self.vocab_size)  # W_out, b_out
        self.drop = Dropout(config.dropout)
        initialize(self)

    def new_state(self, encoded: Encoded, max_length: int = 0) -> AttentionState:
        tops = [*encoded.layers[1:-1], encoded.layers[-1][..., self.embedding_width :]]
        rows, last = torch.arange(len(encoded.mask), device=encoded.mask.device), encoded.mask.sum(1) - 1
        half = tops[0].shape[-1] // 2
        ends = [torch.cat([top[rows, last, :half], top[:, 0, half:]], -1) for top in tops]
        zeros = torch.zeros_like(ends[-1])
        return AttentionState(tops[-1], encoded.mask, [(end, zeros) for end in ends], zeros)

    def forward(self, encoder: Encoder, ids: Tensor, state: DecoderState) -> DecoderOutput:
        assert isinstance(state, AttentionState)
        hidden, attention = [], []
        for token in self.drop(self.tokens(ids)).unbind(1):  # (B, D)
            attention.append(self._step(token, state))
            hidden.append(state.attended)
        return DecoderOutput(hidden=self.drop(torch.stack(hidden, 1)), attention=torch.stack(attention, 1))

    def _step(self, token: Tensor, state: AttentionState) -> Tensor:
        """Read one token: h_t = LSTM([z_t-1; h~_t-1], h_t-1), then attention (section 3); return its weights (B, S)."""
        x = torch.cat([token, state.attended], -1)
        for number, cell in enumerate(self.cells):
            state.layers[number] = cell(x, state.layers[number])
            x = self.drop(state.layers[number][0])
        scores = (state.source @ self.query(x)[..., None])[..., 0]  # (B, S)
        weights = F.softmax(scores.masked_fill(~state.mask, float("-inf")), -1)
        context = (weights[:, None] @ state.source)[:, 0]
        state.attended = torch.tanh(self.attend(torch.cat([context, x], -1)))
        return weights

    def output(self, encoder: Encoder) -> tuple[Tensor, Tensor | None]:
        return self.score.weight, self.score.bias
