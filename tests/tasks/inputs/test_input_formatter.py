"""Input formats: from texts to rows and batches."""

import pytest
import torch
from tests.tasks.synthetic_examples import DIFFERENT, encoder_of, examples, tokenizer_of, tuned

from polyseme.batch import Batch
from polyseme.families import FAMILIES
from polyseme.tasks.inputs.input_formatter import DELIMITERS, InputFormatter, add_delimiters

BI_ENCODERS = [name for name in DIFFERENT if FAMILIES[name].input_format == "bi_encoder"]


def formatter_of(family, max_length=40):
    encoder = encoder_of(family)
    return InputFormatter(encoder, add_delimiters(encoder, tokenizer_of(family)), max_length=max_length)


def named(formatter, row):
    return [formatter.tokenizer.token(id) for id in row.ids]


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
    formatter = formatter_of(family)
    texts = ("red", " blue cat")
    (rows,) = formatter.rows([[texts] if formatter.joins_pairs else [(text,) for text in texts]])
    pieces = " | ".join(" ".join(named(formatter, row)) for row in rows)
    assert pieces.replace(" ", "") == expected.replace(" ", "") or pieces == expected
    assert [sum(row.segments) for row in rows] == ([3] if family == "bert" else [0] * len(rows))


@pytest.mark.parametrize("family", DIFFERENT)
def test_rows_are_never_too_long_nor_empty(family):
    formatter = formatter_of(family, max_length=9)
    long, short, nothing = "the old man " * 9, "red", "\u200b"
    pairs = [(long, short), (short, long), (long, long), (nothing, nothing)]
    groups = [[pair] if formatter.joins_pairs else [(text,) for text in pair] for pair in pairs]
    for rows in formatter.rows(groups):
        for row in rows:
            assert 1 <= len(row.ids) <= 9 and len(row.ids) == len(row.segments)
    batch = formatter.batch([row for rows in formatter.rows(groups) for row in rows])
    assert batch.mask.sum(1).min() >= 1
    formatter.encoder.eval()(batch)


def test_delimiters_are_new_tokens():
    encoder, tokenizer = encoder_of("gpt2"), tokenizer_of("gpt2")
    before = encoder.tokens.weight.detach().clone()
    marked = add_delimiters(encoder, tokenizer)
    ids = [marked.id(mark) for mark in DELIMITERS]
    assert ids == list(range(len(before), len(before) + 3)) and marked.vocab_size == encoder.config.vocab_size
    assert torch.equal(encoder.tokens.weight[: len(before)], before)
    assert encoder.tokens.weight.requires_grad and 0.005 < encoder.tokens.weight[ids].std() < 0.05
    assert marked.encode("the red dog").ids == tokenizer.encode("the red dog").ids
    weight = encoder.tokens.weight
    assert add_delimiters(encoder, marked) is marked and encoder.tokens.weight is weight
    assert tokenizer.id(DELIMITERS[0]) is None
    bert = tokenizer_of("bert")
    assert add_delimiters(encoder_of("bert"), bert) is bert


def test_oov_words_are_encoded_by_characters():
    formatter = formatter_of("elmo")
    (rows,) = formatter.rows([[("the redder dog",), ("redder redish",)]])
    assert [list(row.oov_words.values()) for row in rows] == [["redder"], ["redder", "redish"]]
    batch = formatter.batch(rows)
    size = formatter.encoder.config.vocab_size
    assert batch.ids[:, 1:4].tolist()[0][1] == size and batch.ids[1, 1:3].tolist() == [size, size + 1]
    assert torch.equal(batch.oov_characters, formatter.encoder.oov_characters(["redder", "redish"]))
    layers = formatter.encoder.eval()(batch).layers[0]
    torch.testing.assert_close(layers[0, 2], layers[1, 1])
    assert not torch.allclose(layers[1, 1], layers[1, 2])
    assert formatter.batch(formatter.rows([[("the dog",)]])[0]).oov_characters is None


@pytest.mark.parametrize("family", DIFFERENT)
@pytest.mark.parametrize("kind", ["classify", "pair", "similarity", "choice", "tag", "span"])
def test_predictions_do_not_depend_on_the_batch(family, kind):
    model, rows = tuned(family, kind), examples(kind)[:9]
    together = model.task.predict(model.encoder, model.read(rows, num_rows=9))
    for row, expected in zip(rows[:4], together, strict=False):
        (alone,) = model.predict([row])
        for one, other in zip(numbers(alone), numbers(expected), strict=True):
            assert one == pytest.approx(other, abs=1e-5)


def numbers(answer):
    """All numbers of a prediction."""
    if hasattr(answer, "words"):
        return [word.probability for word in answer.words]
    if hasattr(answer, "answers"):
        return [answer.answers.null_score, *(best.score for best in answer.answers.best), *answer.probabilities]
    if hasattr(answer, "score"):
        return [answer.score]
    return list(answer.probabilities.values() if isinstance(answer.probabilities, dict) else answer.probabilities)


def test_micro_batches_keep_examples_whole():
    batch = Batch.of(torch.arange(24).view(12, 2), rows_per_example=3).with_labels(
        "x", torch.tensor([1, -100, -100] * 4)
    )
    for num_rows in (1, 3, 4, 7, 12, 20):
        parts = list(batch.split(num_rows))
        assert all(len(part.ids) % 3 == 0 for part in parts)
        assert all(part.counts["x"] == len(part.ids) // 3 for part in parts)
        assert torch.equal(torch.cat([part.ids for part in parts]), batch.ids)
        assert len(parts) <= -(-12 // num_rows)
