"""Intrinsic evaluation on held-out text: likelihood, minimal pairs, word similarity, analogies and word senses."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from polyseme.analysis.occurrences import Occurrence
from polyseme.analysis.senses import occurrence_vectors
from polyseme.analysis.vector_geometry import (
    balanced_accuracy,
    nearest_sense_accuracy,
    nearest_sense_outcomes,
    normalize,
)
from polyseme.arrays import Doubles, Strings
from polyseme.comparison.measure.items import EvaluationItems
from polyseme.comparison.measure.outcomes import compact_outcomes
from polyseme.comparison.rows import Row
from polyseme.evaluation.minimal_pairs import score_pairs
from polyseme.evaluation.perplexity import case_suffix, score_documents
from polyseme.evaluation.results import MetricResult
from polyseme.evaluation.word_senses import SenseSet, find_sets, is_word_in_context, read_words
from polyseme.evaluation.word_senses import score_pairs as score_word_in_context
from polyseme.evaluation.word_similarity import score_words
from polyseme.inference.capabilities import likelihood_scale
from polyseme.pretrained import Pretrained
from polyseme.tasks.metrics import jackknife_strata
from polyseme.training.storage.model_dir import CONFIG, WEIGHTS

_MAX_OCCURRENCES = 300  # of a word, in either split of a sense dataset


def measure_likelihood(model: Pretrained, items: EvaluationItems) -> Iterator[Row]:
    """Bits per character of the test text, in total and by language."""
    scale = likelihood_scale(model.objective)
    if scale is None:
        return
    scores = model.score([text for _, text in items.texts])
    languages = list(dict.fromkeys(language for language, _ in items.texts))
    for language in ["", *(languages if len(languages) > 1 else ())]:
        selected = [
            score for score, (other, _) in zip(scores, items.texts, strict=True) if not language or other == language
        ]
        bits, *_ = score_documents(language, selected, model.tokenizer)
        name = f"test text{f', {language}' if language else ''}{case_suffix(model.tokenizer)}"
        yield metric_row("likelihood", name, bits, better="lower", scale=scale)


def measure_minimal_pairs(model: Pretrained, items: EvaluationItems) -> Iterator[Row]:
    """How often the acceptable sentence of a pair is more likely."""
    if likelihood_scale(model.objective) is None:
        return
    for name, sets in items.minimal_pairs:
        results = score_pairs(name, sets, model.score, most=0)
        # The mean over all sets comes last, except for that over pairs without OOV words.
        overall = [result for result in results if result.metric == "accuracy" and not result.section]
        yield metric_row("minimal-pairs", name, replace(overall[-1], num_scored=overall[-1].num_items))


def measure_words(model: Pretrained, items: EvaluationItems) -> Iterator[Row]:
    """Correlation of word similarity with human judgements, and accuracy on analogies."""
    for words in items.words:
        result = score_words(model.space, [words])[-1]
        if result.metric == "spearman":
            yield metric_row("words", words.name, replace(result, standard_error=_spearman_error(result)))
        else:
            yield metric_row("analogies", words.name, result)


def _spearman_error(result: MetricResult) -> float | None:
    """The standard error of a rank correlation (Bonett and Wright, 2000), by Fisher's transformation."""
    value, number = result.value, result.num_scored
    if value is None or number <= 3:
        return None
    return (1 - value**2) * math.sqrt((1 + value**2 / 2) / (number - 3))


def measure_senses(model: Pretrained, items: EvaluationItems) -> Iterator[Row]:
    """Accuracy of nearest-neighbour word sense disambiguation; the layer is chosen on the training occurrences."""
    if items.pseudo_words:
        words = [(word.train, word.test) for word in items.pseudo_words]
        yield from _sense_row(model, "pseudo-words", words)
    for name, sets in _sense_sets(items.senses):
        if is_word_in_context(sets):
            results = list(score_word_in_context(model, name, sets[0], 2 * _MAX_OCCURRENCES, 0))
            layers = [result.value for result in results[1:-1]]
            layer = int(results[-1].section.split(",")[0].removeprefix("layer "))
            yield metric_row("senses", name, results[-1], layer=layer, layers=layers)
            continue
        words = [(train, test) for one in sets for _, train, test in read_words(one, _MAX_OCCURRENCES, seed=0)]
        yield from _sense_row(model, name, words)


def annotated_words(folders: Sequence[Path]) -> set[str]:
    """The words that sense datasets annotate with several senses."""
    every = [sets for _, sets in _sense_sets(folders) if not is_word_in_context(sets)]
    return {word.lower() for sets in every for one in sets for word, _, _ in read_words(one, 1, seed=0)}


def _sense_sets(folders: Sequence[Path]) -> Iterator[tuple[str, list[SenseSet]]]:
    """The sense datasets in folders and their subfolders, by name."""
    for folder in folders:
        for place in [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]:
            if sets := find_sets(place):
                yield place.name, sets


def _sense_row(
    model: Pretrained, name: str, words: Sequence[tuple[list[Occurrence], list[Occurrence]]]
) -> Iterator[Row]:
    """Balanced accuracy of the nearest training occurrence, as the mean over words."""
    train_accuracy, tested = [], []
    for train, test in words:
        layers = [normalize(layer) for layer in occurrence_vectors(model, [*train, *test]).layers]
        senses = np.array([occurrence.sense for occurrence in [*train, *test]], dtype=np.str_)
        cut = len(train)
        on_train = [nearest_sense_accuracy(layer[:cut], senses[:cut]) for layer in layers]
        on_test = [nearest_sense_outcomes(layer[cut:], senses[cut:], layer[:cut], senses[:cut]) for layer in layers]
        if any(result is None for result in [*on_train, *on_test]):
            continue
        train_accuracy.append([result.value for result in on_train if result])
        tested.append([outcomes for outcomes in on_test if outcomes])
    if not tested:
        return
    layer = int(np.argmax(np.mean(train_accuracy, axis=0)))
    accuracies = [[balanced_accuracy(*outcomes) for outcomes in of_layers] for of_layers in tested]
    by_layer = np.mean([[accuracy.value for accuracy in of_layers] for of_layers in accuracies], axis=0)
    num_items = sum(of_layers[layer].num_items for of_layers in accuracies)
    result = MetricResult(
        name=name,
        metric="balanced 1-NN accuracy",
        value=float(by_layer[layer]),
        standard_error=math.hypot(*(of_layers[layer].error or 0.0 for of_layers in accuracies)) / len(accuracies),
        num_scored=num_items,
        num_items=num_items,
        outcomes=jackknife_strata([*_sense_strata([of_layers[layer] for of_layers in tested])]),
    )
    yield metric_row("senses", name, result, layer=layer, layers=by_layer.tolist())


def _sense_strata(words: Sequence[tuple[Doubles, Strings]]) -> Iterator[tuple[float, list[float]]]:
    """The outcomes of each sense of each word, with its weight in the mean over words of means over senses."""
    for correct, senses in words:
        names = np.unique(senses)
        for sense in names:
            yield 1 / len(words) / len(names), correct[senses == sense].tolist()


def metric_row(
    suite: str, name: str, result: MetricResult, *, scale: str | None = None, better: str = "higher", **fields: Any
) -> Row:
    """A metric as a row; a metric that could not be computed has no value."""
    return {
        "row": "metric",
        "suite": suite,
        "name": name,
        "scale": scale,
        "value": result.value,
        "standard_error": result.standard_error,
        "count": result.num_scored,
        "items": result.num_items,
        "better": better,
        "outcomes": compact_outcomes(result.outcomes),
        **fields,
    }


def embedding_seconds(model: Pretrained, sentences: Sequence[str], *, threads: int) -> float | None:
    """Wall time to embed 1,000 sentences after a warm-up; of a model without vectors, to score them."""
    if not sentences:
        return None
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        process = model.embed if model.encoder.has_vectors else model.score
        process(sentences[:50])
        started = time.perf_counter()
        process(sentences)
        return (time.perf_counter() - started) * 1000 / len(sentences)
    finally:
        torch.set_num_threads(before)


def disk_bytes(folder: Path) -> int:
    """The size of a model on disk, without checkpoints and logs."""
    if folder.is_file():
        return folder.stat().st_size
    names = (CONFIG, WEIGHTS, "tokenizer.json", "tokenizer_config.json")
    size = sum((folder / name).stat().st_size for name in names if (folder / name).exists())
    return size or sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
