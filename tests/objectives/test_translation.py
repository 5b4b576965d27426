import numpy as np
import pytest
import torch
import torch.nn.functional as F

from polyseme.errors import DataError
from polyseme.models.transformer import Transformer, TransformerConfig
from polyseme.objectives import Source
from polyseme.objectives.translation import Translation, TranslationConfig
from polyseme.tensors import IGNORED
from polyseme.text.parallel import split_pair
from polyseme.text.store import Store
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.vocabulary import TokenizerConfig

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(
        TokenizerConfig(kind="word", specials="plain", min_count=1), [" ".join(WORDS)], vocab_size=40
    )


@pytest.fixture(scope="module")
def store(tokenizer):
    chance = np.random.default_rng(0)
    pairs = []
    for _ in range(300):
        source, target = (chance.choice(WORDS, size=chance.integers(1, 20)) for _ in range(2))
        pairs.append(" ".join(source) + "\n" + " ".join(target))
    return Store.from_documents(pairs, tokenizer, split=split_pair)


def build(tokenizer, smoothing=0.1):
    torch.manual_seed(0)
    sizes = {"vocab_size": tokenizer.vocab_size, "width": 16, "num_layers": 1, "num_heads": 2, "dropout": 0.0}
    encoder = Transformer(TransformerConfig(**sizes, max_length=32))
    return encoder, Translation(TranslationConfig(smoothing=smoothing), encoder, tokenizer.specials)


def rows(batch):
    sources = [row[mask].tolist() for row, mask in zip(batch.ids, batch.mask, strict=True)]
    targets = [row[row != IGNORED].tolist() for row in batch.labels["translation"]]
    return [(tuple(source), tuple(target)) for source, target in zip(sources, targets, strict=True)]


def num_batches(objective, source):
    objective.batch(source, seed=0, step=0)
    return len(objective._cuts[1].bounds) - 1


def test_an_epoch_has_every_pair_once(tokenizer, store):
    _, objective = build(tokenizer)
    source = Source(store, 20, 10)
    expected = sorted(
        (tuple(store.tokens[a:b].tolist()), tuple(store.tokens[b:c].tolist()))
        for a, b, c in zip(store.sentences[0:-2:2], store.sentences[1::2], store.sentences[2::2], strict=True)
    )
    total = num_batches(objective, source)
    orders = []
    for epoch in range(2):
        drawn = [objective.batch(source, seed=3, step=epoch * total + step) for step in range(total)]
        assert sorted(pair for batch in drawn for pair in rows(batch)) == expected
        orders.append([pair for batch in drawn for pair in rows(batch)])
    assert orders[0] != orders[1]


def test_batches_are_full_and_hold_pairs_of_similar_length(tokenizer, store):
    _, objective = build(tokenizer)
    source = Source(store, 20, 20)
    drawn = [objective.batch(source, seed=0, step=step) for step in range(num_batches(objective, source))]
    for batch in drawn:
        assert batch.ids.numel() + batch.labels["translation"].numel() <= 400
        longest = [max(len(a), len(b)) for a, b in rows(batch)]
        assert max(longest) - min(longest) <= 8
    assert np.mean([2 * max(b.ids.shape[1], b.labels["translation"].shape[1]) * len(b.ids) for b in drawn]) > 300


def test_what_is_too_long_is_left_out(tokenizer, store):
    _, objective = build(tokenizer)
    source = Source(store, 10, 10)
    drawn = [objective.batch(source, seed=0, step=step) for step in range(num_batches(objective, source))]
    assert all(max(len(a), len(b)) <= 10 for batch in drawn for a, b in rows(batch))
    assert 20 < sum(len(batch.ids) for batch in drawn) < 300
    short = Store.from_documents(["one two three four\nfive"], tokenizer, split=split_pair)
    with pytest.raises(DataError, match="no pair of sentences of at most 3 tokens"):
        objective.batch(Source(short, 3, 10), seed=0, step=0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_cost_is_that_of_smoothed_answers(tokenizer, store, smoothing):
    encoder, objective = build(tokenizer, smoothing)
    batch = objective.batch(Source(store, 20, 10), seed=0, step=0)
    labels = batch.labels["translation"]
    before = torch.cat([torch.full((len(labels), 1), objective.start), labels[:, :-1].clamp_min(0)], 1)
    encoded = encoder(batch)
    hidden = objective.decoder(encoder, before, objective.decoder.begin(encoded)).hidden
    nats = -objective.logits(encoder, hidden).log_softmax(-1)[labels != IGNORED]  # (N, V)
    answers = F.one_hot(labels[labels != IGNORED], nats.shape[1]).float() * (1 - smoothing)
    others = torch.ones(nats.shape[1])
    others[objective.pad] = 0
    answers += smoothing * others / others.sum()
    torch.testing.assert_close(answers.sum(1), torch.ones(len(answers)))
    weight = encoder.tokens.weight
    (expected,) = torch.autograd.grad((answers * nats).sum(), weight, retain_graph=True)
    loss = objective.train()(encoder, batch).losses["translation"]
    torch.testing.assert_close(loss, (answers * nats).sum(), rtol=1e-5, atol=1e-3)
    torch.testing.assert_close(torch.autograd.grad(loss, weight)[0], expected, rtol=1e-4, atol=1e-4)
    plain = objective.eval()(encoder, batch)
    torch.testing.assert_close(
        plain.losses["translation"], nats.gather(1, labels[labels != IGNORED][:, None]).sum(), rtol=1e-5, atol=1e-3
    )


def test_padding_costs_nothing(tokenizer, store):
    encoder, objective = build(tokenizer)
    batch = objective.batch(Source(store, 20, 10), seed=0, step=1)
    alone = [objective(encoder, row).losses["translation"] for row in batch.split(1)]
    trimmed = 0.0
    for source, target in rows(batch):
        from polyseme.tensors import Batch

        row = Batch.of(torch.tensor([source])).labelled("translation", torch.tensor([target]))
        trimmed += objective(encoder, row).losses["translation"]
    together = objective(encoder, batch).losses["translation"]
    torch.testing.assert_close(together, torch.stack(alone).sum(), rtol=1e-5, atol=1e-3)
    torch.testing.assert_close(together, trimmed, rtol=1e-5, atol=1e-3)
