"""Interfaces of encoder–decoder models."""

from dataclasses import dataclass

from torch import Tensor, nn

from polyseme.batch import Encoded, State
from polyseme.models.base import Encoder


class DecoderState(State):
    """The encoded source and what the decoder has read of the target."""

    def select(self, rows: Tensor) -> None:
        """Keep these rows, with repetition, as beam search reorders its hypotheses."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class DecoderOutput:
    """Top of the decoder at each target token."""

    hidden: Tensor  # (B, T, D), input of the output layer
    attention: Tensor  # (B, T, S), weights over the source tokens


class Decoder(nn.Module):
    """Decoder of a sequence-to-sequence model."""

    vocab_size: int  # of the target: ids below it can be generated

    def new_state(self, encoded: Encoded, max_length: int = 0) -> DecoderState:
        """Start decoding. With `max_length` the target is read token by token up to that length, otherwise at once."""
        raise NotImplementedError

    def forward(self, encoder: Encoder, ids: Tensor, state: DecoderState) -> DecoderOutput:
        """Read target tokens (B, T)."""
        raise NotImplementedError

    def output(self, encoder: Encoder) -> tuple[Tensor, Tensor | None]:
        """Weight and bias of the output layer."""
        raise NotImplementedError


class Seq2SeqEncoder(Encoder):
    """Encoder of a sequence-to-sequence model."""

    def new_decoder(self) -> Decoder:
        """Create a decoder of the same sizes."""
        raise NotImplementedError
