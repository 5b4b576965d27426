import pytest
import torch

from polyseme.layers.attention import recording
from polyseme.models import FAMILIES
from polyseme.models.start import look_at_neighbours, start_fast
from polyseme.tensors import Batch

SIZES = {"vocab_size": 500, "max_length": 64, "width": 128, "num_layers": 2, "num_heads": 4, "dropout": 0.0}


@pytest.mark.parametrize("family", [name for name, family in FAMILIES.items() if family.context == "both"])
def test_each_head_looks_at_its_neighbour(family):
    offsets = [-1, 1, -2, 2]
    sizes = SIZES | ({"embedding_width": 48} if family == "albert" else {})
    torch.manual_seed(0)
    encoder = FAMILIES[family](FAMILIES[family].Config.parse(sizes, group="model")).eval()
    batch = Batch.of(torch.randint(0, 500, (4, 64)))
    with torch.inference_mode():
        with recording(encoder) as before:
            encoder(batch)
        look_at_neighbours(encoder)
        with recording(encoder) as after:
            encoder(batch)
    for head, offset in enumerate(offsets):
        inside = torch.arange(8, 56)
        assert before[0][:, head, inside, inside + offset].mean() < 0.2, "at random they look everywhere"
        for layer in after:
            assert layer[:, head, inside, inside + offset].mean() > 0.5


def test_the_rest_of_the_weights_stays():
    torch.manual_seed(0)
    encoder = FAMILIES["bert"](FAMILIES["bert"].Config.parse(SIZES, group="model"))
    before = {name: weight.clone() for name, weight in encoder.state_dict().items()}
    look_at_neighbours(encoder)
    changed = {name for name, weight in encoder.state_dict().items() if not torch.equal(weight, before[name])}
    assert changed == {"positions.weight", *(f"blocks.{n}.attention.query_key_value.weight" for n in (0, 1))}
    value = 2 * SIZES["width"]
    assert torch.equal(
        encoder.blocks[0].attention.query_key_value.weight[value:],
        before["blocks.0.attention.query_key_value.weight"][value:],
    )


def test_a_model_that_reads_left_to_right_keeps_all_but_its_words():
    for family in ("gpt", "gpt2"):
        torch.manual_seed(0)
        encoder = FAMILIES[family](FAMILIES[family].Config.parse(SIZES, group="model"))
        before = {name: weight.clone() for name, weight in encoder.state_dict().items()}
        start_fast(encoder)
        changed = {name for name, weight in encoder.state_dict().items() if not torch.equal(weight, before[name])}
        assert changed == {"tokens.weight"}
