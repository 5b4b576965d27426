import copy

import pytest
import torch

from polyseme.models.ulmfit import Ulmfit, UlmfitConfig
from polyseme.objectives import Source, build_objective
from polyseme.objectives.regularized import RegularizedConfig
from polyseme.text.store import Store
from polyseme.text.tokenizer import Specials
from polyseme.train.averaging import Averaging
from polyseme.train.checkpoint import load_checkpoint, save_checkpoint
from polyseme.train.learner import GradientLearner
from polyseme.train.plan import PlanConfig


def source():
    import numpy as np

    tokens = np.tile(np.random.default_rng(0).integers(0, 30, 60), 20).astype(np.uint16)
    ends = np.array([0, len(tokens)])
    parts = {"sentences": ends, "documents": np.array([0, 1]), "num_characters": 1, "num_words": 1, "unknown": 0}
    return Source(Store(tokens=tokens, fingerprint="", **parts), 10, 4)


def build(**plan):
    torch.manual_seed(0)
    encoder = Ulmfit(UlmfitConfig(vocab_size=30, width=6, inner_width=9, max_length=16))
    objective = build_objective(RegularizedConfig(), encoder, Specials())
    settings = {"optimizer": "nt-asgd", "rate": 1.0, "clip": 0.25, "patience": 2, "schedule": "constant", "warmup": 0.0}
    return GradientLearner(encoder, objective, source(), PlanConfig(steps=12, threads=1, **{**settings, **plan}))


def run(learner, until, looks):
    """Learn, with a dev loss after each step."""
    steps = learner.steps()
    while learner.done < until:
        next(steps)
        learner.look(looks[learner.done - 1])
    steps.close()
    return learner


LOOKS = [5.0, 4.0, 4.5, 4.6, 4.2, 3.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0]


def test_when_means_begin():
    """Merity et al., algorithm 1: when the loss is above the lowest of those before the last n."""
    begun = []
    averaging = Averaging({"weight": torch.zeros(1)}, patience=2)
    for loss in LOOKS[:5]:
        averaging.look(loss)
        begun.append(bool(averaging.means))
    assert begun == [False, False, False, False, True]  # 4.2 > min(5.0, 4.0), while 4.6 was not above 5.0
    averaging.look(float("nan"))
    assert averaging.looks == LOOKS[:5]


def test_they_are_the_means_of_all_weights_since():
    learner = build()
    seen = []
    steps = learner.steps()
    for step in steps:
        learner.look(LOOKS[step.number - 1])
        if step.number >= 5:
            seen.append({name: weight.detach().clone() for name, weight in learner.weights.items()})
    for name, mean in learner.averaging.means.items():
        torch.testing.assert_close(mean, torch.stack([weights[name] for weights in seen]).mean(0), atol=1e-6, rtol=1e-5)


def test_a_plain_step_is_that_of_the_paper():
    learner, twin = build(decay=0.0), build(decay=0.0)
    batch = learner.objective.batch(learner.source, seed=0, step=0)
    twin._gradient(batch)
    norm = torch.nn.utils.clip_grad_norm_(twin.weights.values(), 0.25)
    assert norm > 0.25
    before = {name: weight.detach().clone() for name, weight in twin.weights.items()}
    step = next(learner.steps())
    assert step.rate == batch.ids.shape[1] / 10  # of a rate of 1, by the length of the rows
    for name, weight in learner.weights.items():
        torch.testing.assert_close(weight.detach(), before[name] - step.rate * twin.weights[name].grad)


def test_measured_with_the_means_and_left_with_them():
    learner = run(build(), 12, LOOKS)
    raw = {name: weight.detach().clone() for name, weight in learner.weights.items()}
    figures = learner.evaluate(learner.source, num_batches=3)
    assert all(torch.equal(raw[name], weight) for name, weight in learner.weights.items())
    learner.settle()
    for name, weight in learner.weights.items():
        assert torch.equal(weight, learner.averaging.means[name])
        assert not torch.equal(weight, raw[name])
    learner.averaging.means = {}
    assert learner.evaluate(learner.source, num_batches=3) == figures


@pytest.mark.parametrize("at", [1, 4, 5, 8])  # before, at and after the moment when means begin
def test_resume_is_exact(at, tmp_path):
    whole = run(build(), 12, LOOKS)
    save_checkpoint(tmp_path, run(build(), at, LOOKS).state(), step=at, fingerprint={})
    resumed = build()
    resumed.restore(load_checkpoint(tmp_path)[0])
    ours, theirs = run(resumed, 12, LOOKS).state(), whole.state()
    assert ours.tensors.keys() == theirs.tensors.keys() and len(theirs.tensors["averages"]) > 2
    for group, tensors in theirs.tensors.items():
        assert tensors.keys() == ours.tensors[group].keys()
        assert all(torch.equal(ours.tensors[group][name], tensor) for name, tensor in tensors.items()), group


def test_adam_takes_no_means():
    learner = run(build(optimizer="adamw", rate=1e-3), 6, LOOKS)
    assert not learner.averaging.means and "averages" not in learner.state().tensors


def test_layers_have_rates_of_their_own():
    learner = build(optimizer="adamw", rate=0.01, layer_divisor=2.6)
    before = copy.deepcopy(learner.encoder.state_dict())
    step = next(learner.steps())
    moved = [
        max((weight - before[f"{name}.{part}"]).abs().max().item() for part, weight in stage.state_dict().items())
        for name, stage in zip(["tokens", *(f"recurrent.{n}" for n in range(3))], learner.encoder.stages(), strict=True)
    ]
    # The first move of Adam is as large as the rate, whatever the gradient; the embedding is the output as well.
    assert moved == pytest.approx([step.rate / 2.6**n for n in (0, 2, 1, 0)], rel=0.05)
