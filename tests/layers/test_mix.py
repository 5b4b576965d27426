"""Layers as one."""

import torch

from polyseme.layers.mix import LayerMix


def some_layers(num_layers: int = 3) -> tuple[list[torch.Tensor], torch.Tensor]:
    chance = torch.Generator().manual_seed(0)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    return [torch.randn(2, 4, 5, generator=chance) * (n + 1) + n for n in range(num_layers)], mask


def test_it_starts_as_the_mean():
    layers, mask = some_layers()
    torch.testing.assert_close(LayerMix(3)(layers, mask)[0], torch.stack(layers).mean(0))


def test_weights_and_scale_are_those_of_the_paper():
    layers, mask = some_layers()
    mix = LayerMix(3, num_mixes=2)
    with torch.no_grad():
        mix.weight.copy_(torch.tensor([[0.0, 1.0, 2.0], [5.0, 0.0, -5.0]]))
        mix.scale.copy_(torch.tensor([2.0, 0.5]))
    mixed = mix(layers, mask)
    for number in range(2):
        shares = mix.weight[number].exp() / mix.weight[number].exp().sum()
        expected = mix.scale[number] * sum(share * layer for share, layer in zip(shares, layers, strict=True))
        torch.testing.assert_close(mixed[number], expected)
    assert mix.penalty().item() == 5 + 50
    mix.penalty().backward()
    assert torch.equal(mix.weight.grad, 2 * mix.weight) and mix.scale.grad is None


def test_norm_is_over_all_real_tokens():
    layers, mask = some_layers()
    mix = LayerMix(3, normed=True)
    with torch.no_grad():
        mix.weight.copy_(torch.tensor([[0.0, 100.0, 0.0]]))  # the second alone
    real = mix(layers, mask)[0][mask]
    torch.testing.assert_close(real.mean(), torch.tensor(0.0), atol=1e-5, rtol=0)
    torch.testing.assert_close(real.var(correction=0), torch.tensor(1.0))
    longer = [torch.cat([layer, torch.full((2, 3, 5), 1e3)], 1) for layer in layers]
    padded = mix(longer, torch.cat([mask, torch.zeros(2, 3, dtype=torch.bool)], 1))
    torch.testing.assert_close(padded[:, :, :4][:, mask], mix(layers, mask)[:, mask])
