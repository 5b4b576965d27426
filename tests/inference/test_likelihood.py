"""Scores computed by hand: OOV words, two directions, continuations, windows, batching."""

import dataclasses
import math
from functools import partial

import pytest
import torch
from tests.evaluation.random_models import random_model

from polyseme.batch import Batch
from polyseme.corpora.sentence_splitting import split_sentences
from polyseme.errors import ConfigError
from polyseme.inference.batching import bucket_by_length, pack
from polyseme.inference.scores import total

FAMILIES = ["gpt2", "gpt", "nnlm", "ulmfit", "elmo", "bert", "albert"]
LONG = "the spring behind the mill was dry and the new bank in town does not lend money. " * 6
TEXTS = ["the old bank by the river", "a", "", LONG, "the quagga slept. 她在苹果公司上班。", "She lit a match!"]


@pytest.fixture(scope="module")
def models(documents):
    return {family: random_model(family, documents) for family in FAMILIES}


def log_probabilities(model, ids, direction=0):
    """Log-probabilities of the next token, or with direction 1 of the previous one, (T, V)."""
    head = model.objective.parts[0]
    with torch.inference_mode():
        encoded = model.encoder(Batch.of(torch.tensor([ids])))
        hidden = encoded.layers[-1].chunk(2, -1)[direction] if model.family == "elmo" else encoded.layers[-1]
        return head.logits(model.encoder, hidden)[0].double().log_softmax(-1)


@pytest.mark.parametrize("family", ["nnlm", "ulmfit"])
def test_oov_words_are_charged_for_their_spelling(models, family, documents):
    model = models[family]
    if family == "ulmfit":
        model = random_model("ulmfit", documents, "tokenizer.kind=word")
    tokenizer = model.tokenizer
    text = "the Quagga slept by the zebra"
    ids = tokenizer.encode(text, specials=False).ids
    unknown = tokenizer.specials.unknown
    assert [id == unknown for id in ids] == [False, True, False, False, False, True]
    logs = log_probabilities(model, [tokenizer.specials.end, *ids])
    words = ["quagga" if family == "nnlm" else tokenizer.normalize("Quagga"), "zebra"]
    spelling = sum(tokenizer.oov_model.nll(word) for word in words)
    (score,) = model.score([text])
    assert score.num_oov == 2 and score.oov_nats == pytest.approx(spelling) and spelling > 10
    expected = spelling - sum(float(logs[place, id]) for place, id in enumerate(ids))
    assert score.nats == pytest.approx(expected, rel=1e-6)
    assert score.bits_per_character == pytest.approx(expected / math.log(2) / len(text), rel=1e-6)


def test_a_literal_unk_is_not_an_oov_word(models):
    assert models["nnlm"].score(["the <unk> slept"])[0].oov_nats == 0


def test_known_words_have_no_spelling_cost(models):
    assert models["nnlm"].score(["the old bank by the river"])[0].num_oov == 0
    assert models["gpt2"].score(["the quagga 银行 \U0001f40e"])[0].num_oov == 0


def test_bidirectional_scores_by_hand(models):
    """Two sentences between boundary tokens; each direction scores the boundary that it arrives at."""
    model = models["elmo"]
    tokenizer = model.tokenizer
    start, end = tokenizer.specials.start, tokenizer.specials.end
    sentences = [tokenizer.encode(one, specials=False).ids for one in ("the old bank lends.", "She lit a quagga.")]
    ids = [token for one in sentences for token in (start, *one, end)]
    forward, backward = log_probabilities(model, ids, 0), log_probabilities(model, ids, 1)
    left = -sum(float(forward[place - 1, id]) for place, id in enumerate(ids) if id != start)
    right = -sum(float(backward[place + 1, id]) for place, id in enumerate(ids) if id != end)
    (score,) = model.score(["the old bank lends. She lit a quagga."])
    spelling = sum(map(tokenizer.oov_model.nll, ["She", "quagga"]))
    assert score.num_tokens == sum(map(len, sentences)) + 2
    assert score.directions == pytest.approx({"forward": left + spelling, "backward": right + spelling}, rel=1e-6)
    assert score.nats == pytest.approx((left + right) / 2 + spelling, rel=1e-6) and abs(left - right) > 0.1
    assert total([score, score]).directions["backward"] == pytest.approx(2 * (right + spelling), rel=1e-6)


SENTENCES = LONG.replace("the spring", "The spring")


def test_long_texts_of_backward_models(documents):
    """By hand: windows of the maximum length, each token scored once."""
    model = random_model("ulmfit", documents, "model.direction=backward")
    turned = [*model.tokenizer.encode(LONG, specials=False).ids, model.tokenizer.specials.end][::-1]
    limit, done, nats = 32, 1, 0.0
    assert len(turned) > 2 * limit
    while done < len(turned):
        begin = max(0, min(done - limit // 2, len(turned) - limit - 1))
        window = turned[begin : begin + limit + 1]
        logs = log_probabilities(model, window[:-1][::-1]).flip(0)
        nats -= sum(float(logs[place - 1, window[place]]) for place in range(done - begin, len(window)))
        done = begin + len(window)
    assert model.score([LONG])[0].nats == pytest.approx(nats, rel=1e-5)


def test_long_texts_of_bidirectional_models(models):
    """By hand: each token is scored once per direction, with half a window of context."""
    model, limit = models["elmo"], 32
    start, end = model.tokenizer.specials.start, model.tokenizer.specials.end
    sentences = [model.tokenizer.encode(one, specials=False).ids for one in split_sentences(SENTENCES)]
    ids = [token for part in sentences for token in (start, *part, end)]
    assert len(sentences) == 6 and len(ids) > 3 * limit
    expected = {"forward": 0.0, "backward": 0.0}
    for place, id in enumerate(ids):
        begins = [*range(0, len(ids) - limit, limit // 2), len(ids) - limit]
        # The first window that comes so far, and the last one that begins so early.
        left = next(begin for begin in begins if begin <= place - 1 and place < begin + limit) if place else None
        right = [begin for begin in begins if begin <= place and place + 1 < begin + limit]
        if id != start:
            assert left == 0 or place - left >= limit // 2
            expected["forward"] -= float(log_probabilities(model, ids[left : left + limit], 0)[place - 1 - left, id])
        if id != end:
            assert right[-1] == begins[-1] or right[-1] + limit - place > limit // 2
            expected["backward"] -= float(
                log_probabilities(model, ids[right[-1] :][:limit], 1)[place + 1 - right[-1], id]
            )
    (score,) = model.score([SENTENCES])
    found = {way: nats - score.oov_nats for way, nats in score.directions.items()}
    assert found == pytest.approx(expected, rel=1e-5) and score.num_tokens == len(ids) - 6


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_do_not_depend_on_batching_or_padding(models, family, monkeypatch):
    model = models[family]
    expected = [model.score([text])[0].nats for text in TEXTS]
    assert expected[2] == 0 and min(expected[:2]) > 0
    for batch_tokens in (1, 40, 100_000):
        with monkeypatch.context() as patch:
            buckets, packs = (
                partial(bucket_by_length, batch_tokens=batch_tokens),
                partial(pack, batch_tokens=batch_tokens),
            )
            patch.setattr("polyseme.inference.likelihood.bucket_by_length", buckets)
            patch.setattr("polyseme.inference.pseudo_likelihood.pack", packs)
            found = model.score(TEXTS[::-1])
        assert [one.nats for one in found][::-1] == pytest.approx(expected, rel=1e-5)

    def wider(rows, device):
        length = max(map(len, rows))
        batch = Batch(
            ids=torch.tensor([[*row, *[7] * (length + 5 - len(row))] for row in rows]),
            mask=torch.tensor([[True] * len(row) + [False] * (length + 5 - len(row)) for row in rows]),
        )
        # A row may be no longer than the model.
        limit = 32 if model.encoder.unlimited_length is False else length + 5
        return dataclasses.replace(batch, ids=batch.ids[:, :limit], mask=batch.mask[:, :limit])

    monkeypatch.setattr("polyseme.inference.likelihood.padded_batch", wider)
    assert [one.nats for one in model.score(TEXTS)] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("family", ["gpt2", "nnlm", "ulmfit", "gpt"])
def test_context_and_continuation_add_up(models, family):
    model = models[family]
    context, text = "the old bank by the river", " lends money to every quagga"
    before, behind = model.score([context])[0], model.score([text], after=[context])[0]
    (whole,) = model.score([context + text])
    assert before.nats + behind.nats == pytest.approx(whole.nats, rel=1e-5)
    assert before.num_tokens + behind.num_tokens == whole.num_tokens
    assert behind.num_oov == whole.num_oov and not behind.is_greedy


def test_continuations_see_as_much_context_as_fits(models):
    model = models["gpt2"]
    ids = model.tokenizer.encode(LONG + "the bank", specials=False).ids[-33:]
    logs = log_probabilities(model, ids[:-1])
    num_new = len(model.tokenizer.encode(" bank", specials=False).ids)
    expected = -sum(float(logs[place - 1, ids[place]]) for place in range(33 - num_new, 33))
    assert model.score([" bank"], after=[LONG + "the"])[0].nats == pytest.approx(expected, rel=1e-5)
    (long,), (whole,), (first,) = model.score([" " + LONG], after=["a"]), model.score(["a " + LONG]), model.score(["a"])
    assert long.num_tokens == whole.num_tokens - first.num_tokens > 200
    assert long.nats == pytest.approx(whole.nats - first.nats, rel=0.01)  # their windows begin at different tokens


def test_greedy_text_is_recognized(models):
    model = models["gpt2"]
    text = model.generate("the old bank", max_tokens=4)
    other, same = model.score([text + "x", text], after=["the old bank"] * 2)
    ids = model.tokenizer.encode("the old bank" + text, specials=False).ids
    if ids[-4:] == model.tokenizer.encode(text, specials=False).ids:  # else other tokens spell the same
        assert same.is_greedy
    assert not other.is_greedy


def test_models_that_cannot_score_continuations(models, documents):
    with pytest.raises(ConfigError, match="cannot score continuations"):
        models["bert"].score(["a"], after=["the"])
    backward = random_model("ulmfit", documents, "model.direction=backward")
    with pytest.raises(ConfigError, match="backward language model"):
        backward.score(["a"], after=["the"])
