import math

import pytest
import torch

from polyseme.layers.linear import quantize
from polyseme.models.nnlm import Nnlm, NnlmConfig
from polyseme.objectives import build_objective
from polyseme.objectives.next_word import NextWordConfig
from polyseme.scoring import likelihoods
from polyseme.tensors import Batch
from polyseme.text.tokenizer import Specials, Tokenizer
from polyseme.text.vocabulary import TokenizerConfig


def build(connections, vocab_size=11, order=4):
    torch.manual_seed(0)
    sizes = {"vocab_size": vocab_size, "order": order, "width": 3, "inner_width": 5, "connections": connections}
    encoder = Nnlm(NnlmConfig(**sizes)).eval()
    objective = build_objective(NextWordConfig(), encoder, Specials()).eval()
    torch.nn.init.normal_(objective.next_token.bias)
    return encoder, objective


@pytest.mark.parametrize("connections", ["hidden", "direct"])
def test_the_equation_of_the_paper(connections):
    """y = b + Wx + U tanh(d + Hx), where x is the last n - 1 words, the nearest first; W is optional."""
    encoder, objective = build(connections)
    ids = torch.tensor([[7, 2, 9, 4, 4]])
    head = objective.next_token
    found = head.logits(encoder, encoder(Batch.of(ids)).layers[-1])[0]
    words = encoder.tokens.weight
    for place in range(5):
        seen = [words[ids[0, place - back]] if back <= place else torch.zeros(3) for back in range(3)]
        x = torch.cat(seen)
        hidden = torch.tanh(encoder.hidden.bias + encoder.hidden.weight @ x)
        scores = head.bias + head.weight[:, :5] @ hidden
        if connections == "direct":
            scores = scores + head.weight[:, 5:] @ x
        torch.testing.assert_close(found[place], scores)


def test_the_number_of_weights_is_that_of_the_paper():
    config = NnlmConfig()  # V = 16,383, n = 5, m = 30, h = 100
    with torch.device("meta"):
        encoder = Nnlm(config)
        objective = build_objective(NextWordConfig(), encoder, Specials())
    number = sum(weight.numel() for weight in [*encoder.parameters(), *objective.parameters()])
    # |V| (1 + m) + h (1 + (n - 1) m) + |V| h, without direct connections
    assert number == 16_383 * (1 + 30) + 100 * (1 + 4 * 30) + 16_383 * 100


def test_perplexity_is_that_of_the_words(documents):
    tokenizer = Tokenizer.train(TokenizerConfig(kind="word", specials="plain"), documents, vocab_size=300)
    encoder, objective = build("direct", vocab_size=tokenizer.vocab_size)
    text = "the old bank by the river"
    (score,) = likelihoods(encoder, objective.next_token, tokenizer, [text])
    ids = tokenizer.encode(text).ids
    row = torch.tensor([[tokenizer.specials.end, *ids]])
    with torch.inference_mode():
        chances = objective.next_token.logits(encoder, encoder(Batch.of(row)).layers[-1]).log_softmax(-1)
    nats = -sum(float(chances[0, place, id]) for place, id in enumerate(ids))
    assert score.nats == pytest.approx(nats, rel=1e-5)
    assert score.perplexity == pytest.approx(math.exp(nats / 6), rel=1e-4)


def test_in_bytes_it_goes_on_from_what_it_has_read():
    encoder, _ = build("hidden", vocab_size=64)
    quantize(encoder)
    ids = torch.tensor([[7, 2, 9, 4, 4]])
    state = encoder.begin(1, 8)
    tops = []
    for part in ids.split(2, dim=1):
        encoded = encoder(Batch.of(part), state)
        state = encoded.state
        tops.append(encoded.layers[-1])
    torch.testing.assert_close(torch.cat(tops, 1), encoder(Batch.of(ids)).layers[-1])
