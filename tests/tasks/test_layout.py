"""From texts to rows and batches."""

import pytest
import torch
from made_up import DIFFERENT, encoder_of, examples, tokenizer_of, tuned

from polyseme.models import FAMILIES
from polyseme.tasks.layout import MARKS, Layout, add_marks
from polyseme.tensors import Batch

APART = [name for name in DIFFERENT if FAMILIES[name].layout == "apart"]


def layout_of(family, max_length=40):
    encoder = encoder_of(family)
    return Layout(encoder, add_marks(encoder, tokenizer_of(family)), max_length=max_length)


def named(layout, row):
    return [layout.tokenizer.token(id) for id in row.ids]


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        ("bert", "[CLS] red [SEP] blue cat [SEP]"),
        ("roberta", "<s> red </s> </s> Ġblue Ġcat </s>"),
        ("gpt", "<|start|> red</w> <|delimiter|> blue</w> cat</w> <|extract|>"),
        ("elmo", "<S> red </S> | <S> blue cat </S>"),
        ("skipgram", "red | blue cat"),
    ],
)
def test_two_texts(family, expected):
    layout = layout_of(family)
    texts = ("red", " blue cat")
    (rows,) = layout.rows([[texts] if layout.joins else [(text,) for text in texts]])
    pieces = " | ".join(" ".join(named(layout, row)) for row in rows)
    assert pieces.replace(" ", "") == expected.replace(" ", "") or pieces == expected
    assert [sum(row.segments) for row in rows] == ([3] if family == "bert" else [0] * len(rows))


@pytest.mark.parametrize("family", DIFFERENT)
def test_rows_are_never_too_long_nor_empty(family):
    layout = layout_of(family, max_length=9)
    long, short, nothing = "the old man " * 9, "red", "\u200b"
    pairs = [(long, short), (short, long), (long, long), (nothing, nothing)]
    groups = [[pair] if layout.joins else [(text,) for text in pair] for pair in pairs]
    for rows in layout.rows(groups):
        for row in rows:
            assert 1 <= len(row.ids) <= 9 and len(row.ids) == len(row.segments) == len(row.offsets)
    batch = layout.batch([row for rows in layout.rows(groups) for row in rows])
    assert batch.mask.sum(1).min() >= 1
    layout.encoder.eval()(batch)


def test_marks_are_new_tokens_of_their_own():
    encoder, tokenizer = encoder_of("gpt2"), tokenizer_of("gpt2")
    before = encoder.tokens.weight.detach().clone()
    marked = add_marks(encoder, tokenizer)
    ids = [marked.id(mark) for mark in MARKS]
    assert ids == list(range(len(before), len(before) + 3)) and marked.vocab_size == encoder.config.vocab_size
    assert torch.equal(encoder.tokens.weight[: len(before)], before)
    assert encoder.tokens.weight.requires_grad and 0.005 < encoder.tokens.weight[ids].std() < 0.05
    assert marked.encode("the red dog").ids == tokenizer.encode("the red dog").ids
    weight = encoder.tokens.weight
    assert add_marks(encoder, marked) is marked and encoder.tokens.weight is weight
    assert tokenizer.id(MARKS[0]) is None
    bert = tokenizer_of("bert")
    assert add_marks(encoder_of("bert"), bert) is bert


def test_unknown_words_are_read_by_their_letters():
    layout = layout_of("elmo")
    (rows,) = layout.rows([[("the redder dog",), ("redder redish",)]])
    assert [list(row.unknown.values()) for row in rows] == [["redder"], ["redder", "redish"]]
    batch = layout.batch(rows)
    size = layout.encoder.config.vocab_size
    assert batch.ids[:, 1:4].tolist()[0][1] == size and batch.ids[1, 1:3].tolist() == [size, size + 1]
    assert torch.equal(batch.letters, layout.encoder.letters(["redder", "redish"]))
    layers = layout.encoder.eval()(batch).layers[0]
    torch.testing.assert_close(layers[0, 2], layers[1, 1])
    assert not torch.allclose(layers[1, 1], layers[1, 2])
    assert layout.batch(layout.rows([[("the dog",)]])[0]).letters is None


@pytest.mark.parametrize("family", DIFFERENT)
@pytest.mark.parametrize("kind", ["classify", "pair", "similarity", "choice", "tag", "span"])
def test_alone_is_as_in_any_batch(family, kind):
    model, rows = tuned(family, kind), examples(kind)[:9]
    together = model.task.predict(model.encoder, model.read(rows, num_rows=9))
    for row, expected in zip(rows[:4], together, strict=False):
        (alone,) = model.predict([row])
        for one, other in zip(numbers(alone), numbers(expected), strict=True):
            assert one == pytest.approx(other, abs=1e-5)


def numbers(answer):
    """All numbers of an answer."""
    if hasattr(answer, "words"):
        return [word.probability for word in answer.words]
    if hasattr(answer, "answers"):
        return [answer.answers.null, *(best.score for best in answer.answers.best), *answer.probabilities]
    if hasattr(answer, "score"):
        return [answer.score]
    return list(answer.probabilities.values() if isinstance(answer.probabilities, dict) else answer.probabilities)


def test_groups_stay_whole():
    batch = Batch.of(torch.arange(24).view(12, 2), group=3).labelled("x", torch.tensor([1, -100, -100] * 4))
    for num_rows in (1, 3, 4, 7, 12, 20):
        parts = list(batch.split(num_rows))
        assert all(len(part.ids) % 3 == 0 for part in parts)
        assert all(part.counts["x"] == len(part.ids) // 3 for part in parts)
        assert torch.equal(torch.cat([part.ids for part in parts]), batch.ids)
        assert len(parts) <= -(-12 // num_rows)
