"""The losses of twenty steps of each preset that a test can afford.

A change here means that training changed: make sure that it was meant, then run this file as a program to write the
new figures.
"""

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from polyseme.models import FAMILIES
from polyseme.objectives import Source
from polyseme.text.store import Store
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.units import Units, UnitsConfig
from polyseme.train.learner import GradientLearner
from polyseme.train.pretraining import build_encoder
from polyseme.train.recipe import Recipe

GOLDEN = Path(__file__).with_name("losses.json")
OWN = ("ulmfit",)  # of families that no other library holds us to
PRESETS = [
    f"{name}-{size}" for name, family in FAMILIES.items() if family.foreign or name in OWN for size in ("tiny", "small")
]
PRESETS += ["elmo-tiny"]


def losses(preset: str, documents: list[str]) -> list[dict[str, float]]:
    """Twenty steps on one thread, so that the figures do not depend on the number of cores."""
    family, _, size = preset.rpartition("-")
    recipe = Recipe.preset(family, size, ["plan.steps=20", "plan.batch_tokens=512", "data.length=64"])
    tokenizer = Tokenizer.train(recipe.tokenizer, documents, vocab_size=600)
    recipe = dataclasses.replace(recipe, model=recipe.model.replace(vocab_size=tokenizer.vocab_size))
    store = Store.from_documents(documents, tokenizer, Units(UnitsConfig(segmenter="none")))
    encoder, objective = build_encoder(recipe, tokenizer, store)
    source = Source(store, recipe.data.length, 512 // recipe.data.length)
    return [dict(step.losses) for step in GradientLearner(encoder, objective, source, recipe.plan).steps()]


@pytest.mark.parametrize("preset", PRESETS)
def test_twenty_steps(preset, documents):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        found = losses(preset, documents)
    finally:
        torch.set_num_threads(threads)
    expected = json.loads(GOLDEN.read_text())[preset]
    assert len(found) == len(expected) == 20
    for step, (now, before) in enumerate(zip(found, expected, strict=True)):
        assert now == pytest.approx(before, rel=2e-3), f"step {step + 1}"


if __name__ == "__main__":
    import sys

    sys.path.insert(0, str(Path(__file__).parents[1]))
    from conftest import little_documents

    torch.set_num_threads(1)
    written = {preset: losses(preset, little_documents()) for preset in PRESETS}
    rows = {preset: [{k: round(v, 5) for k, v in row.items()} for row in values] for preset, values in written.items()}
    GOLDEN.write_text(json.dumps(rows, indent=1) + "\n")
