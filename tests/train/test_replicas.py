import torch

from polyseme.layers.dropout import Dropout, own_chance
from polyseme.train.replicas import Replicas


def test_replicas_add_up_to_the_gradient_of_the_whole(workshop):
    learner = workshop.learner()
    batch = learner.objective.batch(learner.source, seed=0, step=0)
    found = {}
    for number in (1, 2, 3):
        learner.replicas = Replicas(learner.encoder, learner.objective, number)
        with learner.replicas:
            losses = learner._gradient(batch)
        gradients = {name: weight.grad.clone() for name, weight in learner.weights.items()}
        learner.replicas.forget_gradients()
        assert all(weight.grad is None for weight in learner.weights.values())
        found[number] = (losses, gradients)
    losses, gradients = found[1]
    for number in (2, 3):
        for name, loss in losses.items():
            assert abs(found[number][0][name] - loss) < 1e-5
        for name, gradient in gradients.items():
            torch.testing.assert_close(found[number][1][name], gradient, rtol=1e-4, atol=1e-6)


def test_replicas_move_with_the_model(workshop):
    learner = workshop.learner()
    replicas = Replicas(learner.encoder, learner.objective, 2)
    with torch.no_grad():
        learner.encoder.tokens.weight.add_(1.0)
    assert torch.equal(replicas.models[1][0].tokens.weight, learner.encoder.tokens.weight)


def test_a_broken_off_run_goes_on_bit_for_bit(workshop):
    def learn(learner, until):
        learner.replicas = Replicas(learner.encoder, learner.objective, 2)
        for step in learner.steps():
            if step.number == until:
                break
        return learner

    whole = learn(workshop.learner(), 8)
    broken = learn(workshop.learner(), 4)
    resumed = workshop.learner()
    resumed.restore(broken.state())
    learn(resumed, 8)
    for name, weight in whole.weights.items():
        assert torch.equal(weight, resumed.weights[name]), name


def test_dropout_is_the_same_every_time_and_another_in_each_replica(one_workshop):
    def gradients(learner):
        batch = learner.objective.batch(learner.source, seed=0, step=0)
        with learner.replicas:
            learner._gradient(batch)
        return [[weight.grad.clone() for weight in encoder.parameters()] for encoder, _ in learner.replicas.models]

    found = []
    for _ in range(2):
        learner = one_workshop.learner()
        for part in learner.encoder.modules():
            if isinstance(part, Dropout):
                part.num_dropped = 64
        learner.replicas = Replicas(learner.encoder, learner.objective, 2)
        found.append(gradients(learner))
    for one, other in zip(found[0], found[1], strict=True):
        assert all(map(torch.equal, one, other))
    dropout, x = Dropout(0.5), torch.ones(100)
    masks = []
    for seed in (0, 0, 1):
        with own_chance(seed):
            masks.append(dropout(x))
    assert torch.equal(masks[0], masks[1]) and not torch.equal(masks[0], masks[2])
