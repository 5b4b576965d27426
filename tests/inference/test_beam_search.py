"""Beam search finds the best translation, whatever the batch."""

import itertools
import math

import pytest
import torch

from polyseme.batch import Batch
from polyseme.inference.beam_search import BeamSearchConfig, cross_attention, translate_ids
from polyseme.models.cove import Cove, CoveConfig
from polyseme.models.transformer import Transformer, TransformerConfig
from polyseme.objectives.translation import Translation, TranslationConfig
from polyseme.tokenization.config import SpecialTokens

SPECIALS = SpecialTokens(pad=0, unknown=1, start=2, separator=3, end=3)
ROWS = [[4, 5, 6, 7], [5], [6, 6, 4], [7, 4], [4, 5, 6, 7, 4, 5]]


def build(family="transformer", max_length=12, vocab_size=8):
    torch.manual_seed(1)
    if family == "transformer":
        sizes = {"width": 8, "num_layers": 1, "num_heads": 2}
        encoder = Transformer(TransformerConfig(vocab_size=vocab_size, max_length=max_length, **sizes))
        torch.nn.init.normal_(encoder.tokens.weight, std=0.6)
    else:
        encoder = Cove(CoveConfig(vocab_size=vocab_size, max_length=max_length, width=8, inner_width=6))
    head = Translation(TranslationConfig(), encoder, SPECIALS)
    if family == "cove":
        for weight in head.parameters():
            torch.nn.init.normal_(weight, std=0.8)
    return encoder.eval(), head.eval()


@torch.inference_mode()
def token_nll(encoder, head, source, target):
    """The log-likelihood of a translation with its end token."""
    encoded = encoder(Batch.of(torch.tensor([source])))
    before = torch.tensor([[head.start, *target]])
    hidden = head.decoder(encoder, before, head.decoder.new_state(encoded)).hidden[0]
    log_probabilities = head.logits(encoder, hidden).log_softmax(-1)
    return sum(float(log_probabilities[place, token]) for place, token in enumerate([*target, head.end]))


@pytest.mark.parametrize("family", ["transformer", "cove"])
@pytest.mark.parametrize("penalty", [0.0, 0.6, 2.0])
def test_a_wide_beam_finds_the_best_translation(family, penalty):
    encoder, head = build(family, max_length=4)
    words = range(4, 8)
    every = [list(text) for length in range(4) for text in itertools.product(words, repeat=length)]
    rows = [row for row in ROWS if len(row) <= 4]
    found = translate_ids(encoder, head, rows, BeamSearchConfig(beam_size=100, length_penalty=penalty))
    for row, text in zip(rows, found, strict=True):
        scores = {tuple(t): token_nll(encoder, head, row, t) / ((5 + len(t) + 1) / 6) ** penalty for t in every}
        assert scores[tuple(text)] == pytest.approx(max(scores.values()), abs=1e-4)


@pytest.mark.parametrize("family", ["transformer", "cove"])
def test_a_beam_of_one_is_greedy_decoding(family):
    encoder, head = build(family)
    for row, found in zip(
        ROWS, translate_ids(encoder, head, ROWS, BeamSearchConfig(beam_size=1, max_extra=3)), strict=True
    ):
        text = []
        with torch.inference_mode():
            encoded = encoder(Batch.of(torch.tensor([row])))
            while len(text) < min(12, len(row) + 3):
                before = torch.tensor([[head.start, *text]])
                hidden = head.decoder(encoder, before, head.decoder.new_state(encoded)).hidden[0, -1]
                logits = head.logits(encoder, hidden)
                logits[[0, 1, 2]] = -math.inf
                if int(logits.argmax()) == head.end:
                    break
                text.append(int(logits.argmax()))
        assert found == text


@pytest.mark.parametrize("family", ["transformer", "cove"])
def test_translations_do_not_depend_on_the_batch(family):
    encoder, head = build(family)
    beam = BeamSearchConfig(beam_size=3, max_extra=6)
    together = translate_ids(encoder, head, ROWS, beam)
    assert together == [translate_ids(encoder, head, [row], beam)[0] for row in ROWS]
    assert all(not {0, 1, 2, 3} & set(text) for text in together)


def test_cross_attention_weights():
    encoder, head = build()
    weights = cross_attention(encoder, head, ROWS[0], [5, 6, 7])
    assert weights.shape == (3, 4)
    torch.testing.assert_close(weights.sum(1), torch.ones(3))
    assert cross_attention(encoder, head, ROWS[0], []).shape == (0, 4)
