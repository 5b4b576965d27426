"""Head statistics on constructed attention weights."""

import math

import numpy as np
import pytest

from polyseme.analysis.attention import ATTENTION_SINK, BROAD_THRESHOLD, head_statistics

LENGTH = 6
NONE = [False] * LENGTH


def statistics_of(weights, is_special=NONE, *, causal=False, cross=False):
    weights = np.array(weights, dtype=np.float32)[None, None]
    (head,) = head_statistics(weights, is_special, causal=causal, cross=cross)
    return head


def shifted(offset):
    """All attention is on the token at an offset, or on the query itself if there is none."""
    weights = np.zeros((LENGTH, LENGTH))
    for row in range(LENGTH):
        weights[row, row + offset if 0 <= row + offset < LENGTH else row] = 1
    return weights


@pytest.mark.parametrize("offset, name, label", [(-1, "previous", "previous token"), (1, "next", "next token")])
def test_neighbours(offset, name, label):
    head = statistics_of(shifted(offset))
    assert (head.label, getattr(head, name)) == (label, 1) and (head.layer, head.head) == (1, 1)
    assert head.same == pytest.approx(1 / LENGTH) and head.distance == pytest.approx(5 / LENGTH)
    assert head.entropy == head.evenness == 0
    assert statistics_of(np.eye(LENGTH)).label == "same token" and statistics_of(np.eye(LENGTH)).distance == 0


def test_first_token_and_separators():
    weights = np.zeros((LENGTH, LENGTH))
    weights[:, 0], weights[:, 3], weights[:, 5] = 0.6, 0.3, 0.1
    is_special = [True, False, False, True, False, True]
    head = statistics_of(weights, is_special)
    assert (head.label, head.first, head.separators) == (ATTENTION_SINK, pytest.approx(0.6), pytest.approx(0.4))
    head = statistics_of(weights[:, ::-1], is_special)
    assert (head.label, head.first) == ("separators", pytest.approx(0.1)) and head.separators == pytest.approx(0.6)
    assert head.distance == pytest.approx(np.mean([0.1 * i + 0.3 * abs(i - 2) + 0.6 * abs(i - 5) for i in range(6)]))
    head = statistics_of(weights, NONE)
    assert head.separators == 0


def test_uniform_heads_are_broad():
    head = statistics_of(np.full((LENGTH, LENGTH), 1 / LENGTH))
    assert head.label == "broad" and head.evenness == pytest.approx(1) and head.entropy == pytest.approx(math.log(6))
    assert head.first == pytest.approx(1 / LENGTH) and head.first_if_uniform == pytest.approx(1 / LENGTH)
    head = statistics_of(0.2 * np.eye(LENGTH) + 0.4 * shifted(-1) + 0.4 * shifted(1))
    assert head.label == "mixed" and head.evenness < BROAD_THRESHOLD and head.same < 0.5


def test_causal_heads_are_relative_to_visible_tokens():
    uniform = np.tril(np.ones((LENGTH, LENGTH)))
    uniform /= uniform.sum(1, keepdims=True)
    head = statistics_of(uniform, causal=True)
    assert head.evenness == pytest.approx(1) and head.label == "broad"
    # The first token has no choice and is excluded.
    assert head.first == pytest.approx(head.first_if_uniform) == np.mean([1 / t for t in range(2, 7)])
    assert head.entropy == pytest.approx(np.mean([math.log(t) for t in range(2, 7)]))
    assert head.same == pytest.approx(head.first) and head.next == 0
    sink = np.zeros((LENGTH, LENGTH))
    sink[:, 0] = 1
    head = statistics_of(sink, causal=True)
    assert (head.label, head.first, head.same) == (ATTENTION_SINK, 1, 0)
    assert head.previous == pytest.approx(1 / 5)
    assert head.distance == pytest.approx(3)


def test_cross_attention_has_no_neighbours():
    head = statistics_of(np.full((2, LENGTH), 1 / LENGTH), cross=True)
    assert head.previous is head.next is head.same is head.distance is None
    assert head.first == pytest.approx(1 / LENGTH) and head.evenness == pytest.approx(1)


def test_single_token_has_no_label():
    for causal in (True, False):
        (head,) = head_statistics(np.ones((1, 1, 1, 1), np.float32), [False], causal=causal, cross=False)
        assert head.label == "" and head.entropy == head.evenness == 0 and head.first == 1


def test_heads_are_ordered_by_layer():
    weights = np.random.default_rng(0).dirichlet(np.ones(4), size=(3, 2, 4)).astype(np.float32)
    heads = head_statistics(weights, [False] * 4, causal=False, cross=False)
    assert [(head.layer, head.head) for head in heads] == [(layer, head) for layer in (1, 2, 3) for head in (1, 2)]
    assert heads[3].first == pytest.approx(weights[1, 1, :, 0].mean())
