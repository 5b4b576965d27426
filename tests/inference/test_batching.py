"""Windows of texts, and batches of windows."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polyseme.inference.batching import bucket_by_length, pack, packed_batch, tokenize_window_ids, tokenize_windows
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.tokenizer import Tokenizer

TEXTS = ["", " ", "the old bank", "她在苹果公司上班。", "lone \ud800 surrogate", "the spring was dry. " * 40, "a"]


@pytest.mark.parametrize(("kind", "specials"), [("wordpiece", "bert"), ("byte-bpe", "gpt2")])
@pytest.mark.parametrize("limit", [4, 16, 1000])
def test_window_ids_without_offsets_are_the_same(documents, kind, specials, limit):
    config = TokenizerConfig(kind=kind, specials=specials, lowercase=kind == "wordpiece")
    tokenizer = Tokenizer.train(config, documents, vocab_size=400)
    rows = tokenize_windows(tokenizer, TEXTS, limit)
    ids, counts = tokenize_window_ids(tokenizer, TEXTS, limit)
    assert [row.tolist() for row in ids] == [row.ids for row in rows]
    assert counts == [sum(row.text == text for row in rows) for text in range(len(TEXTS))]
    assert tokenize_window_ids(tokenizer, [], limit) == ([], [])


@given(st.lists(st.integers(1, 60)), st.integers(1, 100))
def test_every_sequence_is_in_one_batch_within_the_limit(lengths, batch_tokens):
    for grouped, tokens in (
        (pack, lambda group: sum(lengths[number] for number in group)),
        (bucket_by_length, lambda group: len(group) * max(lengths[number] for number in group)),
    ):
        groups = list(grouped(lengths, batch_tokens))
        assert sorted(number for group in groups for number in group) == list(range(len(lengths)))
        assert all(len(group) == 1 or tokens(group) <= batch_tokens for group in groups)
        order = [lengths[number] for group in groups for number in group]
        assert order == sorted(lengths, reverse=True)


def test_packed_sequences_are_concatenated():
    batch = packed_batch([np.array([5, 6, 7]), np.array([8, 9]), np.array([10])], torch.device("cpu"))
    assert batch.ids.tolist() == [[5, 6, 7, 8, 9, 10]] and batch.packed_lengths == (3, 2, 1) and batch.mask.all()
