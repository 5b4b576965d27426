"""The numbers of heads, on maps that were made up so that they are known."""

import math

import numpy as np
import pytest

from polyseme.inside.heads import EVEN, PARKED, measure

LENGTH = 6
NONE = [False] * LENGTH


def one(weights, marks=NONE, *, causal=False, crossing=False):
    maps = np.array(weights, dtype=np.float32)[None, None]
    (head,) = measure(maps, marks, causal=causal, crossing=crossing)
    return head


def shifted(by):
    """All look at the token so many places away; those without one at themselves."""
    maps = np.zeros((LENGTH, LENGTH))
    for row in range(LENGTH):
        maps[row, row + by if 0 <= row + by < LENGTH else row] = 1
    return maps


@pytest.mark.parametrize("by, name, label", [(-1, "previous", "previous token"), (1, "next", "next token")])
def test_neighbours(by, name, label):
    head = one(shifted(by))
    assert (head.label, getattr(head, name)) == (label, 1) and (head.layer, head.head) == (1, 1)
    assert head.same == pytest.approx(1 / LENGTH) and head.distance == pytest.approx(5 / LENGTH)
    assert head.entropy == head.evenness == 0
    assert one(np.eye(LENGTH)).label == "same token" and one(np.eye(LENGTH)).distance == 0


def test_the_first_and_the_separators():
    maps = np.zeros((LENGTH, LENGTH))
    maps[:, 0], maps[:, 3], maps[:, 5] = 0.6, 0.3, 0.1
    marks = [True, False, False, True, False, True]
    head = one(maps, marks)
    assert (head.label, head.first, head.separators) == (PARKED, pytest.approx(0.6), pytest.approx(0.4))
    head = one(maps[:, ::-1], marks)
    assert (head.label, head.first) == ("separators", pytest.approx(0.1)) and head.separators == pytest.approx(0.6)
    assert head.distance == pytest.approx(np.mean([0.1 * i + 0.3 * abs(i - 2) + 0.6 * abs(i - 5) for i in range(6)]))
    head = one(maps, NONE)
    assert head.separators == 0


def test_even_heads_are_broad():
    head = one(np.full((LENGTH, LENGTH), 1 / LENGTH))
    assert head.label == "broad" and head.evenness == pytest.approx(1) and head.entropy == pytest.approx(math.log(6))
    assert head.first == pytest.approx(1 / LENGTH) and head.first_if_even == pytest.approx(1 / LENGTH)
    head = one(0.2 * np.eye(LENGTH) + 0.4 * shifted(-1) + 0.4 * shifted(1))
    assert head.label == "mixed" and head.evenness < EVEN and head.same < 0.5


def test_a_causal_row_is_held_against_what_it_sees():
    even = np.tril(np.ones((LENGTH, LENGTH)))
    even /= even.sum(1, keepdims=True)
    head = one(even, causal=True)
    assert head.evenness == pytest.approx(1) and head.label == "broad"
    # The first token has no choice, and does not count.
    assert head.first == pytest.approx(head.first_if_even) == np.mean([1 / t for t in range(2, 7)])
    assert head.entropy == pytest.approx(np.mean([math.log(t) for t in range(2, 7)]))
    assert head.same == pytest.approx(head.first) and head.next == 0
    parked = np.zeros((LENGTH, LENGTH))
    parked[:, 0] = 1
    head = one(parked, causal=True)
    assert (head.label, head.first, head.same) == (PARKED, 1, 0)
    assert head.previous == pytest.approx(1 / 5)
    assert head.distance == pytest.approx(3)


def test_across_there_are_no_neighbours():
    head = one(np.full((2, LENGTH), 1 / LENGTH), crossing=True)
    assert head.previous is head.next is head.same is head.distance is None
    assert head.first == pytest.approx(1 / LENGTH) and head.evenness == pytest.approx(1)


def test_a_single_token_tells_nothing():
    for causal in (True, False):
        (head,) = measure(np.ones((1, 1, 1, 1), np.float32), [False], causal=causal, crossing=False)
        assert head.label == "" and head.entropy == head.evenness == 0 and head.first == 1


def test_heads_are_in_order():
    maps = np.random.default_rng(0).dirichlet(np.ones(4), size=(3, 2, 4)).astype(np.float32)
    heads = measure(maps, [False] * 4, causal=False, crossing=False)
    assert [(head.layer, head.head) for head in heads] == [(layer, head) for layer in (1, 2, 3) for head in (1, 2)]
    assert heads[3].first == pytest.approx(maps[1, 1, :, 0].mean())
