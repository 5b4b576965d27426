"""ELMo: character CNN, bidirectional LSTM and state, against the equations of the paper."""

import math

import numpy as np
import pytest
import torch

from polyseme.batch import Batch
from polyseme.errors import ConfigError
from polyseme.models.elmo import Elmo, ElmoConfig, character_ids
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.tokenizer import Tokenizer

SIZES = ElmoConfig(
    vocab_size=40,
    width=6,
    cell_width=9,
    character_width=3,
    filters=((1, 4), (2, 5), (3, 6)),
    dropout=0.0,
    projection_clip=0.3,
)


@pytest.fixture(scope="module")
def elmo():
    torch.manual_seed(0)
    encoder = Elmo(SIZES).eval()
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.mul_(2.0)  # so that values are clipped
    return encoder


def test_character_ids_are_bytes_between_markers():
    characters = character_ids(["at", "银", "x" * 60], 50)
    assert characters[0].tolist() == [258, 97, 116, 259] + [260] * 46
    assert characters[1].tolist() == [258, *"银".encode(), 259] + [260] * 45
    assert characters[2].tolist() == [258] + [ord("x")] * 48 + [259]


def test_sentence_markers_have_characters_of_their_own(documents):
    config = TokenizerConfig(kind="word", specials="elmo", lowercase=False, min_count=1)
    tokenizer = Tokenizer.train(config, documents, vocab_size=60)
    assert [tokenizer.token(id) for id in range(3)] == ["<S>", "</S>", "<UNK>"]
    assert tokenizer.special_template == ([0], [1]) and tokenizer.generation_prefix == [0]
    encoder = Elmo(SIZES.replace(vocab_size=tokenizer.vocab_size))
    encoder.set_tokenizer(tokenizer)
    assert encoder.tokens.vocabulary[:2, :4].tolist() == [[258, 256, 259, 260], [258, 257, 259, 260]]
    for id in range(2, tokenizer.vocab_size):
        assert bytes(n for n in encoder.tokens.vocabulary[id].tolist() if n < 256).decode() == tokenizer.token(id)


def reference_words(weights, characters):
    """Word vectors by the equations of the paper, one by one."""
    vectors = []
    for embedded in weights["tokens.characters.weight"][characters]:
        found = []
        for number, (width, num_filters) in enumerate(SIZES.filters):
            filters, bias = (weights[f"tokens.filters.{number}.{kind}"] for kind in ("weight", "bias"))
            windows = [embedded[start : start + width] for start in range(len(embedded) - width + 1)]
            sums = [[(filters[n] * window.T).sum() + bias[n] for n in range(num_filters)] for window in windows]
            found.append(np.maximum(np.max(sums, axis=0), 0))
        x = np.concatenate(found)
        for number in range(SIZES.num_highways):
            carry, transform = (
                weights[f"tokens.highways.{number}.{gate}.weight"] @ x
                + weights[f"tokens.highways.{number}.{gate}.bias"]
                for gate in ("carry", "transform")
            )
            gate = sigmoid(carry)
            x = gate * np.maximum(transform, 0) + (1 - gate) * x
        vectors.append(weights["tokens.projection.weight"] @ x + weights["tokens.projection.bias"])
    return np.array(vectors)


def reference_direction(weights, words, direction):
    """Layers of one direction, in reading order."""
    layers = [words]
    for number in range(SIZES.num_layers):
        read, recurrent, bias, projection = (
            weights[f"layers.{number}.{direction}.{name}"] for name in ("input", "recurrent", "bias", "projection")
        )
        hidden, cell = np.zeros(SIZES.width), np.zeros(SIZES.cell_width)
        outputs = []
        for x in layers[-1]:
            i, f, o, g = np.split(read @ x + recurrent @ hidden + bias, 4)
            cell = np.clip(sigmoid(f + 1) * cell + sigmoid(i) * np.tanh(g), -SIZES.cell_clip, SIZES.cell_clip)
            hidden = np.clip(projection @ (sigmoid(o) * np.tanh(cell)), -SIZES.projection_clip, SIZES.projection_clip)
            outputs.append(hidden + x if number else hidden)
        layers.append(np.array(outputs))
    return layers


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_equations_of_the_paper(elmo):
    weights = {name: weight.double().numpy() for name, weight in elmo.state_dict().items() if "vocabulary" not in name}
    ids = torch.tensor([[3, 17, 5, 17, 30]])
    words = reference_words(weights, elmo.tokens.vocabulary[ids[0]].numpy())
    left, right = reference_direction(weights, words, 0), reference_direction(weights, words[::-1], 1)
    encoded = elmo(Batch.of(ids))
    assert len(encoded.layers) == SIZES.num_layers + 1
    for layer, forward, backward in zip(encoded.layers, left, right, strict=True):
        expected = np.concatenate([forward, backward[::-1]], 1)
        np.testing.assert_allclose(layer[0].detach().numpy(), expected, atol=1e-5)
    assert any((np.abs(layer) == SIZES.projection_clip).any() for layer in left[1:2])


def test_padding_of_the_batch_does_not_change_word_vectors(elmo):
    characters = character_ids(["a", "of", "x" * 48, "x" * 47, "house"], SIZES.max_characters)
    alone = torch.cat([elmo.tokens.encode(one[None]) for one in characters])
    torch.testing.assert_close(elmo.tokens.encode(characters), alone)


def test_embedding_weight_equals_layer_zero(elmo):
    ids = torch.arange(SIZES.vocab_size)[None]
    torch.testing.assert_close(elmo.tokens.weight, elmo(Batch.of(ids)).layers[0][0, :, : SIZES.width])
    assert elmo.tokens.weight.shape == (SIZES.vocab_size, SIZES.width)


def test_oov_words_are_encoded(elmo):
    characters = elmo.oov_characters(["zebra", "07"])
    ids = torch.tensor([[4, 40, 7, 41]])
    layers = elmo(Batch.of(ids, oov_characters=characters)).layers
    torch.testing.assert_close(layers[0][0, 1, : SIZES.width], elmo.tokens.encode(characters)[0])
    # Without a tokenizer, word 7 has the characters 07.
    torch.testing.assert_close(layers[0][0, 3], layers[0][0, 2])


@pytest.mark.parametrize("cut", [1, 3])
def test_state_of_both_directions(elmo, cut):
    """The state is that after the last real word of each row, in reading direction."""
    rows = torch.tensor([[4, 9, 2, 8, 11, 3], [5, 6, 7, 21, 22, 23]])
    whole = elmo(Batch.of(rows)).layers
    first, second = elmo(Batch.of(rows[:, :cut])), rows[:, cut:]
    continued = elmo(Batch.of(second), first.state).layers
    torch.testing.assert_close(continued[-1][:, :, : SIZES.width], whole[-1][:, cut:, : SIZES.width])
    padding = torch.full((2, 2), 30)
    mask = torch.tensor([[True] * cut + [False] * 2] * 2)
    padded = elmo(Batch(ids=torch.cat([rows[:, :cut], padding], 1), mask=mask)).state
    for name, tensor in first.state.recurrent_state.items():
        torch.testing.assert_close(padded.recurrent_state[name], tensor)
    assert first.state.length == cut

    later = elmo(Batch.of(rows[:, cut:]))
    earlier = elmo(Batch.of(rows[:, :cut]), later.state).layers
    torch.testing.assert_close(earlier[-1][:, :, SIZES.width :], whole[-1][:, :cut, SIZES.width :])


def test_backward_ids_are_in_reading_order(elmo):
    ids, backward_ids = torch.tensor([[4, 9, 2]]), torch.tensor([[8, 11, 3]])
    together = elmo(Batch.of(ids, backward_ids=backward_ids)).layers[-1]
    torch.testing.assert_close(together[..., : SIZES.width], elmo(Batch.of(ids)).layers[-1][..., : SIZES.width])
    backward = elmo(Batch.of(backward_ids.flip(1))).layers[-1].flip(1)
    torch.testing.assert_close(together[..., SIZES.width :], backward[..., SIZES.width :])


@pytest.mark.parametrize("filters", [((0, 4),), ((51, 4),), ((3, 0),), ()])
def test_invalid_filters_are_rejected(filters):
    with pytest.raises(ConfigError, match="filters"):
        ElmoConfig.parse({"filters": filters}, group="model")


def test_highway_gates_start_mostly_closed():
    highway = Elmo(SIZES).tokens.highways[0]
    assert torch.sigmoid(highway.carry.bias).mean().item() == pytest.approx(1 / (1 + math.exp(2)))


def test_convolution_shapes_are_rounded_up():
    elmo = Elmo(ElmoConfig(vocab_size=300, width=8, cell_width=8, filters=((1, 4), (2, 4)), num_highways=1))
    sizes = []
    elmo.tokens.filters[0].register_forward_hook(lambda _, inputs, __: sizes.append(inputs[0].shape))
    with torch.no_grad():
        vectors = [elmo.tokens.encode(elmo.tokens.vocabulary[:number]) for number in (3, 50, 128)]
    assert len(set(sizes)) == 1, "torch caches a primitive per shape"
    assert [len(some) for some in vectors] == [3, 50, 128]
    torch.testing.assert_close(vectors[0], vectors[2][:3])
