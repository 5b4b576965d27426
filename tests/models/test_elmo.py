"""What sets ELMo apart: words read by their letters, from both ends, with a state."""

import math

import numpy as np
import pytest
import torch

from polyseme.errors import ConfigError
from polyseme.models.elmo import Elmo, ElmoConfig, spell
from polyseme.tensors import Batch
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.vocabulary import TokenizerConfig

SIZES = ElmoConfig(
    vocab_size=40, width=6, cell_width=9, character_width=3, filters=((1, 4), (2, 5), (3, 6)), dropout=0.0, clip=0.3
)


@pytest.fixture(scope="module")
def elmo():
    torch.manual_seed(0)
    encoder = Elmo(SIZES).eval()
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.mul_(2.0)  # so that clips are reached
    return encoder


def test_letters_are_bytes_between_marks():
    spelling = spell(["at", "银", "x" * 60], 50)
    assert spelling[0].tolist() == [258, 97, 116, 259] + [260] * 46
    assert spelling[1].tolist() == [258, *"银".encode(), 259] + [260] * 45
    assert spelling[2].tolist() == [258] + [ord("x")] * 48 + [259]


def test_the_words_around_a_sentence_are_letters_of_their_own(documents):
    config = TokenizerConfig(kind="word", specials="elmo", lowercase=False, min_count=1)
    tokenizer = Tokenizer.train(config, documents, vocab_size=60)
    assert [tokenizer.token(id) for id in range(3)] == ["<S>", "</S>", "<UNK>"]
    assert tokenizer.frame == ([0], [1]) and tokenizer.opening == [0]
    encoder = Elmo(SIZES.replace(vocab_size=tokenizer.vocab_size))
    encoder.spell(tokenizer)
    assert encoder.tokens.spelling[:2, :4].tolist() == [[258, 256, 259, 260], [258, 257, 259, 260]]
    for id in range(2, tokenizer.vocab_size):
        assert bytes(n for n in encoder.tokens.spelling[id].tolist() if n < 256).decode() == tokenizer.token(id)


def plain_words(weights, spelling):
    """The equations of the paper on the whole spelling, for one word after another."""
    vectors = []
    for letters in weights["tokens.characters.weight"][spelling]:
        found = []
        for number, (width, num_filters) in enumerate(SIZES.filters):
            filters, bias = (weights[f"tokens.filters.{number}.{kind}"] for kind in ("weight", "bias"))
            windows = [letters[start : start + width] for start in range(len(letters) - width + 1)]
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


def plain_direction(weights, words, side):
    """The layers of one direction, in the order in which it reads."""
    layers = [words]
    for number in range(SIZES.num_layers):
        read, recurrent, bias, projection = (
            weights[f"layers.{number}.{side}.{name}"] for name in ("input", "recurrent", "bias", "projection")
        )
        hidden, cell = np.zeros(SIZES.width), np.zeros(SIZES.cell_width)
        outputs = []
        for x in layers[-1]:
            i, f, o, g = np.split(read @ x + recurrent @ hidden + bias, 4)
            cell = np.clip(sigmoid(f + 1) * cell + sigmoid(i) * np.tanh(g), -SIZES.cell_clip, SIZES.cell_clip)
            hidden = np.clip(projection @ (sigmoid(o) * np.tanh(cell)), -SIZES.clip, SIZES.clip)
            outputs.append(hidden + x if number else hidden)
        layers.append(np.array(outputs))
    return layers


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_it_is_what_the_paper_says(elmo):
    weights = {name: weight.double().numpy() for name, weight in elmo.state_dict().items() if "spelling" not in name}
    ids = torch.tensor([[3, 17, 5, 17, 30]])
    words = plain_words(weights, elmo.tokens.spelling[ids[0]].numpy())
    left, right = plain_direction(weights, words, 0), plain_direction(weights, words[::-1], 1)
    encoded = elmo(Batch.of(ids))
    assert len(encoded.layers) == SIZES.num_layers + 1
    for layer, forward, backward in zip(encoded.layers, left, right, strict=True):
        expected = np.concatenate([forward, backward[::-1]], 1)
        np.testing.assert_allclose(layer[0].detach().numpy(), expected, atol=1e-5)
    assert any((np.abs(layer) == SIZES.clip).any() for layer in left[1:2])


def test_a_short_look_at_letters_is_enough(elmo):
    spelling = spell(["a", "of", "x" * 48, "x" * 47, "house"], SIZES.max_characters)
    alone = torch.cat([elmo.tokens.read(one[None]) for one in spelling])
    torch.testing.assert_close(elmo.tokens.read(spelling), alone)


def test_the_table_of_words_is_that_of_layer_zero(elmo):
    ids = torch.arange(SIZES.vocab_size)[None]
    torch.testing.assert_close(elmo.tokens.weight, elmo(Batch.of(ids)).layers[0][0, :, : SIZES.width])
    assert elmo.tokens.weight.shape == (SIZES.vocab_size, SIZES.width)


def test_words_that_the_vocabulary_lacks_are_read(elmo):
    strange = elmo.letters(["zebra", "07"])
    ids = torch.tensor([[4, 40, 7, 41]])
    layers = elmo(Batch.of(ids, letters=strange)).layers
    torch.testing.assert_close(layers[0][0, 1, : SIZES.width], elmo.tokens.read(strange)[0])
    # The seventh word is spelt 07 here.
    torch.testing.assert_close(layers[0][0, 3], layers[0][0, 2])


@pytest.mark.parametrize("cut", [1, 3])
def test_a_state_is_carried_at_either_end(elmo, cut):
    """Rows of different lengths: the state is that behind the last real word of each, in reading direction."""
    rows = torch.tensor([[4, 9, 2, 8, 11, 3], [5, 6, 7, 21, 22, 23]])
    whole = elmo(Batch.of(rows)).layers
    first, second = elmo(Batch.of(rows[:, :cut])), rows[:, cut:]
    goes_on = elmo(Batch.of(second), first.state).layers
    torch.testing.assert_close(goes_on[-1][:, :, : SIZES.width], whole[-1][:, cut:, : SIZES.width])
    padding = torch.full((2, 2), 30)
    mask = torch.tensor([[True] * cut + [False] * 2] * 2)
    padded = elmo(Batch(ids=torch.cat([rows[:, :cut], padding], 1), mask=mask)).state
    for name, tensor in first.state.carried.items():
        torch.testing.assert_close(padded.carried[name], tensor)
    assert first.state.length == cut

    later = elmo(Batch.of(rows[:, cut:]))
    earlier = elmo(Batch.of(rows[:, :cut]), later.state).layers
    torch.testing.assert_close(earlier[-1][:, :, SIZES.width :], whole[-1][:, :cut, SIZES.width :])


def test_rows_of_both_ends_are_read_as_they_lie(elmo):
    ids, mirrored = torch.tensor([[4, 9, 2]]), torch.tensor([[8, 11, 3]])
    together = elmo(Batch.of(ids, mirrored=mirrored)).layers[-1]
    torch.testing.assert_close(together[..., : SIZES.width], elmo(Batch.of(ids)).layers[-1][..., : SIZES.width])
    backward = elmo(Batch.of(mirrored.flip(1))).layers[-1].flip(1)
    torch.testing.assert_close(together[..., SIZES.width :], backward[..., SIZES.width :])


@pytest.mark.parametrize("filters", [((0, 4),), ((51, 4),), ((3, 0),), ()])
def test_filters_that_fit_no_word_are_refused(filters):
    with pytest.raises(ConfigError, match="filters"):
        ElmoConfig.parse({"filters": filters}, group="model")


def test_a_highway_starts_by_letting_through():
    highway = Elmo(SIZES).tokens.highways[0]
    assert torch.sigmoid(highway.carry.bias).mean().item() == pytest.approx(1 / (1 + math.exp(2)))


def test_the_same_sizes_come_again_however_many_words_there_are():
    elmo = Elmo(ElmoConfig(vocab_size=300, width=8, cell_width=8, filters=((1, 4), (2, 4)), num_highways=1))
    sizes = []
    elmo.tokens.filters[0].register_forward_hook(lambda _, inputs, __: sizes.append(inputs[0].shape))
    with torch.no_grad():
        vectors = [elmo.tokens.read(elmo.tokens.spelling[:number]) for number in (3, 50, 128)]
    assert len(set(sizes)) == 1, "else torch prepares itself for each, and keeps what it prepared"
    assert [len(some) for some in vectors] == [3, 50, 128]
    torch.testing.assert_close(vectors[0], vectors[2][:3])
