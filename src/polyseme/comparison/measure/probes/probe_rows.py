"""Label efficiency of linear models: on the vectors of a model, on TF-IDF features, and on both."""

import statistics
import time
from collections.abc import Iterator, Sequence
from itertools import chain

from polyseme.comparison.measure.datasets import LabelledDataset, label_counts
from polyseme.comparison.measure.label_curves import sample_examples, task_row
from polyseme.comparison.measure.outcomes import prediction_outcomes
from polyseme.comparison.measure.probes.linear_probe import (
    ProbeScore,
    extract_features,
    fit_probe,
)
from polyseme.comparison.measure.probes.tfidf_probe import fit_tfidf, fit_with_tfidf
from polyseme.comparison.rows import Row
from polyseme.pretrained import Pretrained
from polyseme.tasks.tfidf import KINDS

Sample = tuple[int, ...]  # numbers of training examples


def linear_probe_rows(
    model: Pretrained, dataset: LabelledDataset, labels: Sequence[int], seeds: Sequence[int]
) -> Iterator[Row]:
    """The scores of linear models on vectors, and on vectors with TF-IDF features, for each number of labels."""
    if dataset.spec.probe is None:
        return
    samples = _samples(dataset, labels, seeds)
    features = extract_features(model, dataset, chain(*samples.values()))
    for number, by_seed in samples.items():
        started = time.perf_counter()
        probes = {sample: fit_probe(dataset, features, sample) for sample in dict.fromkeys(by_seed)}
        yield from _rows(dataset, "linear_probe", [probes[sample] for sample in by_seed], number, started)
        if dataset.kind in KINDS:
            started = time.perf_counter()
            both = {sample: fit_with_tfidf(dataset, features, sample, one.layers) for sample, one in probes.items()}
            scores = [both[sample] for sample in by_seed]
            yield from _rows(dataset, "linear_probe_with_tfidf", scores, number, started)


def tfidf_rows(dataset: LabelledDataset, labels: Sequence[int], seeds: Sequence[int]) -> Iterator[Row]:
    """The scores of the TF-IDF baseline for each number of labels."""
    if dataset.kind not in KINDS:
        return
    gold = dataset.splits["test"]
    num_texts = sum(len(example.texts) for example in gold)
    for number, by_seed in _samples(dataset, labels, seeds).items():
        started, inference, found = time.perf_counter(), 0.0, {}
        for sample in dict.fromkeys(by_seed):
            task, dev = fit_tfidf(dataset, sample)
            before = time.perf_counter()
            predictions = task.predict(gold)
            inference = time.perf_counter() - before
            value = task.score(predictions, gold)[dataset.metric]
            found[sample] = value, prediction_outcomes(dataset, predictions), dev
        values, outcomes, devs = zip(*(found[sample] for sample in by_seed), strict=True)
        fields = {"dev": statistics.fmean(devs), "inference_seconds": round(1000 * inference / num_texts, 4)}
        seconds = time.perf_counter() - started
        yield task_row(dataset, "linear_probe", number, [*values], outcomes, seconds, **fields)


def _samples(dataset: LabelledDataset, labels: Sequence[int], seeds: Sequence[int]) -> dict[int, list[Sample]]:
    """The training examples of each seed, by number of labels; with all examples, every seed has the same."""
    return {
        number: [tuple(sample_examples(dataset, number, seed)) for seed in seeds]
        for number in label_counts(dataset, labels)
    }


def _rows(
    dataset: LabelledDataset,
    method: str,
    scores: Sequence[ProbeScore],
    num_labels: int,
    started: float,
) -> Iterator[Row]:
    """The row of the scores of all seeds; none if a score is undefined."""
    values = [score.value for score in scores if score.value is not None]
    if len(values) == len(scores):
        layers = statistics.mode(score.layers for score in scores)
        layer = layers[0] if len(layers) == 1 else None
        fields = {"layer": layer, "dev": statistics.fmean(score.dev for score in scores)}
        outcomes = [score.outcomes for score in scores]
        seconds = time.perf_counter() - started
        yield task_row(dataset, method, num_labels, values, outcomes, seconds, **fields)
