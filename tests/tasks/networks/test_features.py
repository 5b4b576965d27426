"""Features of task heads."""

import pytest
import torch
from tests.tasks.synthetic_examples import DIFFERENT, examples, tuned

from polyseme.tasks.networks.bcn import BiattentiveNetwork
from polyseme.tasks.networks.features import BiLstm, TopLayer, max_mean_pool


def encoded_by(model, number=5):
    batch = model.task.batch(model.read(examples("classify")[:number]), seed=0, step=0)
    assert not batch.mask.all()
    return batch, model.encoder.eval()(batch)


@pytest.mark.parametrize("method", ["full", "frozen", "mix"])
@pytest.mark.parametrize("family", DIFFERENT)
def test_widths_are_as_declared(family, method):
    if method == "mix" and family in ("onehot", "skipgram", "fasttext"):
        return  # they have one layer
    model = tuned(family, "classify", method=method)
    batch, encoded = encoded_by(model)
    features = model.task.features
    tokens = features(encoded)
    assert tokens.shape == (*batch.ids.shape, features.width)
    assert features.pool_rows(model.encoder, encoded, tokens).shape == (len(batch.ids), features.pooled_width)
    alone = method == "full" and model.encoder.context != "none"
    together = family == "cove" and method != "mix"  # texts are read against each other
    assert isinstance(features, BiattentiveNetwork if together else TopLayer if alone else BiLstm)


def test_scalar_mix_is_concatenated_with_layer_0():
    model = tuned("elmo", "classify", method="mix")
    _, encoded = encoded_by(model)
    features = model.task.features
    torch.testing.assert_close(
        features.inputs(encoded), torch.cat([encoded.layers[0], torch.stack(encoded.layers).mean(0)], -1)
    )
    with torch.no_grad():
        features.mix.weight.copy_(torch.tensor([[0.0, 50.0, 0.0]]))
        features.mix.scale.fill_(2.0)
    torch.testing.assert_close(features.inputs(encoded), torch.cat([encoded.layers[0], 2 * encoded.layers[1]], -1))


def test_layers_are_projected_to_the_width_of_the_top_layer():
    model = tuned("ulmfit", "classify", method="mix", sizes={"inner_width": 20})
    _, encoded = encoded_by(model)
    fit = model.task.features.fit
    assert [layer.shape[-1] for layer in encoded.layers] == [32, 20, 32]
    mixed = (encoded.layers[0] + fit[1](encoded.layers[1]) + encoded.layers[2]) / 3
    torch.testing.assert_close(model.task.features.inputs(encoded), torch.cat([encoded.layers[0], mixed], -1))


def test_pooling_ignores_padding():
    tokens = torch.tensor([[[1.0], [-3.0], [9.0]], [[-2.0], [-4.0], [-6.0]]])
    mask = torch.tensor([[True, True, False], [True, True, True]])
    assert max_mean_pool(tokens, mask).tolist() == [[1, -1], [-2, -4]]
