"""Dropout with one random byte per element."""

import pytest
import torch

from polyseme.layers.dropout import Dropout


def test_drops_with_its_probability_and_preserves_the_mean():
    torch.manual_seed(0)
    dropped = Dropout(0.1)(torch.ones(1000, 1001))
    probability = 26 / 256
    assert (dropped == 0).float().mean().item() == pytest.approx(probability, abs=1e-3)
    assert dropped.mean().item() == pytest.approx(1.0, abs=1e-3)
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / (1 - probability)])


def test_every_byte_of_a_random_word_is_fair():
    torch.manual_seed(1)
    preserved = (Dropout(0.5)(torch.ones(200_000, 8)) != 0).float().mean(0)
    torch.testing.assert_close(preserved, torch.full((8,), 0.5), atol=5e-3, rtol=0)


def test_gradient_has_the_mask_of_the_output():
    x = torch.randn(40, 7, requires_grad=True)
    y = Dropout(0.3)(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, (y / x).detach())


def test_depends_on_the_seed_and_is_the_identity_in_evaluation():
    x, layer = torch.randn(5, 5), Dropout(0.4)
    torch.manual_seed(3)
    first = layer(x)
    torch.manual_seed(3)
    assert torch.equal(layer(x), first)
    assert not torch.equal(layer(x), first)
    assert layer.eval()(x) is x
    assert Dropout(0.0)(x) is x
