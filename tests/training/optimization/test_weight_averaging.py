import copy

import pytest
import torch

from polyseme.datasets.token_store import TokenStore
from polyseme.families import build_objective
from polyseme.models.ulmfit import Ulmfit, UlmfitConfig
from polyseme.objectives.awd_lm import AwdLmConfig
from polyseme.objectives.sources import TokenSource
from polyseme.tokenization.config import SpecialTokens
from polyseme.training.optimization.gradient_learner import GradientLearner
from polyseme.training.optimization.optimizer_config import TrainingConfig
from polyseme.training.optimization.weight_averaging import WeightAveraging
from polyseme.training.storage.checkpoint import load_checkpoint, save_checkpoint


def source():
    import numpy as np

    tokens = np.tile(np.random.default_rng(0).integers(0, 30, 60), 20).astype(np.uint16)
    ends = np.array([0, len(tokens)])
    parts = {"sentences": ends, "documents": np.array([0, 1]), "num_characters": 1, "num_words": 1, "num_unknown": 0}
    return TokenSource(TokenStore(tokens=tokens, fingerprint="", **parts), 10, 4)


def build(**training):
    torch.manual_seed(0)
    encoder = Ulmfit(UlmfitConfig(vocab_size=30, width=6, inner_width=9, max_length=16))
    objective = build_objective(AwdLmConfig(), encoder, SpecialTokens())
    settings = {
        "optimizer": "nt-asgd",
        "learning_rate": 1.0,
        "max_grad_norm": 0.25,
        "averaging_patience": 2,
        "lr_schedule": "constant",
        "warmup_fraction": 0.0,
    }
    return GradientLearner(
        encoder, objective, source(), TrainingConfig(steps=12, threads=1, **{**settings, **training})
    )


def run(learner, until, dev_losses):
    """Train, with a validation loss after each step."""
    steps = learner.steps()
    while learner.steps_done < until:
        next(steps)
        learner.on_validation_loss(dev_losses[learner.steps_done - 1])
    steps.close()
    return learner


DEV_LOSSES = [5.0, 4.0, 4.5, 4.6, 4.2, 3.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0]


def test_averaging_is_triggered_by_the_validation_loss():
    """Merity et al., algorithm 1: when the loss is above the minimum of those before the last n."""
    begun = []
    averaging = WeightAveraging({"weight": torch.zeros(1)}, patience=2)
    for loss in DEV_LOSSES[:5]:
        averaging.on_validation_loss(loss)
        begun.append(bool(averaging.means))
    assert begun == [False, False, False, False, True]  # 4.2 > min(5.0, 4.0), while 4.6 was not above 5.0
    averaging.on_validation_loss(float("nan"))
    assert averaging.dev_losses == DEV_LOSSES[:5]


def test_averages_are_over_all_later_steps():
    learner = build()
    seen = []
    steps = learner.steps()
    for step in steps:
        learner.on_validation_loss(DEV_LOSSES[step.number - 1])
        if step.number >= 5:
            seen.append({name: weight.detach().clone() for name, weight in learner.weights.items()})
    for name, mean in learner.averaging.means.items():
        torch.testing.assert_close(mean, torch.stack([weights[name] for weights in seen]).mean(0), atol=1e-6, rtol=1e-5)


def test_sgd_step_by_hand():
    learner, twin = build(weight_decay=0.0), build(weight_decay=0.0)
    batch = learner.objective.batch(learner.source, seed=0, step=0)
    twin._accumulate_gradient(batch)
    norm = torch.nn.utils.clip_grad_norm_(twin.weights.values(), 0.25)
    assert norm > 0.25
    before = {name: weight.detach().clone() for name, weight in twin.weights.items()}
    step = next(learner.steps())
    assert step.learning_rate == batch.ids.shape[1] / 10  # of a rate of 1, by the length of the rows
    for name, weight in learner.weights.items():
        torch.testing.assert_close(weight.detach(), before[name] - step.learning_rate * twin.weights[name].grad)


def test_averages_are_evaluated_and_final():
    learner = run(build(), 12, DEV_LOSSES)
    raw = {name: weight.detach().clone() for name, weight in learner.weights.items()}
    metrics = learner.evaluate(learner.source, num_batches=3)
    assert all(torch.equal(raw[name], weight) for name, weight in learner.weights.items())
    learner.finalize()
    for name, weight in learner.weights.items():
        assert torch.equal(weight, learner.averaging.means[name])
        assert not torch.equal(weight, raw[name])
    learner.averaging.means = {}
    assert learner.evaluate(learner.source, num_batches=3) == metrics


@pytest.mark.parametrize("at", [1, 4, 5, 8])  # before, at and after the moment when means begin
def test_resume_is_exact(at, tmp_path):
    whole = run(build(), 12, DEV_LOSSES)
    save_checkpoint(tmp_path, run(build(), at, DEV_LOSSES).state(), step=at, fingerprint={})
    resumed = build()
    resumed.restore(load_checkpoint(tmp_path)[0])
    ours, theirs = run(resumed, 12, DEV_LOSSES).state(), whole.state()
    assert ours.tensors.keys() == theirs.tensors.keys() and len(theirs.tensors["averages"]) > 2
    for group, tensors in theirs.tensors.items():
        assert tensors.keys() == ours.tensors[group].keys()
        assert all(torch.equal(ours.tensors[group][name], tensor) for name, tensor in tensors.items()), group


def test_adam_is_not_averaged():
    learner = run(build(optimizer="adamw", learning_rate=1e-3), 6, DEV_LOSSES)
    assert not learner.averaging.means and "averages" not in learner.state().tensors


def test_layer_learning_rates():
    learner = build(optimizer="adamw", learning_rate=0.01, layer_lr_divisor=2.6)
    before = copy.deepcopy(learner.encoder.state_dict())
    step = next(learner.steps())
    moved = [
        max((weight - before[f"{name}.{part}"]).abs().max().item() for part, weight in stage.state_dict().items())
        for name, stage in zip(
            ["tokens", *(f"recurrent.{n}" for n in range(3))], learner.encoder.layer_groups(), strict=True
        )
    ]
    # Adam's first step is as large as the learning rate, whatever the gradient; the embedding is the output layer too.
    assert moved == pytest.approx([step.learning_rate / 2.6**n for n in (0, 2, 1, 0)], rel=0.05)
