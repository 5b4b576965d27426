"""The NNLM against the equation of its paper."""

import math

import pytest
import torch

from polyseme.batch import Batch
from polyseme.families import build_objective
from polyseme.inference.likelihood import score_texts
from polyseme.layers.linear import quantize
from polyseme.models.nnlm import Nnlm, NnlmConfig
from polyseme.objectives.causal_lm import FeedforwardLmConfig
from polyseme.tokenization.config import SpecialTokens, TokenizerConfig
from polyseme.tokenization.tokenizer import Tokenizer


def build(connections, vocab_size=11, order=4):
    torch.manual_seed(0)
    sizes = {"vocab_size": vocab_size, "order": order, "width": 3, "inner_width": 5, "connections": connections}
    encoder = Nnlm(NnlmConfig(**sizes)).eval()
    objective = build_objective(FeedforwardLmConfig(), encoder, SpecialTokens()).eval()
    torch.nn.init.normal_(objective.causal_lm.bias)
    return encoder, objective


@pytest.mark.parametrize("connections", ["hidden", "direct"])
def test_equation_of_the_paper(connections):
    """y = b + Wx + U tanh(d + Hx), where x is the embeddings of the last n - 1 words, nearest first; W is optional."""
    encoder, objective = build(connections)
    ids = torch.tensor([[7, 2, 9, 4, 4]])
    head = objective.causal_lm
    found = head.logits(encoder, encoder(Batch.of(ids)).layers[-1])[0]
    words = encoder.tokens.weight
    for position in range(5):
        window = [words[ids[0, position - back]] if back <= position else torch.zeros(3) for back in range(3)]
        x = torch.cat(window)
        hidden = torch.tanh(encoder.hidden.bias + encoder.hidden.weight @ x)
        scores = head.bias + head.weight[:, :5] @ hidden
        if connections == "direct":
            scores = scores + head.weight[:, 5:] @ x
        torch.testing.assert_close(found[position], scores)


def test_number_of_parameters_of_the_paper():
    config = NnlmConfig()  # V = 16,383, n = 5, m = 30, h = 100
    with torch.device("meta"):
        encoder = Nnlm(config)
        objective = build_objective(FeedforwardLmConfig(), encoder, SpecialTokens())
    number = sum(weight.numel() for weight in [*encoder.parameters(), *objective.parameters()])
    # |V| (1 + m) + h (1 + (n - 1) m) + |V| h, without direct connections
    assert number == 16_383 * (1 + 30) + 100 * (1 + 4 * 30) + 16_383 * 100


def test_perplexity_is_per_word(documents):
    tokenizer = Tokenizer.train(TokenizerConfig(kind="word", specials="plain"), documents, vocab_size=300)
    encoder, objective = build("direct", vocab_size=tokenizer.vocab_size)
    text = "the old bank by the river"
    (score,) = score_texts(encoder, objective.causal_lm, tokenizer, [text])
    ids = tokenizer.encode(text).ids
    row = torch.tensor([[tokenizer.specials.end, *ids]])
    with torch.inference_mode():
        log_probabilities = objective.causal_lm.logits(encoder, encoder(Batch.of(row)).layers[-1]).log_softmax(-1)
    nll = -sum(float(log_probabilities[0, position, id]) for position, id in enumerate(ids))
    assert score.nats == pytest.approx(nll, rel=1e-5)
    assert score.perplexity == pytest.approx(math.exp(nll / 6), rel=1e-4)


def test_quantized_model_continues_from_its_state():
    encoder, _ = build("hidden", vocab_size=64)
    quantize(encoder)
    ids = torch.tensor([[7, 2, 9, 4, 4]])
    state = encoder.new_state(1, 8)
    tops = []
    for part in ids.split(2, dim=1):
        encoded = encoder(Batch.of(part), state)
        state = encoded.state
        tops.append(encoded.layers[-1])
    torch.testing.assert_close(torch.cat(tops, 1), encoder(Batch.of(ids)).layers[-1])
