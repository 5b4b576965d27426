import numpy as np
import pytest
import torch

from polyseme.layers.attention import recording
from polyseme.models import FAMILIES
from polyseme.models.start import join_company, look_at_neighbours, start_fast
from polyseme.tensors import Batch

SIZES = {"vocab_size": 500, "max_length": 64, "width": 128, "num_layers": 2, "num_heads": 4, "dropout": 0.0}


@pytest.mark.parametrize(
    "family", [name for name, family in FAMILIES.items() if family.context == "both" and family.foreign]
)
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
        start_fast(encoder, np.random.default_rng(0).integers(500, size=5000))
        changed = {name for name, weight in encoder.state_dict().items() if not torch.equal(weight, before[name])}
        assert changed == {"tokens.weight"}


@pytest.mark.parametrize("num_tokens", [60_000, 5_000_000])
def test_words_of_one_company_begin_close(num_tokens):
    # Sixteen topics of thirty words each; a stretch of text keeps to its topic. The last words are never met.
    chance = np.random.default_rng(0)
    topics = np.repeat(chance.integers(16, size=num_tokens // 20), 20)
    tokens = topics * 30 + chance.integers(30, size=len(topics))
    torch.manual_seed(0)
    weight = torch.randn(500, 64)
    before = weight.clone()
    join_company(weight, tokens)
    near = torch.nn.functional.cosine_similarity(weight[:480, None], weight[None, :480], dim=-1)
    same = torch.from_numpy(np.arange(480)[:, None] // 30 == np.arange(480) // 30) & ~torch.eye(480, dtype=torch.bool)
    other = torch.from_numpy(np.arange(480)[:, None] // 30 != np.arange(480) // 30)
    assert near[same].mean() > 0.4
    assert abs(near[other].mean()) < 0.1
    assert near[same].max() < 0.99, "they can be told apart"
    assert float(weight.std()) == pytest.approx(float(before.std()), rel=0.1)
    assert torch.equal(weight[490:], before[490:])


def test_words_begin_the_same_each_time():
    tokens = np.random.default_rng(1).zipf(1.3, size=20_000) % 300
    weights = []
    for _ in range(2):
        torch.manual_seed(0)
        weights.append(torch.randn(300, 32))
        join_company(weights[-1], tokens)
    assert torch.equal(*weights)
