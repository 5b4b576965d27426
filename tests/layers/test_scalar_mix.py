"""The scalar mix of ELMo."""

import torch

from polyseme.layers.scalar_mix import ScalarMix


def some_layers() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(2, 4, 5, generator=generator) * (n + 1) + n for n in range(3)]


def test_initially_the_mean_of_the_layers():
    layers = some_layers()
    torch.testing.assert_close(ScalarMix(3)(layers), torch.stack(layers).mean(0))


def test_weights_and_scale_are_those_of_the_paper():
    layers, mix = some_layers(), ScalarMix(3)
    with torch.no_grad():
        mix.weight.copy_(torch.tensor([[0.0, 1.0, 2.0]]))
        mix.scale.fill_(2.0)
    weights = mix.weight[0].exp() / mix.weight[0].exp().sum()
    expected = mix.scale * sum(weight * layer for weight, layer in zip(weights, layers, strict=True))
    torch.testing.assert_close(mix(layers), expected)
    assert mix.penalty().item() == 5
    mix.penalty().backward()
    assert torch.equal(mix.weight.grad, 2 * mix.weight) and mix.scale.grad is None
