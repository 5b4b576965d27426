"""Qualitative results: nearest neighbours, generated text, masked-token predictions and sense maps."""

from collections.abc import Iterator

from polyseme.analysis.senses import occurrence_vectors
from polyseme.analysis.vector_geometry import normalize, pca_2d
from polyseme.comparison.measure.ambiguous_words import AmbiguousWord
from polyseme.comparison.measure.items import EvaluationItems
from polyseme.comparison.rows import Row
from polyseme.errors import DataError
from polyseme.pretrained import Pretrained

_NUM_NEIGHBOURS = 8
_MAX_TOKENS = 24  # of a generated text


def neighbour_rows(model: Pretrained, items: EvaluationItems) -> Iterator[Row]:
    """The nearest neighbours of frequent words."""
    for word in items.frequent_words:
        try:
            neighbours = model.neighbours(word, top=_NUM_NEIGHBOURS)
        except DataError:
            continue  # OOV, or more than one token
        pairs = [[_to_text(model, one.word), round(one.score, 4)] for one in neighbours if one.score]
        if pairs:
            yield {"row": "neighbours", "word": word, "neighbours": pairs}


def example_rows(model: Pretrained, items: EvaluationItems, *, seed: int) -> Iterator[Row]:
    """Continuations of prompts, or predictions of masked words."""
    if "fill" in model.capabilities:
        for sentence in items.masked_sentences:
            (predictions,) = model.fill(sentence, top=5)
            pairs = [[_to_text(model, one.token), round(one.probability, 4)] for one in predictions]
            yield {"row": "example", "kind": "fill", "prompt": sentence, "predictions": pairs}
    elif "generate" in model.capabilities:
        for prompt in items.prompts:
            text = model.generate(prompt, max_tokens=_MAX_TOKENS, seed=seed, temperature=0.8, top_p=0.9)
            yield {"row": "example", "kind": "generate", "prompt": prompt, "texts": [text]}


def _to_text(model: Pretrained, token: str) -> str:
    """A token without the tokenizer's space markers; a continuation piece keeps its prefix."""
    tokenizer = model.tokenizer
    id = None if tokenizer is None or token.startswith("##") else tokenizer.id(token)
    text = tokenizer.decode([id]).strip() if tokenizer and id is not None else token
    return text if text and "\ufffd" not in text else token


def sense_map_row(model: Pretrained, word: AmbiguousWord, layer: int) -> Row:
    """The occurrences of a word, projected to a plane by PCA."""
    points, _ = pca_2d(normalize(occurrence_vectors(model, word.occurrences).layers[layer]))
    return {
        "row": "sense_map",
        "word": word.word,
        "layer": layer,
        "points": [
            [round(float(x), 4), round(float(y), 4), one.text, one.start, one.end, cluster]
            for (x, y), one, cluster in zip(points, word.occurrences, word.clusters, strict=True)
        ],
    }
