"""Perplexity and bits per character of documents.

The metrics have another name on each scale, so that values on different scales are not compared: masked language
models have a *pseudo*-likelihood, and where a tokenizer lowercases, the scored text has no capitals.
"""

import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from polyseme.corpora.corpus import Corpus
from polyseme.evaluation.results import MetricResult, perplexity_result
from polyseme.inference.scores import Score
from polyseme.tasks.metrics import jackknife_ratio
from polyseme.tokenization.document_batches import group_documents
from polyseme.tokenization.tokenizer import Tokenizer

_BATCH_CHARACTERS = 1_000_000  # whose tokens are in memory at the same time


def read_documents(data: Path, *, most: int, seed: int) -> Iterator[list[str]]:
    """Read batches of documents of a file, folder or glob pattern; `most` of them, sampled by the seed, unless 0."""
    corpus = Corpus(data)
    chosen = None
    if most:
        count = sum(1 for _ in corpus)
        chosen = {*random.Random(f"likelihood {seed}").sample(range(count), min(most, count))}
    documents = (document for number, document in enumerate(corpus) if chosen is None or number in chosen)
    return group_documents(documents, _BATCH_CHARACTERS)


def case_suffix(tokenizer: Tokenizer | None) -> str:
    """Suffix of metric names where the tokenizer lowercases, which raises the likelihood."""
    return "" if tokenizer is None or tokenizer.normalize("A") == "A" else ", uncased"


def score_documents(name: str, scores: Sequence[Score], tokenizer: Tokenizer | None) -> list[MetricResult]:
    """Compute bits per character and perplexity per word and token; for bidirectional models also per direction."""
    pseudo, folded = "pseudo-" if scores[0].kind == "pseudo-likelihood" else "", case_suffix(tokenizer)
    bits = f"{pseudo}bits per character{folded}"
    characters, words = [score.num_characters for score in scores], [score.num_words for score in scores]
    tokens = [score.num_tokens for score in scores]
    results = []
    for direction in ("", *scores[0].directions):
        nats = [score.directions[direction] if direction else score.nats for score in scores]
        results += [
            _ratio(name, [cost / math.log(2) for cost in nats], characters, metric=bits, section=direction),
            perplexity_result(
                _ratio(name, nats, words, metric=f"{pseudo}perplexity per word{folded}", section=direction)
            ),
            perplexity_result(_ratio(name, nats, tokens, metric=f"{pseudo}perplexity per token", section=direction)),
        ]
    if any(score.num_oov for score in scores):
        spelling = [score.oov_nats / math.log(2) for score in scores]
        results.append(_ratio(name, spelling, characters, metric=bits, section="spelling of OOV words"))
    return results


def _ratio(name: str, costs: Sequence[float], counts: Sequence[int], *, metric: str, section: str) -> MetricResult:
    """Total cost over total count, with the standard error of a ratio (Cochran, 1977, section 2.11)."""
    num_documents, total = len(costs), sum(counts)
    value = math.fsum(costs) / total if total else None
    error = None
    if value is not None and num_documents > 1:
        squares = math.fsum((cost - value * count) ** 2 for cost, count in zip(costs, counts, strict=True))
        error = math.sqrt(squares * num_documents / (num_documents - 1)) / total
    return MetricResult(
        name=name,
        section=section,
        metric=metric,
        value=value,
        standard_error=error,
        num_scored=num_documents,
        num_items=num_documents,
        outcomes=jackknife_ratio(costs, counts),
    )
