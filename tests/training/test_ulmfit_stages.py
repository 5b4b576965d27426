"""The stages of ULMFiT: a language model trained with NT-ASGD, and its adaptation to other text."""

import pytest
import torch

import polyseme as ps
from polyseme.api import open_base_model
from polyseme.system.safetensors_io import read_tensors
from polyseme.training.recipes.recipe import Recipe
from polyseme.training.storage.history import read_history
from polyseme.training.storage.run_dir import CHECKPOINTS

TINY = [
    "model.vocab_size=300",
    "model.width=16",
    "model.inner_width=24",
    "model.max_length=48",
    "data.sequence_length=16",
]
TINY += ["training.batch_tokens=128", "training.threads=1"]
NT_ASGD = ["training.evaluate_every=1", "training.averaging_patience=1", "training.evaluate_batches=1"]


@pytest.fixture(scope="module")
def base(corpus_file, tmp_path_factory):
    """A model whose dev loss rose during training."""
    place = tmp_path_factory.mktemp("stages")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYSEME_CACHE", str(place / "cache"))
        ps.pretrain(
            "ulmfit",
            corpus=corpus_file,
            dev=corpus_file,
            out=place / "base",
            size="tiny",
            recipe="paper",
            budget="12steps",
            settings=[*TINY, *NT_ASGD, "training.learning_rate=200"],
        )
    return place / "base"


def test_final_weights_are_those_validated(base):
    losses = [row["dev"]["causal_lm"] for row in read_history(base)]
    assert any(later > earlier for earlier, later in zip(losses, losses[2:], strict=False)), "or nothing is tested"
    means = read_tensors(base / CHECKPOINTS / "0000012" / "averages.safetensors")
    weights = read_tensors(base / "model.safetensors")
    raw = read_tensors(base / CHECKPOINTS / "0000012" / "weights.safetensors")
    assert weights.keys() == raw.keys()
    for name, weight in weights.items():
        assert torch.equal(weight, means[f"mean.{name}"]), name
    assert not torch.equal(weights["tokens.weight"], raw["tokens.weight"])


def test_adaptation_uses_the_settings_of_the_paper(base, corpus_file):
    config = open_base_model(base).adaptation_recipe(data={"corpus": [str(corpus_file)]}, training={}).training
    assert (config.optimizer, config.lr_schedule, config.layer_lr_divisor) == ("adamw", "slanted", 2.6)
    assert (config.warmup_fraction, config.beta1, config.learning_rate) == (0.1, 0.7, 4e-3)
    assert Recipe.preset("ulmfit", "tiny").training.layer_lr_divisor == 1


def test_a_model_is_adapted_to_other_text(corpus_file, tmp_path):
    base = tmp_path / "base"
    ps.pretrain("ulmfit", corpus=corpus_file, out=base, size="tiny", budget="20steps", settings=TINY)
    lines = [f"Patient {n}: the acute {'nephritis' if n % 3 else 'hepatitis'} was seen." for n in range(400)]
    (tmp_path / "clinic.txt").write_text("\n\n".join(lines))
    text = "Patient 7: the acute nephritis was seen."
    before = ps.load(base).score([text])[0].perplexity
    model = ps.adapt(base, corpus=tmp_path / "clinic.txt", out=tmp_path / "out", budget="80steps")
    assert model.score([text])[0].perplexity < before / 2
    assert model.encoder.config == ps.load(base).encoder.config
