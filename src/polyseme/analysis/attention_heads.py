"""Statistics and labels of attention heads (Vig, 2019; Clark et al., 2019).

All statistics are means over the query tokens. Queries that see only themselves, as the first token of a causal model,
are excluded. In a causal model later queries see more keys, so compare the weight on the first token with its value
under uniform attention, the mean of 1/t, and use evenness, the entropy of a query relative to its maximum, ln t.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import entr

from polyseme.arrays import AnyFloats, Floats

ATTENTION_SINK = "first token (attention sink)"
LABEL_THRESHOLD = 0.5  # the weight from which a pattern names the head, as in Clark et al. for the previous token
BROAD_THRESHOLD = 0.8  # the evenness from which a head without a dominant pattern is broad

LABELS = {name: f"{name} token" for name in ("previous", "next", "same")}
LABELS |= {"first": ATTENTION_SINK, "separators": "separators"}


@dataclass(frozen=True, kw_only=True)
class HeadStatistics:
    """Statistics of a head; those of neighbouring tokens are None for cross-attention."""

    layer: int  # from 1; 0 is the embedding
    head: int  # from 1
    label: str
    first: float  # weight on the first token
    first_if_uniform: float  # the same under uniform attention
    separators: float  # weight on [CLS], [SEP] and their equivalents, without the first token
    previous: float | None  # weight on the token before, and so on
    next: float | None
    same: float | None
    distance: float | None  # mean distance in tokens between query and key
    entropy: float  # nats
    evenness: float  # entropy relative to its maximum: 1 is uniform, 0 a single token


def head_statistics(weights: Floats, is_special: Sequence[bool], *, causal: bool, cross: bool) -> list[HeadStatistics]:
    """The statistics of every head of attention weights (layers, heads, T, S); `is_special` is that of the S keys."""
    num_queries, num_keys = weights.shape[2:]
    num_visible = np.arange(1, num_queries + 1) if causal else np.full(num_queries, num_keys)
    has_choice = num_visible > 1 if (num_visible > 1).any() else np.ones(num_queries, dtype=bool)
    rows = np.flatnonzero(has_choice)
    max_entropy = np.log(num_visible[rows])
    distances = np.abs(rows[:, None] - np.arange(num_keys))
    separators = np.flatnonzero(np.array(is_special) & (np.arange(num_keys) > 0))

    heads = []
    for layer, of_layer in enumerate(weights, start=1):
        for head, all_rows in enumerate(of_layer, start=1):
            of_head = all_rows[rows].astype(np.float64)  # (rows, S)
            entropies = entr(of_head).sum(1)
            patterns: dict[str, float | None] = {
                "previous": None if cross else _mean(np.diagonal(all_rows, -1)),
                "next": None if cross else _mean(np.diagonal(all_rows, 1)),
                "same": None if cross else _mean(np.diagonal(all_rows)[rows]),
                "first": _mean(of_head[:, 0]),
                "separators": _mean(of_head[:, separators].sum(1)),
            }
            evenness = _mean(entropies / np.where(max_entropy > 0, max_entropy, 1.0))
            heads.append(
                HeadStatistics(
                    layer=layer,
                    head=head,
                    label=_label(patterns, evenness) if max_entropy.any() else "",
                    first_if_uniform=_mean(1 / num_visible[rows]),
                    distance=None if cross else _mean((of_head * distances).sum(1)),
                    entropy=_mean(entropies),
                    evenness=evenness,
                    **patterns,  # type: ignore[arg-type]
                )
            )
    return heads


def _label(patterns: dict[str, float | None], evenness: float) -> str:
    name, weight = max(((name, weight or 0.0) for name, weight in patterns.items()), key=lambda pair: pair[1])
    if weight >= LABEL_THRESHOLD:
        return LABELS[name]
    return "broad" if evenness >= BROAD_THRESHOLD else "mixed"


def _mean(values: AnyFloats) -> float:
    return float(values.mean()) if values.size else 0.0
