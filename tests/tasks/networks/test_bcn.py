"""The biattentive classification network: equations of the paper, and independence of padding."""

import copy
import dataclasses
import math
import random

import numpy as np
import pytest
import torch
from tests.tasks.synthetic_examples import ANIMALS, COLOURS, examples, majority, some, tuned, with_one

from polyseme.tasks.networks.bcn import BiattentiveNetwork, attend
from polyseme.tasks.networks.heads import MaxoutHead


def test_attention():
    x, y = torch.tensor([[[1.0, 0.0], [0.0, 2.0]]]), torch.tensor([[[1.0, 0.0], [0.0, 1.0], [9.0, 9.0]]])
    e, e2 = math.e, math.e**2
    expected = torch.tensor([[[e / (e + 1), 1 / (e + 1)], [1 / (1 + e2), e2 / (1 + e2)]]])
    torch.testing.assert_close(attend(x, y, torch.tensor([[True, True, False]])), expected)


def by_the_paper(features, x, y):
    """The equations for two texts without padding, (T, D) each; for a single text, the first half."""
    affinity = x @ y.T
    of_x, of_y = affinity.softmax(0), affinity.T.softmax(0)  # by columns
    contexts = of_y.T @ y, of_x.T @ x
    pooled = []
    for words, context, lstm, weigh in zip((x, y), contexts, features.integrate, features.weigh, strict=False):
        read = lstm(torch.cat([words, words - context, words * context], 1))[0]
        self = read.T @ (read @ weigh.weight[0]).softmax(0)
        pooled += [read.max(0).values, read.mean(0), read.min(0).values, self]
    return torch.cat(pooled)


@pytest.mark.parametrize(("kind", "group"), [("classify", 1), ("pair", 2), ("choice", 3)])
@torch.no_grad()
def test_equations_of_the_paper(kind, group):
    model = tuned("cove", kind)
    few = [example for example in examples(kind) if len(example.texts) == group][:4]
    batch = model.task.batch(model.read(few), seed=0, step=0)
    assert batch.rows_per_example == group and not batch.mask.all()
    features, encoded = model.task.features.eval(), model.encoder.eval()(batch)
    assert isinstance(features, BiattentiveNetwork)
    found = model.task.vectors(model.encoder, encoded, batch)
    assert found.shape == (4, max(1, group - 1), features.pooled_width)

    words = []
    for row, mask in zip(encoded.layers[-1], batch.mask, strict=True):
        assert torch.equal(row[:, :32], model.encoder.tokens(batch.ids)[len(words)])  # [GloVe; CoVe]
        words.append(features.lstm(torch.relu(features.dense(row[mask])))[0])
    for number, vectors in enumerate(found):
        first, *others = words[number * group : (number + 1) * group]
        expected = [by_the_paper(features, first, other) for other in others or [first]]
        torch.testing.assert_close(vectors, torch.stack(expected), atol=1e-5, rtol=1e-4)


def test_maxout():
    head = MaxoutHead(32, 3, dropout=0.0)
    x = torch.randn(2, 5, 32)
    expected = x
    for layer, width in zip(head.layers, (4, 2, 3), strict=True):
        maps = zip(layer.weight.view(width, 4, -1), layer.bias.view(width, 4), strict=True)
        expected = torch.stack([(expected @ weight.T + bias).max(-1).values for weight, bias in maps], -1)
    torch.testing.assert_close(head(x), expected)


@pytest.mark.parametrize("method", ["full", "frozen"])
@pytest.mark.parametrize(("kind", "group"), [("classify", 1), ("pair", 2), ("similarity", 2), ("choice", 3)])
@torch.no_grad()
def test_padding_changes_nothing(kind, group, method):
    model = tuned("cove", kind, method=method)
    source = model.read([example for example in examples(kind) if len(example.texts) == group][:6])

    def scores(batch):
        return model.task.eval().scores(model.encoder.eval(), model.encoder(batch), batch)

    batch = source.batch(np.arange(6), kind)
    together, alone = scores(batch), torch.cat([scores(source.batch(np.array([n]), kind)) for n in range(6)])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=0)
    other = dataclasses.replace(batch, ids=batch.ids.where(batch.mask, 7))
    assert (batch.ids != other.ids).any() and torch.equal(scores(other), together)


def alike(number, seed):
    """Pairs labelled by whether both texts name the same, so that neither text alone predicts the label."""
    rng, rows = random.Random(seed), []
    for example in examples("pair", number, seed=seed):
        first, second = rng.sample([*COLOURS, *ANIMALS], 2)
        same = rng.random() < 0.5
        texts = [[first], [first if same else second]]
        text_a, text_b = (" ".join(with_one(rng, some(rng, least=1, most=3), words)) for words in texts)
        rows.append(dataclasses.replace(example, text_a=text_a, text_b=text_b, label="same" if same else "other"))
    return rows


@pytest.mark.parametrize("method", ["full", "frozen"])
def test_common_words_of_two_texts_are_learned(method):
    sizes = {"inner_width": 16, "num_layers": 1}
    model = tuned("cove", "pair", labels=("other", "same"), method=method, sizes=sizes)
    for _ in model.learner(alike(256, seed=0), num_rows=32, steps=80, learning_rate=5e-3).steps():
        pass
    fresh = alike(64, seed=1)
    assert model.task.score(model.predict(fresh), fresh)["accuracy"] > majority("pair", fresh) + 0.2


@pytest.mark.parametrize("kind", ["pair", "choice"])
def test_resume_is_exact(kind):
    def learner():
        return tuned("cove", kind, dropout=0.2, sizes={"dropout": 0.1, "inner_width": 16}).learner(
            examples(kind), steps=6
        )

    def take(learner, number):
        steps = learner.steps()
        for _ in range(number):
            next(steps)
        steps.close()
        return learner

    whole = take(learner(), 6).state()
    resumed = learner()
    resumed.restore(copy.deepcopy(take(learner(), 3).state()))
    again = take(resumed, 3).state()
    for group, tensors in whole.tensors.items():
        assert all(torch.equal(tensor, again.tensors[group][name]) for name, tensor in tensors.items())
