"""The AWD-LSTM of ULMFiT."""

import dataclasses
import math

import pytest
import torch
from torch import nn

from polyseme import ConfigError
from polyseme.batch import Batch
from polyseme.families import build_objective
from polyseme.inference.likelihood import score_texts
from polyseme.layers.linear import quantize
from polyseme.models.ulmfit import Ulmfit, UlmfitConfig, VariationalDropout
from polyseme.objectives.awd_lm import AwdLmConfig
from polyseme.pretrained import Pretrained
from polyseme.tokenization.config import SpecialTokens, TokenizerConfig
from polyseme.tokenization.tokenizer import Tokenizer

DROPOUTS = ("word", "input", "layer", "output", "weight")
LENGTHS = (7, 4, 4, 1)


def build(direction="forward", vocab_size=30, **probabilities):
    torch.manual_seed(0)
    dropouts = {f"{name}_dropout": probabilities.get(name, 0.0) for name in DROPOUTS}
    sizes = {"vocab_size": vocab_size, "width": 6, "inner_width": 9, "num_layers": 3, "max_length": 16}
    return Ulmfit(UlmfitConfig(**sizes, direction=direction, **dropouts))


def some_ids(rows=3, length=7):
    return torch.randint(30, (rows, length), generator=torch.Generator().manual_seed(1))


def reference(encoder, ids, recurrent):
    """All layers, one time step at a time, with these hidden-to-hidden weights."""
    x = encoder.tokens.weight[ids]
    layers = [x]
    for lstm, weight in zip(encoder.recurrent, recurrent, strict=True):
        hidden = cell = torch.zeros(len(ids), weight.shape[1])
        outputs = []
        for step in x.unbind(1):
            gates = step @ lstm.weight_ih_l0.T + lstm.bias_ih_l0 + hidden @ weight.T + lstm.bias_hh_l0
            into, forget, new, out = gates.chunk(4, -1)
            cell = forget.sigmoid() * cell + into.sigmoid() * new.tanh()
            hidden = out.sigmoid() * cell.tanh()
            outputs.append(hidden)
        x = torch.stack(outputs, 1)
        layers.append(x)
    return layers


def test_layers_equal_torch():
    encoder = build().eval()
    encoded = encoder(Batch.of(some_ids()))
    x = encoded.layers[0]
    for lstm, layer in zip(encoder.recurrent, encoded.layers[1:], strict=True):
        peer = nn.LSTM(lstm.input_size, lstm.hidden_size, batch_first=True)
        peer.load_state_dict(lstm.state_dict())
        x, _ = peer(x)
        torch.testing.assert_close(layer, x, atol=1e-6, rtol=1e-5)
    assert encoder.widths == (6, 9, 9, 6)


def test_dropconnect_has_one_mask_for_all_steps():
    encoder = build(weight=0.5).train()
    torch.manual_seed(5)
    found = encoder(Batch.of(some_ids())).layers
    torch.manual_seed(5)
    dropped = [encoder.drop_weights(lstm.weight_hh_l0) for lstm in encoder.recurrent]
    for weight, lstm in zip(dropped, encoder.recurrent, strict=True):
        nonzero = weight != 0
        assert 0.3 < nonzero.float().mean() < 0.7
        torch.testing.assert_close(weight[nonzero], 2 * lstm.weight_hh_l0[nonzero])
    for layer, expected in zip(found, reference(encoder, some_ids(), dropped), strict=True):
        torch.testing.assert_close(layer, expected, atol=1e-6, rtol=1e-5)
    again = encoder(Batch.of(some_ids())).layers[-1]
    assert not torch.allclose(again, found[-1]), "each forward pass has another mask"


def test_embedding_dropout_drops_whole_words():
    encoder = build(word=0.25).train()
    ids = some_ids(rows=20, length=20)
    layer = encoder(Batch.of(ids)).layers[0]
    factors = {}
    for id, vector in zip(ids.flatten().tolist(), layer.flatten(0, 1), strict=True):
        dropped = not vector.any()
        factors.setdefault(id, dropped)
        assert factors[id] == dropped, "a word is dropped everywhere or nowhere"
        torch.testing.assert_close(vector, (0 if dropped else 4 / 3) * encoder.tokens.weight[id])
    assert 0 < sum(factors.values()) < 20


def test_variational_dropout_has_one_mask_per_sequence():
    torch.manual_seed(0)
    masks = VariationalDropout(0.5)(torch.ones(50, 4, 40))
    assert torch.equal(masks, masks[:, :1].expand(-1, 4, -1))
    assert set(masks.unique().tolist()) == {0.0, 2.0}
    assert masks.mean() == pytest.approx(1, abs=0.05)
    assert not torch.equal(masks[0], masks[1])


@pytest.mark.parametrize("where", ["input", "layer"])
def test_where_variational_dropout_is_applied(where):
    """Dropout between layers affects the next layer; the returned layers have none."""
    encoder = build(**{where: 0.5}).train()
    torch.manual_seed(5)
    _, first, second, _ = encoder(Batch.of(some_ids())).layers
    torch.manual_seed(5)
    if where == "input":
        x = encoder.drop_input(encoder.tokens.weight[some_ids()])
        torch.testing.assert_close(first, encoder.recurrent[0](x)[0], atol=1e-6, rtol=1e-5)
    else:
        x = encoder.drop_between(encoder.recurrent[0](encoder.tokens.weight[some_ids()])[0])
        torch.testing.assert_close(second, encoder.recurrent[1](x)[0], atol=1e-6, rtol=1e-5)


def test_dropout_multiplier_zero_disables_all_dropout():
    config = UlmfitConfig(vocab_size=30, width=6, inner_width=9, dropout=0.0)
    encoder = Ulmfit(config).train()
    plain = reference(encoder, some_ids(), [lstm.weight_hh_l0 for lstm in encoder.recurrent])
    torch.testing.assert_close(encoder(Batch.of(some_ids())).layers[-1], plain[-1], atol=1e-6, rtol=1e-5)


def test_backward_equals_forward_on_reversed_sequences():
    forward, backward = build().eval(), build("backward").eval()
    assert (forward.context, backward.context) == ("left", "right")
    flipped = forward(Batch.of(some_ids().flip(1)))
    encoded = backward(Batch.of(some_ids()))
    for ours, theirs in zip(encoded.layers, flipped.layers, strict=True):
        torch.testing.assert_close(ours, theirs.flip(1))
    torch.testing.assert_close(backward.pool(encoded), forward.pool(flipped))
    for name, tensor in flipped.state.recurrent_state.items():
        torch.testing.assert_close(encoded.state.recurrent_state[name], tensor)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_padded_and_packed_sequences(direction):
    encoder = build(direction).eval()
    rows = [some_ids(1, length) for length in LENGTHS]
    mask = torch.arange(7) < torch.tensor(LENGTHS)[:, None]
    ids = torch.full(mask.shape, 3).masked_scatter(mask, torch.cat(rows, 1))
    padded, packed = encoder(Batch(ids=ids, mask=mask)), encoder(Batch.of(torch.cat(rows, 1), packed_lengths=LENGTHS))
    for layer, (wide, flat) in enumerate(zip(padded.layers, packed.layers, strict=True)):
        alone = [encoder(Batch.of(row)).layers[layer][0] for row in rows]
        torch.testing.assert_close(flat[0], torch.cat(alone))
        torch.testing.assert_close(wide[mask], torch.cat(alone))
    torch.testing.assert_close(encoder.pool(padded), encoder.pool(packed))


def test_base_has_the_published_number_of_parameters():
    with torch.device("meta"):
        encoder = Ulmfit(UlmfitConfig(vocab_size=33_278))  # the words of WikiText-2
        objective = build_objective(AwdLmConfig(), encoder, SpecialTokens())
    number = sum(weight.numel() for weight in [*encoder.parameters(), *objective.parameters()])
    gates = [(400 + 1150, 1150), (1150 + 1150, 1150), (1150 + 400, 400)]
    assert number == 33_278 * 401 + sum(4 * width * (inputs + 2) for inputs, width in gates) == 33_556_078  # 33M


@pytest.mark.parametrize("direction", ["forward", "backward"])
@torch.no_grad()
def test_likelihood_of_a_text(direction, documents):
    tokenizer = Tokenizer.train(TokenizerConfig(kind="word", specials="plain"), documents, vocab_size=300)
    encoder = build(direction, vocab_size=tokenizer.vocab_size).eval()
    objective = build_objective(AwdLmConfig(), encoder, SpecialTokens()).eval()
    nn.init.normal_(objective.causal_lm.bias)
    text = "the old bank by the river"
    (score, other) = score_texts(encoder, objective.causal_lm, tokenizer, [text, "the bank"])
    ids = tokenizer.encode(text).ids
    read = [tokenizer.specials.end, *(ids if direction == "forward" else ids[::-1])]
    forward = build(vocab_size=tokenizer.vocab_size).eval()
    hidden = forward(Batch.of(torch.tensor([read]))).layers[-1]
    log_probabilities = objective.causal_lm.logits(forward, hidden).log_softmax(-1)[0]
    nll = -sum(float(log_probabilities[position, id]) for position, id in enumerate(read[1:]))
    assert score.nats == pytest.approx(nll, rel=1e-5)
    assert score.perplexity == pytest.approx(math.exp(nll / 6), rel=1e-4)
    assert other.num_tokens == 2


def test_a_backward_model_cannot_generate(documents, tmp_path):
    tokenizer = Tokenizer.train(TokenizerConfig(kind="word", specials="plain"), documents, vocab_size=300)
    encoder = build("backward", vocab_size=tokenizer.vocab_size).eval()
    objective = build_objective(AwdLmConfig(), encoder, tokenizer.specials).eval()
    model = Pretrained(
        folder=tmp_path, family="ulmfit", encoder=encoder, objective=objective, tokenizer=tokenizer, recipe=None
    )
    with pytest.raises(ConfigError, match="cannot generate"):
        model.generate("the")
    assert model.embed(["the old bank", "bank"]).shape == (2, 6)
    forward = dataclasses.replace(model, encoder=build(vocab_size=tokenizer.vocab_size).eval())
    assert forward.generate("the bank", max_tokens=3)
    quantize(forward.encoder)
    assert forward.generate("the bank", max_tokens=3) and forward.score(["the bank"])[0].nats > 0
