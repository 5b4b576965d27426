"""Files with the columns of well-known datasets are read as they are."""

import logging

import pytest

from polyseme.datasets.labelled_files import read_examples, stream_examples
from polyseme.datasets.task_schemas import ClassifyExample, PairExample, SimilarityExample
from polyseme.errors import DataError
from polyseme.tasks import TASKS, guess_task

CASES = {
    "GLUE, STS-B": ("similarity", "sentence1\tsentence2\tscore", "a b\tc d\t3.5"),
    "GLUE, MRPC": ("pair", "idx\tsentence1\tsentence2\tlabel", "0\ta b\tc d\tyes"),
    "SNLI": ("pair", "premise\thypothesis\tgold_label", "a b\tc d\tyes"),
    "QQP": ("pair", "question1\tquestion2\tis_duplicate", "a b\tc d\t1"),
    "QNLI": ("pair", "question\tsentence\tlabel", "a b\tc d\tyes"),
    "BoolQ": ("pair", "question\tpassage\tlabel", "a b\tc d\tyes"),
    "questions with a context": ("pair", "question\tcontext\tlabel", "a b\tc d\tyes"),
    "GLUE, SST-2": ("classify", "sentence\tlabel", "a b\tgood"),
    "reviews": ("classify", "review\tstars", "a b\t5"),
    "texts with a rating": ("classify", "text\trating", "a b\t5"),
}


def write(folder, header, *rows):
    path = folder / "train.tsv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


@pytest.mark.parametrize(("task", "header", "row"), CASES.values(), ids=CASES)
def test_columns_are_recognised_and_reported(tmp_path, caplog, task, header, row):
    path = write(tmp_path, header, row)
    assert guess_task(path) == task
    with caplog.at_level(logging.WARNING):
        (example,) = read_examples(path, TASKS[task].Example)
    assert example.texts == (("a b",) if task == "classify" else ("a b", "c d"))
    (message,) = caplog.messages
    own = {*TASKS[task].Example.columns.values()}
    for name in {*header.split("\t")} - own - {"idx"}:
        assert repr(name) in message
    assert str(path) in message


def test_own_columns_are_read_without_a_message(tmp_path, caplog):
    path = write(tmp_path, "text_a\ttext_b\tsentence1\tsentence2\tlabel\tscore", "a\tb\tc\td\tx\t1")
    assert guess_task(path) == "pair"
    (example,) = read_examples(path, PairExample)
    assert example.texts == ("a", "b") and not caplog.messages


def test_named_columns_take_precedence(tmp_path, caplog):
    path = write(tmp_path, "sentence\treview\tlabel", "a\tb\tx")
    (example,) = read_examples(path, ClassifyExample, columns={"text": "review"})
    assert example.text == "b" and not caplog.messages


def test_unlabelled_rows(tmp_path):
    path = write(tmp_path, "premise\thypothesis", "a b\tc d")
    (example,) = stream_examples(path, PairExample)
    assert example.texts == ("a b", "c d")


@pytest.mark.parametrize(
    ("header", "row", "message"),
    [
        (
            "sentence_A\tsentence_B\trelatedness_score\tentailment_label",
            "a\tb\t1\tx",
            "--task pair or --task similarity",
        ),
        ("sentence\treview\tlabel", "a\tb\tx", "no task has the columns label, review, sentence"),
        ("text\ttopic\trating", "a\tb\t1", "no task has the columns"),
    ],
)
def test_ambiguous_columns_are_not_guessed(tmp_path, header, row, message):
    with pytest.raises(DataError, match=message):
        guess_task(write(tmp_path, header, row))


def test_ambiguous_task_that_is_named(tmp_path):
    path = write(tmp_path, "sentence_A\tsentence_B\trelatedness_score\tentailment_label", "a\tb\t1.5\tx")
    assert read_examples(path, SimilarityExample)[0].score == 1.5
    assert read_examples(path, PairExample)[0].label == "x"
