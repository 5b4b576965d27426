"""What every family promises."""

import dataclasses

import pytest
import torch

from polyseme.layers.attention import SelfAttention, recording
from polyseme.layers.mix import LayerMix
from polyseme.models.directory import open_model, write_model
from polyseme.objectives import build_objective
from polyseme.tensors import IGNORED, Batch


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
    mixed = LayerMix(len(layers), num_mixes=2, normed=True)(layers, encoded.mask)
    assert mixed.shape == (2, *layers[-1].shape) and bool(mixed.isfinite().all())


def test_padding_changes_nothing(encoder):
    batch = some_batch(length=6)
    padded = Batch(
        ids=torch.cat([batch.ids, torch.full((3, 4), 7)], 1),
        mask=torch.cat([batch.mask, torch.zeros(3, 4, dtype=torch.bool)], 1),
    )
    for plain, wide in zip(encoder(batch).layers, encoder(padded).layers, strict=True):
        torch.testing.assert_close(wide[:, :6], plain, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(
        encoder.summarize(encoder(padded)), encoder.summarize(encoder(batch)), atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("gradients", [True, False])
def test_rows_one_after_another_are_as_alone(encoder, gradients):
    lengths = (60, 33, 33, 20, 5, 5, 5, 1, 1)  # below and above where attention changes its way
    rows = [some_batch(length, rows=number + 1).ids[number:] for number, length in enumerate(lengths)]
    with torch.set_grad_enabled(gradients):
        together = encoder(Batch.of(torch.cat(rows, 1), lengths=lengths))
        summaries = encoder.summarize(together)
        start = 0
        for row, length, summary in zip(rows, lengths, summaries, strict=True):
            alone = encoder(Batch.of(row))
            for packed, layer in zip(together.layers, alone.layers, strict=True):
                torch.testing.assert_close(packed[:, start : start + length], layer, atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(summary, encoder.summarize(alone)[0], atol=1e-5, rtol=1e-5)
            start += length
    if gradients and together.layers[-1].requires_grad:
        torch.stack([layer.square().sum() for layer in together.layers]).sum().backward()


def test_sees_no_more_than_it_says(encoder):
    batch = some_batch(length=6)
    changed = batch.ids.clone()
    changed[:, 4] = (changed[:, 4] + 1) % 50

    before = encoder(batch).layers[-1]
    after = encoder(dataclasses.replace(batch, ids=changed)).layers[-1]

    untouched = {"none": [0, 1, 2, 3, 5], "left": [0, 1, 2, 3], "both": []}[encoder.context]
    torch.testing.assert_close(after[:, untouched], before[:, untouched])
    touched = [place for place in range(6) if place not in untouched]
    assert all(not torch.allclose(after[:, place], before[:, place]) for place in touched)


def test_layer_zero_is_free_of_context(encoder):
    batch = some_batch()
    turned = dataclasses.replace(batch, ids=batch.ids.roll(1, dims=0))
    rolled = encoder(turned).layers[0]
    torch.testing.assert_close(rolled, encoder(batch).layers[0].roll(1, dims=0))


def test_a_row_does_not_depend_on_the_others(encoder):
    batch = some_batch(rows=5)
    together = encoder(batch).layers[-1]
    for row in range(5):
        torch.testing.assert_close(
            encoder(Batch.of(batch.ids[row : row + 1])).layers[-1][0], together[row], atol=1e-5, rtol=1e-5
        )


def test_stages_hold_every_weight_once(encoder):
    held = [weight for stage in encoder.stages() for weight in stage.parameters()]
    assert len({id(weight) for weight in held}) == len(held) == len(list(encoder.parameters()))


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
def test_heads_that_another_library_has_not_are_kept(tiny, tmp_path, pairs):
    encoder, _ = tiny.build()
    if tiny.recipe.objective.kind != "masked":
        pytest.skip("only masked families are asked about pairs")
    config = tiny.recipe.objective.replace(pairs=pairs)
    objective, heads = (build_objective(config, encoder, tiny.tokenizer.specials) for _ in range(2))
    write_model(tmp_path, family=tiny.family, encoder=encoder, heads=objective, extra={})
    _, found = open_model(tmp_path, family=tiny.family).load(heads)
    assert found == set(objective.state_dict())
    for name, weight in objective.state_dict().items():
        assert torch.equal(heads.state_dict()[name], weight), name


def test_every_weight_gets_gradient(drawing):
    encoder, objective = drawing.build()
    batch = objective.batch(drawing.source, seed=0, step=0)
    sum(objective(encoder, batch).losses.values()).backward()
    for name, weight in [*encoder.named_parameters(), *objective.named_parameters()]:
        if weight.requires_grad:  # word vectors that are given stay as they are
            assert weight.grad is not None and weight.grad.abs().sum() > 0, name


def test_counts_are_those_of_the_labels(drawing):
    _, objective = drawing.build()
    batch = objective.batch(drawing.source, seed=0, step=3)
    assert batch.counts == {name: int((labels != IGNORED).sum()) for name, labels in batch.labels.items()}
    assert set(batch.counts) == set(objective.names)


def test_recording_shows_the_weights_and_changes_nothing(encoder):
    batch = some_batch(length=6)
    plain = encoder(batch).layers[-1]
    with recording(encoder) as maps:
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
    assert len(maps) == encoder.config.num_layers, "recording ends with its block"


def test_reading_on_from_a_state_equals_reading_at_once(encoder):
    if encoder.context != "left":
        pytest.skip("only families that read left to right carry a state")
    batch = some_batch(length=9, rows=2)
    whole = encoder(batch).layers[-1]
    state = encoder.begin(2, 9)
    pieces = []
    for piece in batch.ids.split([4, 1, 1, 3], dim=1):
        encoded = encoder(Batch.of(piece), state)
        state = encoded.state
        pieces.append(encoded.layers[-1])
    torch.testing.assert_close(torch.cat(pieces, 1), whole, atol=1e-5, rtol=1e-5)
