"""Overlapping windows for scoring texts that are longer than a model.

Windows advance by half their length, so that each token is scored once, with at least half a window of context.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from polyseme.arrays import Ids

Direction = Literal["forward", "backward"]


@dataclass(frozen=True, kw_only=True)
class ScoringRequest:
    """The tokens of a text with the special tokens around them, and the positions to score in each direction."""

    ids: list[int]
    targets: Mapping[Direction, Sequence[int]]  # positions to score
    oov_words: list[str]
    offsets: Sequence[tuple[int, int]] = ()  # characters of each token; empty for special tokens


@dataclass(frozen=True, kw_only=True)
class ScoringTargets:
    """The tokens that a window scores in one direction."""

    sources: Ids  # positions in the window whose hidden states predict the targets
    ids: Ids  # of the targets
    positions: Ids  # of the targets in the text


@dataclass(frozen=True, kw_only=True)
class ScoringWindow:
    """Tokens of a text that are read at once."""

    text: int
    ids: list[int]
    targets: Mapping[Direction, ScoringTargets]


def scoring_windows(text: int, request: ScoringRequest, max_length: int, prefix: list[int]) -> Iterator[ScoringWindow]:
    """Cut a text into windows of at most `max_length` tokens; all but the first start with `prefix`."""
    if len(request.targets) > 1:
        return _bidirectional_windows(text, request, max_length)
    return _causal_windows(text, request, max_length, prefix)


def _causal_windows(text: int, request: ScoringRequest, max_length: int, prefix: list[int]) -> Iterator[ScoringWindow]:
    ((direction, positions),) = request.targets.items()
    length, backward = len(request.ids), direction == "backward"
    ids, targets = np.array(request.ids, dtype=np.int64), np.array(positions, dtype=np.int64)
    if backward:  # in reading order
        ids, targets = ids[::-1], length - 1 - targets[::-1]
    targets = targets[targets > 0]  # nothing precedes the first token
    start = targets[0] if len(targets) else length
    while start < length:
        first = max(0, min(start - max_length // 2, length - max_length - 1 + len(prefix)))
        before = prefix if first else []
        end = min(length, first + max_length + 1 - len(before))
        here = targets[(targets >= start) & (targets < end)]
        window = np.concatenate([np.array(before, np.int64), ids[first : end - 1]])
        sources = len(before) + here - 1 - first
        if backward:
            window, sources = window[::-1], len(window) - 1 - sources
        of_text = length - 1 - here if backward else here
        scored = ScoringTargets(sources=sources, ids=ids[here], positions=of_text)
        yield ScoringWindow(text=text, ids=window.tolist(), targets={direction: scored})
        start = end


def _bidirectional_windows(text: int, request: ScoringRequest, max_length: int) -> Iterator[ScoringWindow]:
    """Each window serves both directions: targets far enough from its start, and from its end."""
    ids, last = np.array(request.ids, dtype=np.int64), max(0, len(request.ids) - max_length)
    forward, backward = (np.array(request.targets[way], dtype=np.int64) for way in ("forward", "backward"))
    forward, backward = forward[forward > 0], backward[backward < len(ids) - 1]
    firsts = [*range(0, last, max_length // 2), last, len(ids)]
    done = 0
    for first, following in itertools.pairwise(firsts if len(ids) else ()):
        end = first + max_length
        ahead = forward[(forward >= done) & (forward < end)]
        behind = backward[(backward >= first) & (backward < following)]
        targets: dict[Direction, ScoringTargets] = {
            "forward": ScoringTargets(sources=ahead - 1 - first, ids=ids[ahead], positions=ahead),
            "backward": ScoringTargets(sources=behind + 1 - first, ids=ids[behind], positions=behind),
        }
        yield ScoringWindow(text=text, ids=ids[first:end].tolist(), targets=targets)
        done = end
