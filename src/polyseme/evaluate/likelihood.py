"""How many bits a model needs for a character of a text, document by document.

The measures have another name on each scale, so that none is taken for another: masked models have a
*pseudo*-likelihood, and where a tokenizer drops capitals the text that is scored has none.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from polyseme.evaluate.figures import Figure, exponential_figure
from polyseme.scoring import Score
from polyseme.text.corpus import Corpus
from polyseme.text.tokenizer import Tokenizer

_AT_ONCE = 1_000_000  # characters whose tokens are held together


def read_documents(data: Path, *, most: int, seed: int) -> Iterator[list[str]]:
    """The documents of a file, a folder or a pattern, or so many of them drawn by the seed; some at a time."""
    corpus = Corpus(data)
    chosen = None
    if most:
        count = sum(1 for _ in corpus)
        chosen = {*random.Random(f"likelihood {seed}").sample(range(count), min(most, count))}
    batch: list[str] = []
    length = 0
    for number, document in enumerate(corpus):
        if chosen is not None and number not in chosen:
            continue
        batch.append(document)
        length += len(document)
        if length >= _AT_ONCE:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch


def case_of(tokenizer: Tokenizer | None) -> str:
    """What is to be said of figures where capitals are not told apart, which makes text likelier."""
    return "" if tokenizer is None or tokenizer.normalize("A") == "A" else ", uncased"


def score_documents(name: str, scores: Sequence[Score], tokenizer: Tokenizer | None) -> list[Figure]:
    """Bits a character, and perplexity a token and a word; of models that read both ways, of each way too."""
    pseudo, folded = "pseudo-" if scores[0].kind == "pseudo-likelihood" else "", case_of(tokenizer)
    bits = f"{pseudo}bits per character{folded}"
    characters, words = [score.num_characters for score in scores], [score.num_words for score in scores]
    tokens = [score.num_tokens for score in scores]
    figures = []
    for way in ("", *scores[0].directions):
        nats = [score.directions[way] if way else score.nats for score in scores]
        figures += [
            _ratio(name, [cost / math.log(2) for cost in nats], characters, measure=bits, section=way),
            exponential_figure(_ratio(name, nats, words, measure=f"{pseudo}perplexity per word{folded}", section=way)),
            exponential_figure(_ratio(name, nats, tokens, measure=f"{pseudo}perplexity per token", section=way)),
        ]
    if any(score.num_unknown for score in scores):
        spelt = [score.spelling / math.log(2) for score in scores]
        figures.append(_ratio(name, spelt, characters, measure=bits, section="spelling of unknown words"))
    return figures


def _ratio(name: str, costs: Sequence[float], counts: Sequence[int], *, measure: str, section: str) -> Figure:
    """What all documents cost over all they have, with the standard error of a ratio (Cochran, 1977, section 2.11)."""
    number, whole = len(costs), sum(counts)
    value = math.fsum(costs) / whole if whole else None
    error = None
    if value is not None and number > 1:
        rest = math.fsum((cost - value * count) ** 2 for cost, count in zip(costs, counts, strict=True))
        error = math.sqrt(rest * number / (number - 1)) / whole
    return Figure(
        name=name, section=section, measure=measure, value=value, error=error, num_found=number, num_items=number
    )
