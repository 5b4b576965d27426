"""Data parallelism across threads."""

import torch

from polyseme.layers.dropout import Dropout, thread_rng
from polyseme.training.optimization.thread_parallel import ThreadReplicas


def test_replicas_sum_to_the_gradient_of_the_batch(tiny):
    learner = tiny.learner()
    batch = learner.objective.batch(learner.source, seed=0, step=0)
    found = {}
    for number in (1, 2, 3):
        learner.replicas = ThreadReplicas(learner.encoder, learner.objective, number)
        with learner.replicas:
            losses = learner._accumulate_gradient(batch)
        gradients = {name: weight.grad.clone() for name, weight in learner.weights.items()}
        learner.replicas.clear_gradients()
        assert all(weight.grad is None for weight in learner.weights.values())
        found[number] = (losses, gradients)
    losses, gradients = found[1]
    for number in (2, 3):
        for name, loss in losses.items():
            assert abs(found[number][0][name] - loss) < 1e-5
        for name, gradient in gradients.items():
            torch.testing.assert_close(found[number][1][name], gradient, rtol=1e-4, atol=1e-6)


def test_replicas_share_weights(tiny):
    learner = tiny.learner()
    replicas = ThreadReplicas(learner.encoder, learner.objective, 2)
    with torch.no_grad():
        learner.encoder.tokens.weight.add_(1.0)
    assert torch.equal(replicas.models[1][0].tokens.weight, learner.encoder.tokens.weight)


def test_resume_is_bit_exact(tiny):
    def learn(learner, until):
        learner.replicas = ThreadReplicas(learner.encoder, learner.objective, 2)
        for step in learner.steps():
            if step.number == until:
                break
        return learner

    whole = learn(tiny.learner(), 8)
    broken = learn(tiny.learner(), 4)
    resumed = tiny.learner()
    resumed.restore(broken.state())
    learn(resumed, 8)
    for name, weight in whole.weights.items():
        assert torch.equal(weight, resumed.weights[name]), name


def test_dropout_is_reproducible_and_differs_between_replicas(any_tiny):
    def gradients(learner):
        batch = learner.objective.batch(learner.source, seed=0, step=0)
        with learner.replicas:
            learner._accumulate_gradient(batch)
        return [[weight.grad.clone() for weight in encoder.parameters()] for encoder, _ in learner.replicas.models]

    found = []
    for _ in range(2):
        learner = any_tiny.learner()
        for part in learner.encoder.modules():
            if isinstance(part, Dropout):
                part.num_dropped = 64
        learner.replicas = ThreadReplicas(learner.encoder, learner.objective, 2)
        found.append(gradients(learner))
    for one, other in zip(found[0], found[1], strict=True):
        assert all(map(torch.equal, one, other))
    dropout, x = Dropout(0.5), torch.ones(100)
    masks = []
    for seed in (0, 0, 1):
        with thread_rng(seed):
            masks.append(dropout(x))
    assert torch.equal(masks[0], masks[1]) and not torch.equal(masks[0], masks[2])
