"""Chinese word segmentation: a space before and after every word of a run of ideographs."""

import functools
import logging
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib.util import find_spec
from itertools import accumulate, pairwise

import numpy as np

from polyseme.arrays import Integers
from polyseme.corpora.scripts import IDEOGRAPHS
from polyseme.corpora.utf16_text import Utf16Text
from polyseme.errors import ConfigError
from polyseme.system.cache import cache_folder

logger = logging.getLogger(__name__)

_IDEOGRAPH_RUN = re.compile(f"[{IDEOGRAPHS}]+")


class WordSegmentation:
    """Inserts spaces between the words that a segmenter finds; `none` inserts none."""

    def __init__(self, segmenter: str) -> None:
        self.segmenter = segmenter

    @functools.cached_property
    def _split_run(self) -> Callable[[str], Iterable[str]]:
        # Loaded at the first ideograph, because text without any does not need a segmenter installed.
        return load_segmenter(choose_segmenter(self.segmenter, group="tokenizer"))

    def segment_all(self, text: Utf16Text) -> Utf16Text:
        """Segment sentences."""
        if self.segmenter == "none":
            return text
        high = np.flatnonzero(text.units >= ord(IDEOGRAPHS[0]))
        if not len(high):
            return text
        sentences = np.unique(np.searchsorted(text.bounds, high, "right") - 1)
        # Every other substring is a sentence to segment; those between are runs of sentences without ideographs.
        ends = np.stack([text.bounds[sentences], text.bounds[sentences + 1]], axis=1).ravel()
        edges = np.concatenate([[0], ends, text.bounds[-1:]])
        substrings = text.substrings(edges[:-1], edges[1:])
        substrings[1::2] = map(self.segment, substrings[1::2])
        segmented = Utf16Text.of(substrings)
        num_inserted = np.zeros_like(text.bounds)
        num_inserted[sentences + 1] = np.diff(segmented.bounds - edges)[1::2]
        return replace(segmented, bounds=text.bounds + np.cumsum(num_inserted))

    def segment(self, text: str) -> str:
        """Segment a text."""
        return self.insert_spaces(text)[0]

    def insert_spaces(self, text: str) -> tuple[str, Integers]:
        """Segment a text; return it with the offsets of the inserted spaces."""
        if self.segmenter == "none" or text.isascii():
            return text, np.zeros(0, np.int64)
        cuts: list[int] = []  # offsets in the text
        for run in _IDEOGRAPH_RUN.finditer(text):
            # A run beside an underscore is one word of a phrase and stays with the others: 人工_智能.
            joined_before, joined_after = text.endswith("_", 0, run.start()), text.startswith("_", run.end())
            words = [run[0]] if joined_before or joined_after else self._split_run(run[0])
            bounds = [*accumulate(map(len, words), initial=run.start())]
            cuts += bounds[joined_before : len(bounds) - joined_after]
        parts = [text[start:end] for start, end in pairwise([0, *cuts, len(text)])]
        return " ".join(parts), np.array(cuts, np.int64) + np.arange(len(cuts))


def choose_segmenter(name: str, *, group: str = "data") -> str:
    """The segmenter that a setting selects on this machine."""
    candidates = ("rjieba", "jieba") if name == "auto" else (name,)
    chosen = next((module for module in candidates if module == "none" or find_spec(module)), None)
    if chosen is None and name != "auto":
        raise ConfigError(
            f"{group}.segmenter: {name} is not installed; pip install 'polyseme[chinese]' or set it to auto"
        )
    return chosen or "none"


@functools.cache
def load_segmenter(name: str) -> Callable[[str], Iterable[str]]:
    """A function that splits a run of ideographs into words; warn if none is installed."""
    if name == "rjieba":
        import rjieba

        return rjieba.cut
    if name == "jieba":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import jieba
        jieba.setLogLevel(logging.WARNING)
        segmenter = jieba.Tokenizer()
        segmenter.tmp_dir = str(cache_folder())  # where other users cannot plant a dictionary
        return segmenter.cut  # type: ignore[no-any-return]
    logger.warning("no segmenter is installed, so each ideograph is a word; pip install 'polyseme[chinese]'")
    return list
