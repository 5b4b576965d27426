"""Contract of every encoder."""

import dataclasses

import pytest
import torch

from polyseme.batch import IGNORED, Batch
from polyseme.families import build_objective
from polyseme.layers.attention import SelfAttention, record_attention
from polyseme.layers.scalar_mix import ScalarMix
from polyseme.training.storage.model_dir import open_model, write_model


def some_batch(length: int = 6, rows: int = 3) -> Batch:
    generator = torch.Generator().manual_seed(1)
    return Batch.of(torch.randint(5, 50, (rows, length), generator=generator))


def test_declared_widths(encoder):
    layers = encoder(some_batch()).layers
    assert tuple(layer.shape[-1] for layer in layers) == encoder.widths
    assert all(layer.shape[:2] == (3, 6) for layer in layers)


def test_layers_can_be_mixed(encoder):
    encoded = encoder(some_batch())
    layers = [layer for layer in encoded.layers if layer.shape == encoded.layers[-1].shape]
    mixed = ScalarMix(len(layers))(layers)
    assert mixed.shape == layers[-1].shape and bool(mixed.isfinite().all())


def test_padding_does_not_change_the_result(encoder):
    batch = some_batch(length=6)
    padded = Batch(
        ids=torch.cat([batch.ids, torch.full((3, 4), 7)], 1),
        mask=torch.cat([batch.mask, torch.zeros(3, 4, dtype=torch.bool)], 1),
    )
    for plain, wide in zip(encoder(batch).layers, encoder(padded).layers, strict=True):
        torch.testing.assert_close(wide[:, :6], plain, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(encoder.pool(encoder(padded)), encoder.pool(encoder(batch)), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("gradients", [True, False])
def test_packed_sequences_equal_single_ones(encoder, gradients):
    lengths = (60, 33, 33, 20, 5, 5, 5, 1, 1)  # below and above MAX_EXPLICIT_LENGTH
    rows = [some_batch(length, rows=number + 1).ids[number:] for number, length in enumerate(lengths)]
    with torch.set_grad_enabled(gradients):
        together = encoder(Batch.of(torch.cat(rows, 1), packed_lengths=lengths))
        pooled = encoder.pool(together)
        start = 0
        for row, length, vector in zip(rows, lengths, pooled, strict=True):
            alone = encoder(Batch.of(row))
            for packed, layer in zip(together.layers, alone.layers, strict=True):
                torch.testing.assert_close(packed[:, start : start + length], layer, atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(vector, encoder.pool(alone)[0], atol=1e-5, rtol=1e-5)
            start += length
    if gradients and together.layers[-1].requires_grad:
        torch.stack([layer.square().sum() for layer in together.layers]).sum().backward()


def test_encoder_sees_only_its_declared_context(encoder):
    batch = some_batch(length=6)
    changed = batch.ids.clone()
    changed[:, 4] = (changed[:, 4] + 1) % 50

    before = encoder(batch).layers[-1]
    after = encoder(dataclasses.replace(batch, ids=changed)).layers[-1]

    unaffected = {"none": [0, 1, 2, 3, 5], "left": [0, 1, 2, 3], "both": []}[encoder.context]
    torch.testing.assert_close(after[:, unaffected], before[:, unaffected])
    affected = [position for position in range(6) if position not in unaffected]
    assert all(not torch.allclose(after[:, position], before[:, position]) for position in affected)


def test_layer_zero_is_context_free(encoder):
    batch = some_batch()
    rolled_batch = dataclasses.replace(batch, ids=batch.ids.roll(1, dims=0))
    rolled = encoder(rolled_batch).layers[0]
    torch.testing.assert_close(rolled, encoder(batch).layers[0].roll(1, dims=0))


def test_a_sequence_does_not_depend_on_the_others(encoder):
    batch = some_batch(rows=5)
    together = encoder(batch).layers[-1]
    for row in range(5):
        torch.testing.assert_close(
            encoder(Batch.of(batch.ids[row : row + 1])).layers[-1][0], together[row], atol=1e-5, rtol=1e-5
        )


def test_layer_groups_contain_every_weight_once(encoder):
    weights = [weight for group in encoder.layer_groups() for weight in group.parameters()]
    assert len({id(weight) for weight in weights}) == len(weights) == len(list(encoder.parameters()))


def test_save_and_load_are_equal(tiny, tmp_path):
    encoder, objective = tiny.build()
    write_model(tmp_path, family=tiny.family, encoder=encoder, heads=objective, extra={})
    _, heads = tiny.build(seed=1)
    loaded, found = open_model(tmp_path, family=tiny.family).load(heads)
    assert loaded.config == encoder.config
    assert found == set(objective.state_dict())
    for ours, theirs in ((encoder, loaded), (objective, heads)):
        for name, weight in ours.state_dict().items():
            assert torch.equal(theirs.state_dict()[name], weight), name


@pytest.mark.parametrize("pairs", ["none", "next", "order"])
def test_heads_unknown_to_transformers_are_saved(tiny, tmp_path, pairs):
    encoder, _ = tiny.build()
    if tiny.recipe.objective.kind != "masked_lm":
        pytest.skip("no sentence-pair objective")
    config = tiny.recipe.objective.replace(pairs=pairs)
    objective, heads = (build_objective(config, encoder, tiny.tokenizer.specials) for _ in range(2))
    write_model(tmp_path, family=tiny.family, encoder=encoder, heads=objective, extra={})
    _, found = open_model(tmp_path, family=tiny.family).load(heads)
    assert found == set(objective.state_dict())
    for name, weight in objective.state_dict().items():
        assert torch.equal(heads.state_dict()[name], weight), name


def test_every_weight_gets_gradient(gradient_family):
    encoder, objective = gradient_family.build()
    batch = objective.batch(gradient_family.source, seed=0, step=0)
    sum(objective(encoder, batch).losses.values()).backward()
    for name, weight in [*encoder.named_parameters(), *objective.named_parameters()]:
        if weight.requires_grad:  # CoVe's word embeddings are frozen
            assert weight.grad is not None and weight.grad.abs().sum() > 0, name


def test_counts_match_the_labels(gradient_family):
    encoder, objective = gradient_family.build()
    batch = objective.batch(gradient_family.source, seed=0, step=3)
    assert batch.counts == {name: int((labels != IGNORED).sum()) for name, labels in batch.labels.items()}
    assert batch.counts.keys() == objective(encoder, batch).losses.keys()


def test_recorded_attention_weights(encoder):
    batch = some_batch(length=6)
    plain = encoder(batch).layers[-1]
    with record_attention(encoder) as maps:
        recorded = encoder(batch).layers[-1]
    torch.testing.assert_close(recorded, plain, atol=1e-5, rtol=1e-5)
    if not any(isinstance(module, SelfAttention) for module in encoder.modules()):
        assert not maps
        pytest.skip("a family without attention")
    assert len(maps) == encoder.config.num_layers
    for weights in maps:
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
    if encoder.context == "left":
        assert all(weights.triu(1).abs().max() == 0 for weights in maps)
    encoder(batch)
    assert len(maps) == encoder.config.num_layers, "recording stops after the block"


def test_continuing_from_a_state_equals_one_pass(encoder):
    if encoder.context != "left":
        pytest.skip("only causal families continue from a state")
    batch = some_batch(length=9, rows=2)
    whole = encoder(batch).layers[-1]
    state = encoder.new_state(2, 9)
    pieces = []
    for piece in batch.ids.split([4, 1, 1, 3], dim=1):
        encoded = encoder(Batch.of(piece), state)
        state = encoded.state
        pieces.append(encoded.layers[-1])
    torch.testing.assert_close(torch.cat(pieces, 1), whole, atol=1e-5, rtol=1e-5)
