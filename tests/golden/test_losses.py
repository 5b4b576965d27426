"""Golden losses: twenty training steps of each preset that is small enough for a test.

A difference means that training changed. If that is intended, run this file as a script to record the new losses.
"""

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from polyseme.datasets.token_store import TokenStore
from polyseme.families import FAMILIES
from polyseme.objectives.sources import TokenSource
from polyseme.tokenization.masking_units import MaskingUnits, MaskingUnitsConfig
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.model_building import build_encoder
from polyseme.training.optimization.gradient_learner import GradientLearner
from polyseme.training.recipes.recipe import Recipe

GOLDEN = Path(__file__).with_name("losses.json")
NAMES = [name for name, family in FAMILIES.items() if family.hf_mapping or name == "ulmfit"]
PRESETS = [f"{name}-{size}" for name in NAMES for size in ("tiny", "small")]
PRESETS += ["elmo-tiny"]


def losses(preset: str, documents: list[str]) -> list[dict[str, float]]:
    """Losses of twenty steps on one thread, so that they do not depend on the number of cores."""
    family, _, size = preset.rpartition("-")
    recipe = Recipe.preset(family, size, ["training.steps=20", "training.batch_tokens=512", "data.sequence_length=64"])
    tokenizer = Tokenizer.train(recipe.tokenizer, documents, vocab_size=600)
    recipe = dataclasses.replace(recipe, model=recipe.model.replace(vocab_size=tokenizer.vocab_size))
    store = TokenStore.from_documents(documents, tokenizer, MaskingUnits(MaskingUnitsConfig(segmenter="none")))
    encoder, objective = build_encoder(recipe, tokenizer, store)
    source = TokenSource(store, recipe.data.sequence_length, 512 // recipe.data.sequence_length)
    return [dict(step.losses) for step in GradientLearner(encoder, objective, source, recipe.training).steps()]


@pytest.mark.parametrize("preset", PRESETS)
def test_losses_of_twenty_steps(preset, documents):
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

    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.conftest import little_documents

    torch.set_num_threads(1)
    written = {preset: losses(preset, little_documents()) for preset in PRESETS}
    rows = {preset: [{k: round(v, 5) for k, v in row.items()} for row in values] for preset, values in written.items()}
    GOLDEN.write_text(json.dumps(rows, indent=1) + "\n")
