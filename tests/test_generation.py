"""Several prompts at once, and how a token is chosen."""

import pytest
import torch

from polyseme.generation import MOST_TOGETHER, Sampling, _likeliest, generate_ids, generate_together, together
from polyseme.layers.linear import quantize
from polyseme.models.gpt2 import Gpt2, Gpt2Config
from polyseme.objectives.next_token import NextToken
from polyseme.tensors import Batch

LIMIT = 24
HEAD = NextToken()


@pytest.fixture(scope="module")
def encoder():
    """Large weights, so that what comes next depends on all that came before."""
    torch.manual_seed(2)
    encoder = Gpt2(Gpt2Config(vocab_size=300, max_length=LIMIT, width=32, num_layers=2, num_heads=2)).eval()
    for weight in encoder.blocks.parameters():
        if weight.dim() == 2:
            torch.nn.init.normal_(weight, std=0.5)
    torch.nn.init.normal_(encoder.positions.weight, std=0.1)
    return encoder


def prompts(*lengths):
    generator = torch.Generator().manual_seed(sum(lengths))
    return [torch.randint(300, (length,), generator=generator).tolist() for length in lengths]


def written_together(encoder, given, sampling, end):
    rows = [[] for _ in given]
    for tokens in generate_together(encoder, HEAD, given, sampling, end):
        for row, token in zip(rows, tokens, strict=True):
            row += [] if token is None else [token]
    return rows


@pytest.mark.parametrize(
    "lengths", [(5,), (3, 3, 3), (1, 4, 9), (9, 1, 4), (LIMIT - 1, 2), (LIMIT, 3 * LIMIT, 1), (2, LIMIT + 1)]
)
@pytest.mark.parametrize("chance", [{}, {"temperature": 1.0, "top_p": 0.9}, {"repetition_penalty": 1.5}])
def test_a_row_does_not_depend_on_its_company(encoder, lengths, chance):
    given = prompts(*lengths)
    for max_tokens in (1, 7, 2 * LIMIT):
        sampling = Sampling(max_tokens=max_tokens, seed=4, **chance)
        alone = [list(generate_ids(encoder, HEAD, prompt, sampling, None)) for prompt in given]
        assert all(len(row) == max_tokens for row in alone)
        assert written_together(encoder, given, sampling, None) == alone


def test_each_row_has_an_end_of_its_own(encoder):
    given = prompts(2, 4, 6, 8)
    sampling = Sampling(max_tokens=15)
    whole = written_together(encoder, given, sampling, None)
    assert len({tuple(row) for row in whole}) == 4
    for row in range(4):
        end = whole[row][5]
        cut = [other[: other.index(end)] if end in other else other for other in whole]
        assert written_together(encoder, given, sampling, end) == cut
        assert [list(generate_ids(encoder, HEAD, prompt, sampling, end)) for prompt in given] == cut


def test_it_stops_when_all_have_ended(encoder):
    given = prompts(3, 3)
    steps = list(generate_together(encoder, HEAD, given, Sampling(max_tokens=5), None))
    assert len(steps) == 5
    end = steps[0][0]
    alone = list(generate_together(encoder, HEAD, given[:1], Sampling(max_tokens=5), end))
    assert alone == [[None]]


def test_longer_prompts_are_read_while_shorter_ones_are_gone_on_from(encoder):
    steps = list(generate_together(encoder, HEAD, prompts(2, 5), Sampling(max_tokens=4), None))
    assert [[token is not None for token in step] for step in steps] == [
        *[[True, False]] * 3,
        [True, True],
        *[[False, True]] * 3,
    ]


def test_bytes_write_much_the_same(encoder):
    given = torch.tensor(prompts(LIMIT, LIMIT, LIMIT))
    with torch.inference_mode():
        floats = HEAD.logits(encoder, encoder(Batch.of(given)).layers[-1])
        copy = Gpt2(encoder.config).eval()
        copy.load_state_dict(encoder.state_dict())
        quantize(copy)
        at_once = HEAD.logits(copy, copy(Batch.of(given)).layers[-1])
        state, steps = copy.begin(3, LIMIT), []
        for column in given.T:
            encoded = copy(Batch.of(column[:, None]), state)
            state = encoded.state
            steps.append(HEAD.logits(copy, encoded.layers[-1]))
    for found in (at_once, torch.cat(steps, 1)):
        assert (found - floats).abs().mean() < 0.03 * floats.std()
    assert not torch.equal(at_once, floats)


@pytest.mark.parametrize("max_tokens", [1, 10, 100])
def test_groups_hold_every_prompt_once(max_tokens):
    lengths = torch.randint(1, 60, (50,), generator=torch.Generator().manual_seed(max_tokens)).tolist()
    groups = list(together(lengths, max_tokens))
    assert sorted(number for group in groups for number in group) == list(range(50))
    for group in groups:
        inside = [lengths[number] for number in group]
        assert len(group) <= MOST_TOGETHER and max(inside) - min(inside) <= max_tokens
    assert list(together([], 5)) == []


@pytest.mark.parametrize("size", [1, 3, 64, 65, 512, 5000])
@pytest.mark.parametrize("sharpness", [0.0, 1.0, 8.0])
def test_the_likeliest_are_those_of_a_full_sort(size, sharpness):
    generator = torch.Generator().manual_seed(size)
    chances = (sharpness * torch.randn(size, generator=generator, dtype=torch.float64)).softmax(-1)
    ordered = chances.sort(descending=True).values
    for share in (1e-9, 0.3, 0.9, 0.999):
        values, order = _likeliest(chances, share)
        torch.testing.assert_close(values, ordered[: len(values)])
        assert torch.equal(chances[order], values)
        assert float(values[:-1].sum()) - 1e-9 < share <= float(values.sum()) + 1e-9
