import numpy as np
import pytest
import torch

from polyseme.layers.attention import recording
from polyseme.models import FAMILIES
from polyseme.models.company import find_company, find_pair_company, find_translations, join_company
from polyseme.models.start import look_at_neighbours, start_fast, start_translating
from polyseme.models.transformer import TransformerConfig
from polyseme.tensors import Batch
from polyseme.text.store import Store

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
    join_company(weight, find_company(tokens, len(weight)))
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
        join_company(weights[-1], find_company(tokens, len(weights[-1])))
    assert torch.equal(*weights)


def pairs(num_pairs=3000):
    """Sentences of words below 50, and their translations, in another order: 50 more than each word."""
    chance = np.random.default_rng(0)
    sides = [chance.permutation(50)[:6] for _ in range(num_pairs)]
    tokens = np.stack([np.stack(sides), 50 + chance.permuted(np.stack(sides), axis=1)], 1)
    sentences = np.arange(2 * num_pairs + 1) * 6
    return Store(
        tokens=tokens.ravel(),
        sentences=sentences,
        documents=np.arange(num_pairs + 1) * 2,
        num_characters=1,
        num_words=1,
        unknown=0,
        fingerprint="",
    )


def test_words_begin_beside_their_translations():
    store = pairs()
    found = find_pair_company(store, 101).toarray()
    assert (found[:50, 50:100].argmax(1) == np.arange(50)).all()
    np.testing.assert_allclose(found, found.T, rtol=1e-5)
    assert not found[100].any(), "it is in no pair"
    torch.manual_seed(0)
    encoder = FAMILIES["transformer"](
        TransformerConfig(vocab_size=101, width=64, num_layers=2, num_heads=2, inner_width=64, dropout=0.0)
    )
    decoder = encoder.decoder()
    start_translating(encoder, decoder, store)
    near = torch.nn.functional.cosine_similarity(encoder.tokens.weight[:, None], encoder.tokens.weight[None], dim=-1)
    assert (near[:50, 50:100].argmax(1) == torch.arange(50)).float().mean() > 0.9


def test_a_decoder_begins_by_handing_on_what_it_looks_at():
    encoder = FAMILIES["transformer"](
        TransformerConfig(vocab_size=101, width=64, num_layers=2, num_heads=2, inner_width=64, dropout=0.0)
    )
    decoder = encoder.decoder()
    start_translating(encoder, decoder, pairs(100))
    for block in decoder.blocks:
        attention = block.cross_attention
        seen = torch.randn(1, 1, 64)
        said, _ = attention(torch.randn(1, 3, 64), attention.remember(seen), None)
        torch.testing.assert_close(said, 0.7 * seen.expand(1, 3, 64), rtol=1e-4, atol=1e-5)


def test_a_cove_begins_by_writing_translations_of_what_it_looks_at():
    store = pairs()
    torch.manual_seed(0)
    cove = FAMILIES["cove"](FAMILIES["cove"].Config(vocab_size=101, width=64, inner_width=64, dropout=0.0))
    decoder = cove.decoder()
    vectors = cove.tokens.weight.clone()
    start_translating(cove, decoder, store)
    assert torch.equal(cove.tokens.weight, vectors) and cove.training
    with torch.inference_mode():
        encoded = cove(Batch.of(torch.arange(50)[:, None]))
        writing = decoder.begin(encoded)
        seen = writing.source[:, 0]
        held = torch.tanh(decoder.attend(torch.cat([seen, torch.zeros_like(seen)], 1)))
        scores = held @ decoder.score.weight.T
    assert (scores[:, 50:100].argmax(1) == torch.arange(50)).float().mean() > 0.9
    shares = find_translations(store, 101).sum(axis=1)
    np.testing.assert_allclose(shares, [0] * 50 + [1] * 50 + [0], atol=1e-5)
