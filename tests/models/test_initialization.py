"""Initialization from co-occurrence and from parallel text."""

import numpy as np
import pytest
import torch

from polyseme.batch import Batch
from polyseme.datasets.token_store import TokenStore
from polyseme.families import FAMILIES
from polyseme.layers.attention import record_attention
from polyseme.models.initialization.initializers import (
    initialize_from_cooccurrence,
    initialize_from_parallel_text,
    initialize_local_attention,
)
from polyseme.models.initialization.ppmi import (
    initialize_from_ppmi,
    lexical_translation,
    pair_ppmi,
    window_ppmi,
)
from polyseme.models.transformer import TransformerConfig

SIZES = {"vocab_size": 500, "max_length": 64, "width": 128, "num_layers": 2, "num_heads": 4, "dropout": 0.0}


@pytest.mark.parametrize(
    "family", [name for name, family in FAMILIES.items() if family.context == "both" and family.hf_mapping]
)
def test_each_head_attends_to_its_neighbour(family):
    offsets = [-1, 1, -2, 2]
    sizes = SIZES | ({"embedding_width": 48} if family == "albert" else {})
    torch.manual_seed(0)
    encoder = FAMILIES[family](FAMILIES[family].Config.parse(sizes, group="model")).eval()
    batch = Batch.of(torch.randint(0, 500, (4, 64)))
    with torch.inference_mode():
        with record_attention(encoder) as before:
            encoder(batch)
        initialize_local_attention(encoder)
        with record_attention(encoder) as after:
            encoder(batch)
    for head, offset in enumerate(offsets):
        inside = torch.arange(8, 56)
        assert before[0][:, head, inside, inside + offset].mean() < 0.2, "random heads attend uniformly"
        for layer in after:
            assert layer[:, head, inside, inside + offset].mean() > 0.5


def test_other_weights_are_unchanged():
    torch.manual_seed(0)
    encoder = FAMILIES["bert"](FAMILIES["bert"].Config.parse(SIZES, group="model"))
    before = {name: weight.clone() for name, weight in encoder.state_dict().items()}
    initialize_local_attention(encoder)
    changed = {name for name, weight in encoder.state_dict().items() if not torch.equal(weight, before[name])}
    assert changed == {"positions.weight", *(f"blocks.{n}.attention.query_key_value.weight" for n in (0, 1))}
    value = 2 * SIZES["width"]
    assert torch.equal(
        encoder.blocks[0].attention.query_key_value.weight[value:],
        before["blocks.0.attention.query_key_value.weight"][value:],
    )


def test_only_the_embeddings_of_causal_models_change():
    for family in ("gpt", "gpt2"):
        torch.manual_seed(0)
        encoder = FAMILIES[family](FAMILIES[family].Config.parse(SIZES, group="model"))
        before = {name: weight.clone() for name, weight in encoder.state_dict().items()}
        initialize_from_cooccurrence(encoder, np.random.default_rng(0).integers(500, size=5000))
        changed = {name for name, weight in encoder.state_dict().items() if not torch.equal(weight, before[name])}
        assert changed == {"tokens.weight"}


@pytest.mark.parametrize("num_tokens", [60_000, 5_000_000])
def test_words_with_similar_contexts_start_close(num_tokens):
    # Sixteen topics of thirty words each, in spans of one topic. The last words do not occur.
    generator = np.random.default_rng(0)
    topics = np.repeat(generator.integers(16, size=num_tokens // 20), 20)
    tokens = topics * 30 + generator.integers(30, size=len(topics))
    torch.manual_seed(0)
    weight = torch.randn(500, 64)
    before = weight.clone()
    initialize_from_ppmi(weight, window_ppmi(tokens, len(weight)))
    near = torch.nn.functional.cosine_similarity(weight[:480, None], weight[None, :480], dim=-1)
    same = torch.from_numpy(np.arange(480)[:, None] // 30 == np.arange(480) // 30) & ~torch.eye(480, dtype=torch.bool)
    other = torch.from_numpy(np.arange(480)[:, None] // 30 != np.arange(480) // 30)
    assert near[same].mean() > 0.4
    assert abs(near[other].mean()) < 0.1
    assert near[same].max() < 0.99, "words remain distinct"
    assert float(weight.std()) == pytest.approx(float(before.std()), rel=0.1)
    assert torch.equal(weight[490:], before[490:])


def test_initialization_is_deterministic():
    tokens = np.random.default_rng(1).zipf(1.3, size=20_000) % 300
    weights = []
    for _ in range(2):
        torch.manual_seed(0)
        weights.append(torch.randn(300, 32))
        initialize_from_ppmi(weights[-1], window_ppmi(tokens, len(weights[-1])))
    assert torch.equal(*weights)


def pairs(num_pairs=3000):
    """Sentences of words below 50, each with its translation: the same words plus 50, in another order."""
    generator = np.random.default_rng(0)
    sources = [generator.permutation(50)[:6] for _ in range(num_pairs)]
    tokens = np.stack([np.stack(sources), 50 + generator.permuted(np.stack(sources), axis=1)], 1)
    sentences = np.arange(2 * num_pairs + 1) * 6
    return TokenStore(
        tokens=tokens.ravel(),
        sentences=sentences,
        documents=np.arange(num_pairs + 1) * 2,
        num_characters=1,
        num_words=1,
        num_unknown=0,
        fingerprint="",
    )


def test_translations_start_close():
    store = pairs()
    ppmi = pair_ppmi(store, 101).toarray()
    assert (ppmi[:50, 50:100].argmax(1) == np.arange(50)).all()
    np.testing.assert_allclose(ppmi, ppmi.T, rtol=1e-5)
    assert not ppmi[100].any(), "it does not occur"
    torch.manual_seed(0)
    encoder = FAMILIES["transformer"](
        TransformerConfig(vocab_size=101, width=64, num_layers=2, num_heads=2, inner_width=64, dropout=0.0)
    )
    decoder = encoder.new_decoder()
    initialize_from_parallel_text(encoder, decoder, store)
    near = torch.nn.functional.cosine_similarity(encoder.tokens.weight[:, None], encoder.tokens.weight[None], dim=-1)
    assert (near[:50, 50:100].argmax(1) == torch.arange(50)).float().mean() > 0.9


def test_cross_attention_starts_as_a_copy():
    encoder = FAMILIES["transformer"](
        TransformerConfig(vocab_size=101, width=64, num_layers=2, num_heads=2, inner_width=64, dropout=0.0)
    )
    decoder = encoder.new_decoder()
    initialize_from_parallel_text(encoder, decoder, pairs(100))
    for block in decoder.blocks:
        attention = block.cross_attention
        source = torch.randn(1, 1, 64)
        output, _ = attention(torch.randn(1, 3, 64), attention.keys_values(source), None)
        torch.testing.assert_close(output, 0.7 * source.expand(1, 3, 64), rtol=1e-4, atol=1e-5)


def test_a_cove_starts_by_translating_attended_words():
    store = pairs()
    torch.manual_seed(0)
    cove = FAMILIES["cove"](FAMILIES["cove"].Config(vocab_size=101, width=64, inner_width=64, dropout=0.0))
    decoder = cove.new_decoder()
    vectors = cove.tokens.weight.clone()
    initialize_from_parallel_text(cove, decoder, store)
    assert torch.equal(cove.tokens.weight, vectors) and cove.training
    with torch.inference_mode():
        encoded = cove(Batch.of(torch.arange(50)[:, None]))
        source = decoder.new_state(encoded).source[:, 0]
        attended = torch.tanh(decoder.attend(torch.cat([source, torch.zeros_like(source)], 1)))
        scores = attended @ decoder.score.weight.T
    assert (scores[:, 50:100].argmax(1) == torch.arange(50)).float().mean() > 0.9
    totals = lexical_translation(store, 101).sum(axis=1)
    np.testing.assert_allclose(totals, [0] * 50 + [1] * 50 + [0], atol=1e-5)
