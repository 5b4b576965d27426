"""What heads of attention do, in numbers and in a word (Vig, 2019; Clark et al., 2019).

All numbers are means over the tokens that look. A token that sees nothing but itself, as the first does in a model that
reads left to right, has no choice and does not count. There the tokens behind it see ever more, so the share of the
first token is to be held against what it would be if all looked evenly, the mean of 1/t, and the entropy of a row
against its largest, ln t.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

PARKED = "first token (parked)"
MOST = 0.5  # the share of its weight by which a head is called, as Clark et al. count heads of the previous token
EVEN = 0.8  # the evenness from which a head without such a share is called broad

LABELS = {
    "previous": "previous token",
    "next": "next token",
    "same": "same token",
    "first": PARKED,
    "separators": "separators",
}


@dataclass(frozen=True, kw_only=True)
class Head:
    """Where a head looks; a translation has no neighbours in its source, and so no numbers for them."""

    layer: int  # from 1 on; 0 is the embedding
    head: int  # from 1 on
    label: str
    first: float  # share on the first token
    first_if_even: float  # what that would be if all tokens looked evenly at what they see
    separators: float  # share on [CLS], [SEP] and their like, but for the first token
    previous: float | None  # share on the token before, and so on
    next: float | None
    same: float | None
    distance: float | None  # tokens between the one that looks and what it sees
    entropy: float  # nats
    evenness: float  # entropy as a share of its largest: 1 is even, 0 a single token


def measure(maps: NDArray[np.float32], marks: Sequence[bool], *, causal: bool, crossing: bool) -> list[Head]:
    """The numbers of every head, of maps (layers, heads, T, S); `marks` says which of the S tokens are separators."""
    num_rows, num_columns = maps.shape[2:]
    seen = np.arange(1, num_rows + 1) if causal else np.full(num_rows, num_columns)
    choosing = seen > 1 if (seen > 1).any() else np.ones(num_rows, dtype=bool)
    rows = np.flatnonzero(choosing)
    largest = np.log(seen[rows])
    between = np.abs(rows[:, None] - np.arange(num_columns))
    others = np.flatnonzero(np.array(marks) & (np.arange(num_columns) > 0))

    heads = []
    for layer, of_layer in enumerate(maps, start=1):
        for number, whole in enumerate(of_layer, start=1):
            weights = whole[rows].astype(np.float64)  # (rows, S)
            entropies = entr(weights).sum(1)
            shares: dict[str, float | None] = {
                "previous": None if crossing else _mean(np.diagonal(whole, -1)),
                "next": None if crossing else _mean(np.diagonal(whole, 1)),
                "same": None if crossing else _mean(np.diagonal(whole)[rows]),
                "first": _mean(weights[:, 0]),
                "separators": _mean(weights[:, others].sum(1)),
            }
            evenness = _mean(entropies / np.where(largest > 0, largest, 1.0))
            label = _label(shares, evenness) if largest.any() else ""
            heads.append(
                Head(
                    layer=layer,
                    head=number,
                    label=label,
                    first_if_even=_mean(1 / seen[rows]),
                    distance=None if crossing else _mean((weights * between).sum(1)),
                    entropy=_mean(entropies),
                    evenness=evenness,
                    **shares,  # type: ignore[arg-type]
                )
            )
    return heads


def _label(shares: dict[str, float | None], evenness: float) -> str:
    name, share = max(((name, share or 0.0) for name, share in shares.items()), key=lambda pair: pair[1])
    if share >= MOST:
        return LABELS[name]
    return "broad" if evenness >= EVEN else "mixed"


def _mean(values: NDArray[np.floating]) -> float:
    return float(values.mean()) if values.size else 0.0
