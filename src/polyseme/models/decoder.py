"""What writes a translation of the rows that an encoder has read."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from polyseme.models.base import Encoder
from polyseme.tensors import Encoded, State


class Writing(State):
    """What a decoder sees: the rows that it translates, and what it has written of each."""

    def select(self, rows: Tensor) -> None:
        """Go on with these rows only, some of which may be taken more than once."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """What a decoder makes of the tokens that were written so far."""

    hidden: Tensor  # (B, T, D), of which the next token is a linear map
    attention: Tensor  # (B, T, S), how much each of them looked at each token of the source


class Decoder(nn.Module):
    """One for each family that translates."""

    vocab_size: int  # tokens that it may write, the first of all

    def begin(self, encoded: Encoded, max_length: int = 0) -> Writing:
        """An empty translation of each row, with room for so many tokens to come one by one; or all at once, for 0."""
        raise NotImplementedError

    def forward(self, encoder: Encoder, ids: Tensor, writing: Writing) -> Decoded:
        """Read on what was written, (B, T)."""
        raise NotImplementedError

    def output(self, encoder: Encoder) -> tuple[Tensor, Tensor | None]:
        """The matrix and the bias by which every token is scored."""
        raise NotImplementedError


class Translator(Encoder):
    """An encoder whose rows can be translated."""

    def decoder(self) -> Decoder:
        """A new decoder of the same sizes."""
        raise NotImplementedError
