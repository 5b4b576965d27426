"""The translation objective."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from polyseme.batch import IGNORED, Batch
from polyseme.corpora.corpus import ParallelCorpus
from polyseme.datasets.token_store import TokenStore
from polyseme.errors import DataError
from polyseme.models.transformer import Transformer, TransformerConfig
from polyseme.objectives.sources import TokenSource
from polyseme.objectives.translation import Translation, TranslationConfig, _bucket_pairs
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.tokenizer import Tokenizer

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(
        TokenizerConfig(kind="word", specials="plain", min_count=1), [" ".join(WORDS)], vocab_size=40
    )


@pytest.fixture(scope="module")
def store(tokenizer):
    generator = np.random.default_rng(0)
    pairs = []
    for _ in range(300):
        source, target = (generator.choice(WORDS, size=generator.integers(1, 20)) for _ in range(2))
        pairs.append(" ".join(source) + "\n" + " ".join(target))
    return TokenStore.from_documents(pairs, tokenizer, split=ParallelCorpus.split_document)


def build(tokenizer, smoothing=0.1):
    torch.manual_seed(0)
    sizes = {"vocab_size": tokenizer.vocab_size, "width": 16, "num_layers": 1, "num_heads": 2, "dropout": 0.0}
    encoder = Transformer(TransformerConfig(**sizes, max_length=32))
    return encoder, Translation(TranslationConfig(smoothing=smoothing), encoder, tokenizer.specials)


def rows(batch):
    sources = [row[mask].tolist() for row, mask in zip(batch.ids, batch.mask, strict=True)]
    targets = [row[row != IGNORED].tolist() for row in batch.labels["translation"]]
    return [(tuple(source), tuple(target)) for source, target in zip(sources, targets, strict=True)]


def num_batches(source):
    return len(_bucket_pairs(source.store, source.length, source.num_rows * source.length)[0])


def test_an_epoch_visits_every_pair_once(tokenizer, store):
    _, objective = build(tokenizer)
    source = TokenSource(store, 20, 10)
    expected = sorted(
        (tuple(store.tokens[a:b].tolist()), tuple(store.tokens[b:c].tolist()))
        for a, b, c in zip(store.sentences[0:-2:2], store.sentences[1::2], store.sentences[2::2], strict=True)
    )
    total = num_batches(source)
    orders = []
    for epoch in range(2):
        batches = [objective.batch(source, seed=3, step=epoch * total + step) for step in range(total)]
        assert sorted(pair for batch in batches for pair in rows(batch)) == expected
        orders.append([pair for batch in batches for pair in rows(batch)])
    assert orders[0] != orders[1]


def test_batches_are_full_and_bucketed_by_length(tokenizer, store):
    _, objective = build(tokenizer)
    source = TokenSource(store, 20, 20)
    batches = [objective.batch(source, seed=0, step=step) for step in range(num_batches(source))]
    for batch in batches:
        assert batch.ids.numel() + batch.labels["translation"].numel() <= 400
        longest = [max(len(a), len(b)) for a, b in rows(batch)]
        assert max(longest) - min(longest) <= 8
    assert np.mean([2 * max(b.ids.shape[1], b.labels["translation"].shape[1]) * len(b.ids) for b in batches]) > 300


def test_long_pairs_are_skipped(tokenizer, store):
    _, objective = build(tokenizer)
    source = TokenSource(store, 10, 10)
    batches = [objective.batch(source, seed=0, step=step) for step in range(num_batches(source))]
    assert all(max(len(a), len(b)) <= 10 for batch in batches for a, b in rows(batch))
    assert 20 < sum(len(batch.ids) for batch in batches) < 300
    short = TokenStore.from_documents(["one two three four\nfive"], tokenizer, split=ParallelCorpus.split_document)
    with pytest.raises(DataError, match="at most 3 tokens"):
        objective.batch(TokenSource(short, 3, 10), seed=0, step=0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_uses_smoothed_targets(tokenizer, store, smoothing):
    encoder, objective = build(tokenizer, smoothing)
    batch = objective.batch(TokenSource(store, 20, 10), seed=0, step=0)
    labels = batch.labels["translation"]
    inputs = torch.cat([torch.full((len(labels), 1), objective.start), labels[:, :-1].clamp_min(0)], 1)
    encoded = encoder(batch)
    hidden = objective.decoder(encoder, inputs, objective.decoder.new_state(encoded)).hidden
    nll = -objective.logits(encoder, hidden).log_softmax(-1)[labels != IGNORED]  # (N, V)
    targets = F.one_hot(labels[labels != IGNORED], nll.shape[1]).float() * (1 - smoothing)
    others = torch.ones(nll.shape[1])
    others[objective.pad] = 0
    targets += smoothing * others / others.sum()
    torch.testing.assert_close(targets.sum(1), torch.ones(len(targets)))
    weight = encoder.tokens.weight
    (expected,) = torch.autograd.grad((targets * nll).sum(), weight, retain_graph=True)
    loss = objective.train()(encoder, batch).losses["translation"]
    torch.testing.assert_close(loss, (targets * nll).sum(), rtol=1e-5, atol=1e-3)
    torch.testing.assert_close(torch.autograd.grad(loss, weight)[0], expected, rtol=1e-4, atol=1e-4)
    plain = objective.eval()(encoder, batch)
    torch.testing.assert_close(
        plain.losses["translation"], nll.gather(1, labels[labels != IGNORED][:, None]).sum(), rtol=1e-5, atol=1e-3
    )


def test_padding_adds_no_loss(tokenizer, store):
    encoder, objective = build(tokenizer)
    batch = objective.batch(TokenSource(store, 20, 10), seed=0, step=1)
    alone = [objective(encoder, row).losses["translation"] for row in batch.split(1)]
    trimmed = 0.0
    for source, target in rows(batch):
        row = Batch.of(torch.tensor([source])).with_labels("translation", torch.tensor([target]))
        trimmed += objective(encoder, row).losses["translation"]
    together = objective(encoder, batch).losses["translation"]
    torch.testing.assert_close(together, torch.stack(alone).sum(), rtol=1e-5, atol=1e-3)
    torch.testing.assert_close(together, trimmed, rtol=1e-5, atol=1e-3)
