import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyseme.datasets import quality
from polyseme.datasets.quality import Distribution
from polyseme.errors import DataError
from polyseme.tasks import TASKS, guess_task
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.tokenizer import Tokenizer

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
STRAY = "check for a tab, comma or quotation mark inside a text"
CONTRADICTION = "have the text of an earlier row with another label"


def save(path, lines):
    path.write_text("\n".join(["text\tlabel", *lines]) + "\n", encoding="utf-8")
    return path


def good(number, label="ab"):
    """Distinct rows, with the labels in turn."""
    return [f"row {row} of many\t{label[row % len(label)]}" for row in range(number)]


def check_files(path, *others, task=None, **options):
    return quality.check_files(TASKS[task or guess_task(path)].Example, path, *others, **options)


def findings_of(report):
    return [(finding.is_problem, finding.num_rows, finding.message) for finding in report.findings]


def test_valid_files(tmp_path):
    report = check_files(save(tmp_path / "a.tsv", good(30)), save(tmp_path / "b.tsv", good(60)[30:]))
    assert report.findings == [] and not report.has_problems
    first, second = report.reports
    assert first.file == tmp_path / "a.tsv" and first.labels == {"a": 15, "b": 15} == second.labels
    assert first.characters == Distribution(minimum=13, median=14, percentile_95=14, maximum=14)
    assert first.words == Distribution(minimum=4, median=4, percentile_95=4, maximum=4)
    assert first.scores is None and first.tokenization is None


def test_invalid_rows(tmp_path):
    report = check_files(save(tmp_path / "a.tsv", [*good(40), "\ta", " \tb", "x", "x\ta\tb"]))
    assert report.has_problems and len(report.reports[0].invalid) == 4 and len(report.reports[0].examples) == 40
    assert findings_of(report) == [
        (True, 2, "are invalid: column 'text' is empty (line 42, line 43); fill it in or remove the row"),
        (True, 1, "are invalid: column 'label' is empty (line 44); fill it in or remove the row"),
        (True, 1, f"are invalid: more fields than columns (line 45); {STRAY}"),
    ]


def test_all_rows_invalid(tmp_path):
    report = check_files(save(tmp_path / "a.tsv", ["a\t", "b\t"]))
    (part,) = report.reports
    assert report.has_problems and part.examples == [] and part.characters is None and part.labels == {}


def test_repeated_and_contradicting_rows(tmp_path):
    lines = [*good(40), "Row 3  of\u3000MANY\tb", "row 3 of many\ta", "row 4 of many\ta", "row 5 of many\ta"]
    report = check_files(save(tmp_path / "a.tsv", lines))
    assert findings_of(report) == [
        (True, 2, f"{CONTRADICTION} (line 43 = line 5, line 45 = line 7); correct one"),
        (False, 2, "repeat an earlier row (line 42 = line 5, line 44 = line 6)"),
    ]
    few = check_files(save(tmp_path / "b.tsv", [*good(400), "row 3 of many\ta"]))
    assert [is_problem for is_problem, *_ in findings_of(few)] == [False]


def test_leaks_between_files(tmp_path):
    train = save(tmp_path / "train.tsv", good(200))
    dev = save(tmp_path / "dev.tsv", ["new\ta", *good(5), "newer\tb", *good(300)[201:]])
    test = save(tmp_path / "test.tsv", ["NEW\ta", "row 7 of many\tb", "row 1 of many\tb", *good(600)[401:]])
    report = check_files(train, dev, test)
    assert [len(part.leaked) for part in report.reports] == [0, 5, 3]
    where = "line 3 = line 2, line 4 = line 3, line 5 = line 4, …"
    assert findings_of(report) == [
        (True, 5, f"also occur in {train} ({where}); remove them from one file"),
        (False, 1, f"also occur in {dev} (line 2 = line 2); remove them from one file"),
        (False, 2, f"also occur in {train} (line 3 = line 9, line 4 = line 3); remove them from one file"),
    ]


def test_labels(tmp_path):
    train = save(tmp_path / "train.tsv", [*good(200, "a"), "another\tb"])
    dev = save(tmp_path / "dev.tsv", ["x\ta", "y\tc", "z\td"])
    report = check_files(train, dev)
    message = (
        f"have labels that are not in {train}: 'c', 'd' (line 3, line 4); correct them, or add training rows with them"
    )
    assert findings_of(report) == [
        (True, 2, message),
        (False, 200, "have the label 'a'; always predicting it scores 100%"),
        (False, 1, "have rare labels, which are hard to learn: 'b'"),
    ]
    (only,) = findings_of(check_files(save(tmp_path / "one.tsv", good(20, "a"))))
    assert only == (True, 20, "all have the label 'a'; add rows with other labels")


def test_damaged_text(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes(b"text\tlabel\n" + "\n".join(good(20)).encode() + b"\ncaf\xe9\ta\n")
    assert findings_of(check_files(path)) == [(True, 1, "contain undecodable bytes (line 22); save the file as UTF-8")]


def test_similarity(tmp_path):
    path = tmp_path / "a.tsv"
    rows = ["text_a\ttext_b\tscore", *(f"a {n}\tb {n}\t{n / 2}" for n in range(9)), "a 1\tb 1\t4"]
    path.write_text("\n".join(rows))
    report = check_files(path)
    assert report.reports[0].scores == Distribution(minimum=0, median=2, percentile_95=4, maximum=4)
    assert [(is_problem, number) for is_problem, number, _ in findings_of(report)] == [(True, 1)]
    path.write_text("\n".join(rows[:2]))
    assert findings_of(check_files(path)) == [(True, 1, "all have the score 0; add rows with other scores")]


def test_choices(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [{"context": f"c {n}", "choices": ["x", "yy y"] + ["z"] * (n == 2), "answer": n % 2} for n in range(9)]
    path.write_text("\n".join(map(json.dumps, [*rows, rows[0] | {"answer": "yy y"}])))
    report = check_files(path)
    part = report.reports[0]
    assert part.labels == {"0": 5, "1": 5} and part.words == Distribution(
        minimum=4, median=4, percentile_95=4, maximum=4
    )
    assert findings_of(report)[0][:2] == (True, 1)
    assert findings_of(report)[1:] == [(False, 1, "have more or fewer than 2 choices (line 3)")]


def test_tags(tmp_path):
    train, dev = tmp_path / "train.conll", tmp_path / "dev.conll"
    train.write_text("".join(f"word{n} O\nAda B-PER\n\n" for n in range(20)) + "Word3 B-LOC\nada O\n")
    dev.write_text("a I-PER\n\nb O\n")
    report = check_files(train, dev)
    assert report.reports[0].labels == {"O": 21, "B-PER": 20, "B-LOC": 1}
    assert report.reports[0].words == Distribution(minimum=2, median=2, percentile_95=2, maximum=2)
    assert [(is_problem, number, message.split(" (")[0]) for is_problem, number, message in findings_of(report)] == [
        (True, 1, CONTRADICTION),
        (True, 1, f"have labels that are not in {train}: 'I-PER'"),
        (False, 1, "have rare labels, which are hard to learn: 'B-LOC'"),
    ]


def test_questions(tmp_path):
    def qa(id, question, *answers):
        return {"id": id, "question": question, "answers": [{"text": t, "answer_start": s} for t, s in answers]}

    def squad(name, *questions):
        data = [{"paragraphs": [{"context": "The bank by the river.", "qas": list(questions)}]}]
        (tmp_path / name).write_text(json.dumps({"data": data}))
        return tmp_path / name

    questions = [qa("a", "What?", ("bank", 4)), qa("b", "Where?", ("river", 16)), qa("b", "Who?", ("money", -1))]
    report = check_files(squad("a.json", *questions))
    assert not report.has_problems and report.reports[0].labels == {"answerable": 3}
    assert findings_of(report) == [
        (False, 1, "have answers that are not literally in the passage (question 3 (b))"),
        (False, 2, "have the id of another question (question 2 (b), question 3 (b))"),
    ]
    misplaced = "the passage has no such answer at answer_start"
    report = check_files(squad("b.json", qa("a", "What?", ("bank", 3)), qa("c", "What?", ("", 0))))
    assert findings_of(report) == [
        (True, 1, f"are invalid: {misplaced} (question 1 (a)); correct answer_start"),
        (True, 1, "have no answer (question 2 (c)); add questions with answers"),
    ]


@pytest.fixture(scope="module")
def tokenizer():
    config = TokenizerConfig(kind="word", min_count=1)
    return Tokenizer.train(config, [" ".join(WORDS)], vocab_size=40)


def test_tokenization(tmp_path, tokenizer):
    path = save(tmp_path / "a.tsv", [f"{' '.join(WORDS[: n % 6 + 1])} {'x' * n}\t{n % 2}" for n in range(1, 41)])
    report = check_files(path, tokenizer=tokenizer, max_length=8)
    stats = report.reports[0].tokenization
    lengths = [n % 6 + 2 for n in range(1, 41)]  # the last token is unknown
    assert stats.lengths == Distribution.of(length + 2 for length in lengths)
    assert stats.unknown_fraction == pytest.approx(40 / sum(lengths))
    assert [example.row - 1 for example in stats.too_long] == [n for n in range(1, 41) if n % 6 == 5]
    assert findings_of(report) == [
        (True, 40, "have 22% unknown tokens; use a model of this language"),
        (True, 6, "exceed the model's 8 tokens and are truncated (line 6, line 12, line 18, …)"),
    ]
    assert not check_files(path, tokenizer=tokenizer, max_length=9, uses_characters=True).findings


def test_tagged_words_are_tokenized_one_by_one(tmp_path, tokenizer):
    path = tmp_path / "a.conll"
    path.write_text("".join(f"one O\ntwo-{n} B-X\n\n" for n in range(20)))
    stats = check_files(path, tokenizer=tokenizer, max_length=6).reports[0].tokenization
    assert stats.lengths == Distribution(minimum=6, median=6, percentile_95=6, maximum=6) and stats.too_long == []


def test_invalid_arguments(tmp_path):
    path = save(tmp_path / "a.tsv", good(4))
    with pytest.raises(DataError, match=r"a.tsv: no column 'text_a'; did you mean text\?"):
        check_files(path, task="pair")
    with pytest.raises(DataError, match=r"b.tsv: no such file; did you mean a.tsv\?"):
        check_files(path, tmp_path / "b.tsv")


@given(st.lists(st.integers(0, 50), min_size=1))
def test_order_statistics(values):
    assert Distribution.of(range(201)) == Distribution(minimum=0, median=100, percentile_95=190, maximum=200)
    stats = Distribution.of(values)
    assert [min(values), max(values)] == [stats.minimum, stats.maximum]
    assert {stats.median, stats.percentile_95} <= set(values)
    assert sum(value <= stats.median for value in values) >= len(values) / 2
    assert sum(value >= stats.median for value in values) >= len(values) / 2
    assert sum(value > stats.percentile_95 for value in values) <= 0.05 * len(values) + 0.5
