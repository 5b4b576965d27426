"""The arguments of compare, and the runs that follow from them."""

import pytest

from polyseme.comparison.compare import open_comparison
from polyseme.comparison.config import ComparisonConfig, TrainingRun
from polyseme.comparison.metadata import _build_command
from polyseme.comparison.runner import DEFAULT_FAMILIES, Comparison


@pytest.mark.parametrize(
    ("models", "families", "expected"),
    [
        ((), "bert, gpt2", ["bert", "gpt2", "ngram"]),
        ((), ["ngram", "bert"], ["ngram", "bert"]),
        ((), "", [*DEFAULT_FAMILIES]),
        (("runs/bert",), "", []),
        ((), "bert,bert", ["bert", "bert", "ngram"]),  # which is reported as an error
    ],
)
def test_the_n_gram_baseline_is_trained_in_every_comparison(models, families, expected, monkeypatch):
    monkeypatch.setattr(Comparison, "open", lambda values, out: values)
    values = open_comparison(*models, corpus="text", out="out", families=families, tasks="", labels="8", trainings=3)
    assert values["families"] == expected and values["trainings"] == 3


def test_models_that_are_only_counted_are_trained_once():
    settings = ComparisonConfig(corpus=("text",), families=("bert", "ngram"), trainings=3)
    assert settings.runs == (TrainingRun("bert"), TrainingRun("ngram"), TrainingRun("bert", 1), TrainingRun("bert", 2))


def test_the_printed_command_repeats_the_trainings(tmp_path):
    settings = ComparisonConfig(corpus=("text",), families=("bert",), trainings=3)
    assert "--trainings 3" in _build_command(settings, tmp_path)
