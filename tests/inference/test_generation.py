"""Decoding in lockstep and in groups of one, and the choice of a token."""

import pytest
import torch

from polyseme.batch import Batch
from polyseme.inference.generation import (
    MAX_PROMPTS,
    DecodingGroup,
    GenerationConfig,
    LanguageModel,
    _nucleus,
    batch_prompts,
    generate_batch,
    step_groups,
)
from polyseme.layers.linear import quantize
from polyseme.models.gpt2 import Gpt2, Gpt2Config
from polyseme.objectives.causal_lm import CausalLm

LIMIT = 24
HEAD = CausalLm()


@pytest.fixture(scope="module")
def encoder():
    """A GPT-2 with large weights, so that the next token depends on every token of the context."""
    torch.manual_seed(2)
    encoder = Gpt2(Gpt2Config(vocab_size=300, max_length=LIMIT, width=32, num_layers=2, num_heads=2)).eval()
    for weight in encoder.blocks.parameters():
        if weight.dim() == 2:
            torch.nn.init.normal_(weight, std=0.5)
    torch.nn.init.normal_(encoder.positions.weight, std=0.1)
    return encoder


def language_model(encoder, end=None):
    return LanguageModel(encoder=encoder, head=HEAD, end=end)


def random_prompts(*lengths):
    rng = torch.Generator().manual_seed(sum(lengths))
    return [torch.randint(300, (length,), generator=rng).tolist() for length in lengths]


def generate_all(model, prompts, config):
    rows = [[] for _ in prompts]
    for tokens in generate_batch(model, prompts, config):
        for row, token in zip(rows, tokens, strict=True):
            row += [] if token is None else [token]
    return rows


@pytest.mark.parametrize(
    "lengths", [(5,), (3, 3, 3), (1, 4, 9), (9, 1, 4), (LIMIT - 1, 2), (LIMIT, 3 * LIMIT, 1), (2, LIMIT + 1)]
)
@pytest.mark.parametrize("options", [{}, {"temperature": 1.0, "top_p": 0.9}, {"repetition_penalty": 1.5}])
def test_a_sequence_does_not_depend_on_the_others_of_its_batch(encoder, lengths, options):
    model, prompts = language_model(encoder), random_prompts(*lengths)
    for max_tokens in (1, 7, 2 * LIMIT):
        config = GenerationConfig(max_tokens=max_tokens, seed=4, **options)
        alone = [generate_all(model, [prompt], config)[0] for prompt in prompts]
        assert all(len(row) == max_tokens for row in alone)
        assert generate_all(model, prompts, config) == alone


def test_sequences_join_and_leave_a_batch(encoder):
    model, prompts = language_model(encoder), random_prompts(2, LIMIT + 3, 7, 12)
    configs = [GenerationConfig(max_tokens=length, seed=4, temperature=1.0) for length in (5, 30, 40, 9)]
    waiting = [DecodingGroup(model, [prompt], config) for prompt, config in zip(prompts, configs, strict=True)]
    expected = [generate_all(model, [prompt], config)[0] for prompt, config in zip(prompts, configs, strict=True)]
    groups, generated = list(waiting), {id(group): [] for group in waiting}
    running = []
    while waiting or running:
        running += [waiting.pop(0)] if waiting else []
        for some, logits in step_groups(model, running):
            for group, scores in zip(some, logits, strict=True):
                generated[id(group)].append(group.sequences[0].extend(scores, model.end))
        running = [group for group in running if not group.finished]
    assert [generated[id(group)] for group in groups] == expected


def test_each_sequence_ends_at_its_own_end_token(encoder):
    prompts = random_prompts(2, 4, 6, 8)
    config = GenerationConfig(max_tokens=15)
    whole = generate_all(language_model(encoder), prompts, config)
    assert len({tuple(row) for row in whole}) == 4
    for row in range(4):
        end = whole[row][5]
        cut = [other[: other.index(end)] if end in other else other for other in whole]
        model = language_model(encoder, end)
        assert generate_all(model, prompts, config) == cut
        assert [generate_all(model, [prompt], config)[0] for prompt in prompts] == cut


def test_decoding_stops_when_all_sequences_have_ended(encoder):
    prompts = random_prompts(3, 3)
    steps = list(generate_batch(language_model(encoder), prompts, GenerationConfig(max_tokens=5)))
    assert len(steps) == 5
    model = language_model(encoder, end=steps[0][0])
    assert list(generate_batch(model, prompts[:1], GenerationConfig(max_tokens=5))) == [[None]]


def test_longer_prompts_are_read_while_shorter_ones_are_extended(encoder):
    steps = list(generate_batch(language_model(encoder), random_prompts(2, 5), GenerationConfig(max_tokens=4)))
    assert [[token is not None for token in step] for step in steps] == [
        *[[True, False]] * 3,
        [True, True],
        *[[False, True]] * 3,
    ]


def test_int8_logits_are_close_to_float32(encoder):
    given = torch.tensor(random_prompts(LIMIT, LIMIT, LIMIT))
    with torch.inference_mode():
        floats = HEAD.logits(encoder, encoder(Batch.of(given)).layers[-1])
        copy = Gpt2(encoder.config).eval()
        copy.load_state_dict(encoder.state_dict())
        quantize(copy)
        at_once = HEAD.logits(copy, copy(Batch.of(given)).layers[-1])
        state, steps = copy.new_state(3, LIMIT), []
        for column in given.T:
            encoded = copy(Batch.of(column[:, None]), state)
            state = encoded.state
            steps.append(HEAD.logits(copy, encoded.layers[-1]))
    for found in (at_once, torch.cat(steps, 1)):
        assert (found - floats).abs().mean() < 0.03 * floats.std()
    assert not torch.equal(at_once, floats)


@pytest.mark.parametrize("max_tokens", [1, 10, 100])
def test_every_prompt_is_in_one_batch(max_tokens):
    lengths = torch.randint(1, 60, (50,), generator=torch.Generator().manual_seed(max_tokens)).tolist()
    groups = list(batch_prompts(lengths, max_tokens))
    assert sorted(index for group in groups for index in group) == list(range(50))
    for group in groups:
        inside = [lengths[index] for index in group]
        assert len(group) <= MAX_PROMPTS and max(inside) - min(inside) <= max_tokens
    assert list(batch_prompts([], 5)) == []


@pytest.mark.parametrize("size", [1, 3, 64, 65, 512, 5000])
@pytest.mark.parametrize("sharpness", [0.0, 1.0, 8.0])
def test_nucleus_equals_that_of_a_full_sort(size, sharpness):
    rng = torch.Generator().manual_seed(size)
    probabilities = (sharpness * torch.randn(size, generator=rng, dtype=torch.float64)).softmax(-1)
    ordered = probabilities.sort(descending=True).values
    for top_p in (1e-9, 0.3, 0.9, 0.999):
        values, ids = _nucleus(probabilities, top_p)
        torch.testing.assert_close(values, ordered[: len(values)])
        assert torch.equal(probabilities[ids], values)
        assert float(values[:-1].sum()) - 1e-9 < top_p <= float(values.sum()) + 1e-9
