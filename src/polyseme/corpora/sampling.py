"""Bounded random samples of a corpus or of test items."""

import heapq
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from polyseme.corpora.scripts import IDEOGRAPHS
from polyseme.corpora.utf16_text import replace_surrogates

Item = TypeVar("Item")

_CHUNK_LENGTH = 4_000  # characters sampled together
_IDEOGRAPH_RUN = re.compile(f"[{IDEOGRAPHS}]+")


def draw_sample(texts: Iterable[str], num_bytes: int, *, ideograph_bytes: int = 3) -> list[str]:
    """Draw chunks of texts uniformly, at most `num_bytes`, in order; take everything if the texts are short enough."""
    rng = random.Random(0)
    sample: list[tuple[float, int, int, str]] = []  # a heap with the largest random key first
    total = number = 0
    for text in texts:
        for chunk in split_long_text(text, _CHUNK_LENGTH):
            number += 1
            key = -rng.random()
            length = len(chunk)
            if not chunk.isascii():
                num_ideographs = sum(map(len, _IDEOGRAPH_RUN.findall(chunk))) if ideograph_bytes > 3 else 0
                length = len(replace_surrogates(chunk).encode()) + num_ideographs * (ideograph_bytes - 3)
            if total + length > num_bytes and sample and key < sample[0][0]:
                continue
            heapq.heappush(sample, (key, number, length, chunk))
            total += length
            while total > num_bytes and len(sample) > 1:
                total -= heapq.heappop(sample)[2]
    return [replace_surrogates(chunk) for _, _, _, chunk in sorted(sample, key=lambda entry: entry[1])]


def sample_in_order(items: Sequence[Item], most: int, seed: str) -> list[Item]:
    """Sample at most `most` items (0: all), in their order."""
    if not 0 < most < len(items):
        return list(items)
    return [items[index] for index in sorted(random.Random(seed).sample(range(len(items)), most))]


def split_long_text(text: str, longest: int) -> Iterator[str]:
    """Split a text before spaces into pieces of bounded length."""
    start = 0
    while len(text) - start > longest:
        end = text.rfind(" ", start + 1, start + longest)
        if end < 0:
            end = max(text.rfind("\n", start + 1, start + longest), text.rfind("。", start, start + longest - 1) + 1)
        end = end if end > start else start + longest
        yield text[start:end]
        start = end
    yield text[start:]
