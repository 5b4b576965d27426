"""How often each word stands in a text, counted on arrays: several times faster than by way of all stages.

What lies between two cuts is counted as it is written, and only the different ones go through the tokenizers library,
which makes words of them.
"""

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import tokenizers
from tokenizers import pre_tokenizers

from polyseme.text.stretches import LONGEST, Cutter, keys_of, mix
from polyseme.text.utf16 import Text
from polyseme.text.vocabulary import IDEOGRAPHS, cut, guarded, mend

_BATCH = 250_000  # characters counted together
_NUM_WORKERS = 2
_MOST = 4_000_000  # different stretches that are held; of more, those met once are forgotten
_PLAIN = re.compile("[A-Za-z0-9]+").fullmatch


def count_words(texts: Iterable[str], backend: tokenizers.Tokenizer) -> Counter[str]:
    """The words of texts, as the first stages of a tokenizer of words or characters make them."""
    normalizer, splitter = backend.normalizer, backend.pre_tokenizer
    cutter = Cutter.of_words([], IDEOGRAPHS if normalizer.handle_chinese_chars else "")
    stretches: Counter[str] = Counter()
    for found in _counted(texts, cutter):
        stretches.update(found)
        if len(stretches) > _MOST:
            stretches = Counter({stretch: count for stretch, count in stretches.items() if count > 1})
    words: Counter[str] = Counter()
    whole = isinstance(splitter, pre_tokenizers.BertPreTokenizer)
    for stretch, count in stretches.items():
        if whole and _PLAIN(stretch):
            words[stretch.lower() if normalizer.lowercase else stretch] += count
        else:
            for word, _ in guarded(splitter.pre_tokenize_str, guarded(normalizer.normalize_str, stretch)):
                words[word] += count
    return words


def _counted(texts: Iterable[str], cutter: Cutter) -> Iterator[Counter[str]]:
    """Count batches in parallel, never holding more than a few."""
    waiting: deque[Future[Counter[str]]] = deque()
    with ThreadPoolExecutor(_NUM_WORKERS) as pool:
        for batch in _batches(texts):
            if len(waiting) > _NUM_WORKERS:
                yield waiting.popleft().result()
            waiting.append(pool.submit(_count, batch, cutter))
        while waiting:
            yield waiting.popleft().result()


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    length = 0
    for text in texts:
        for piece in cut(text, _BATCH):
            batch.append(mend(piece))
            length += len(piece)
            if length >= _BATCH:
                yield batch
                batch, length = [], 0
    yield batch


def _count(batch: list[str], cutter: Cutter) -> Counter[str]:
    text = Text.of(batch)
    if not len(text.units):
        return Counter()
    starts, ends = cutter.cut(text)
    long = ends - starts > LONGEST
    found = Counter(text.pieces(starts[long], ends[long]))
    starts, ends = starts[~long], ends[~long]
    _, firsts, counts = np.unique(mix(keys_of(text, starts, ends - starts)), return_index=True, return_counts=True)
    return found + Counter(dict(zip(text.pieces(starts[firsts], ends[firsts]), counts.tolist(), strict=True)))
