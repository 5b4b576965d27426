import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyseme.errors import ConfigError, DataError
from polyseme.text.checking import Spread, check_files
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.vocabulary import TokenizerConfig

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
STRAY = "look for a tab, a comma or a quotation mark inside a text"
OTHER = "have the text of an earlier row but another answer"


def save(path, lines):
    path.write_text("\n".join(["text\tlabel", *lines]) + "\n", encoding="utf-8")
    return path


def good(number, label="ab"):
    """Rows that differ from each other, half of each label."""
    return [f"row {row} of many\t{label[row % len(label)]}" for row in range(number)]


def said(report):
    return [(finding.hurts, finding.num_rows, finding.what) for finding in report.findings]


def test_nothing_wrong(tmp_path):
    report = check_files(save(tmp_path / "a.tsv", good(30)), save(tmp_path / "b.tsv", good(60)[30:]))
    assert report.task == "classify" and report.findings == [] and not report.hurts
    first, second = report.surveys
    assert first.file == tmp_path / "a.tsv" and first.labels == {"a": 15, "b": 15} == second.labels
    assert first.characters == Spread(least=13, median=14, most=14, greatest=14)
    assert first.words == Spread(least=4, median=4, most=4, greatest=4)
    assert first.scores is None and first.reading is None


def test_rows_that_cannot_be_used(tmp_path):
    report = check_files(save(tmp_path / "a.tsv", [*good(40), "\ta", " \tb", "x", "x\ta\tb"]))
    assert report.hurts and len(report.surveys[0].unusable) == 4 and len(report.surveys[0].examples) == 40
    assert said(report) == [
        (True, 2, "cannot be used: the column 'text' is empty (line 42, line 43); give it a value or drop the row"),
        (True, 1, "cannot be used: the column 'label' is empty (line 44); give it a value or drop the row"),
        (True, 1, f"cannot be used: more fields than columns (line 45); {STRAY}"),
    ]


def test_no_row_can_be_used(tmp_path):
    report = check_files(save(tmp_path / "a.tsv", ["a\t", "b\t"]))
    (survey,) = report.surveys
    assert report.hurts and survey.examples == [] and survey.characters is None and survey.labels == {}


def test_repeated_and_contradicting_rows(tmp_path):
    lines = [*good(40), "Row 3  of\u3000MANY\tb", "row 3 of many\ta", "row 4 of many\ta", "row 5 of many\ta"]
    report = check_files(save(tmp_path / "a.tsv", lines))
    assert said(report) == [
        (True, 2, f"{OTHER} (line 43 = line 5, line 45 = line 7); decide for one"),
        (False, 2, "repeat an earlier row (line 42 = line 5, line 44 = line 6)"),
    ]
    few = check_files(save(tmp_path / "b.tsv", [*good(400), "row 3 of many\ta"]))
    assert [hurts for hurts, *_ in said(few)] == [False]


def test_leaks_between_files(tmp_path):
    train = save(tmp_path / "train.tsv", good(200))
    dev = save(tmp_path / "dev.tsv", ["new\ta", *good(5), "newer\tb", *good(300)[201:]])
    test = save(tmp_path / "test.tsv", ["NEW\ta", "row 7 of many\tb", "row 1 of many\tb", *good(600)[401:]])
    report = check_files(train, dev, test)
    assert [len(survey.leaked) for survey in report.surveys] == [0, 5, 3]
    where = "line 3 = line 2, line 4 = line 3, line 5 = line 4, …"
    assert said(report) == [
        (True, 5, f"stand in {train} too ({where}); drop them from one of the two"),
        (False, 1, f"stand in {dev} too (line 2 = line 2); drop them from one of the two"),
        (False, 2, f"stand in {train} too (line 3 = line 9, line 4 = line 3); drop them from one of the two"),
    ]


def test_labels(tmp_path):
    train = save(tmp_path / "train.tsv", [*good(200, "a"), "another\tb"])
    dev = save(tmp_path / "dev.tsv", ["x\ta", "y\tc", "z\td"])
    report = check_files(train, dev)
    what = f"have labels that {train} lacks: 'c', 'd' (line 3, line 4); correct them, or add such rows there"
    assert said(report) == [
        (True, 2, what),
        (False, 200, "have the label 'a'; always saying it would be right in 100%"),
        (False, 1, "have labels that are too rare to learn well: 'b'"),
    ]
    (only,) = said(check_files(save(tmp_path / "one.tsv", good(20, "a"))))
    assert only == (True, 20, "all have the label 'a'; add rows with another one")


def test_damaged_text(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes(b"text\tlabel\n" + "\n".join(good(20)).encode() + b"\ncaf\xe9\ta\n")
    assert said(check_files(path)) == [
        (True, 1, "hold bytes that were no text (line 22); write the file anew, as UTF-8")
    ]


def test_similarity(tmp_path):
    path = tmp_path / "a.tsv"
    rows = ["text_a\ttext_b\tscore", *(f"a {n}\tb {n}\t{n / 2}" for n in range(9)), "a 1\tb 1\t4"]
    path.write_text("\n".join(rows))
    report = check_files(path)
    assert report.task == "similarity" and report.surveys[0].scores == Spread(least=0, median=2, most=4, greatest=4)
    assert [(hurts, number) for hurts, number, _ in said(report)] == [(True, 1)]
    path.write_text("\n".join(rows[:2]))
    assert said(check_files(path)) == [(True, 1, "all have the score 0; there is nothing to learn or to measure")]


def test_choices(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [{"context": f"c {n}", "choices": ["x", "yy y"] + ["z"] * (n == 2), "answer": n % 2} for n in range(9)]
    path.write_text("\n".join(map(json.dumps, [*rows, rows[0] | {"answer": "yy y"}])))
    report = check_files(path)
    survey = report.surveys[0]
    assert survey.labels == {"0": 5, "1": 5} and survey.words == Spread(least=4, median=4, most=4, greatest=4)
    assert said(report)[0][:2] == (True, 1)
    assert said(report)[1:] == [(False, 1, "do not have 2 choices, as the others do")]


def test_tags(tmp_path):
    train, dev = tmp_path / "train.conll", tmp_path / "dev.conll"
    train.write_text("".join(f"word{n} O\nAda B-PER\n\n" for n in range(20)) + "Word3 B-LOC\nada O\n")
    dev.write_text("a I-PER\n\nb O\n")
    report = check_files(train, dev)
    assert report.surveys[0].labels == {"O": 21, "B-PER": 20, "B-LOC": 1}
    assert report.surveys[0].words == Spread(least=2, median=2, most=2, greatest=2)
    assert [(hurts, number, what.split(" (")[0]) for hurts, number, what in said(report)] == [
        (True, 1, OTHER),
        (True, 1, f"have labels that {train} lacks: 'I-PER'"),
        (False, 1, "have labels that are too rare to learn well: 'B-LOC'"),
    ]


def test_questions(tmp_path):
    def ask(id, question, *answers):
        return {"id": id, "question": question, "answers": [{"text": t, "answer_start": s} for t, s in answers]}

    def squad(name, *questions):
        data = [{"paragraphs": [{"context": "The bank by the river.", "qas": list(questions)}]}]
        (tmp_path / name).write_text(json.dumps({"data": data}))
        return tmp_path / name

    questions = [ask("a", "What?", ("bank", 4)), ask("b", "Where?", ("river", 16)), ask("b", "Who?", ("money", -1))]
    report = check_files(squad("a.json", *questions))
    assert report.task == "span" and not report.hurts and report.surveys[0].labels == {"answerable": 3}
    assert said(report) == [
        (False, 1, "have answers that are not in the passage word for word (question 3 (b))"),
        (False, 2, "share an id with another (question 2 (b), question 3 (b))"),
    ]
    elsewhere = "the answer is not at its place in the passage"
    report = check_files(squad("b.json", ask("a", "What?", ("bank", 3)), ask("c", "What?", ("", 0))))
    assert said(report) == [
        (True, 1, f"cannot be used: {elsewhere} (question 1 (a)); correct answer_start"),
        (True, 1, "have no answer; there is nothing to learn or to measure"),
    ]


@pytest.fixture(scope="module")
def tokenizer():
    config = TokenizerConfig(kind="word", min_count=1)
    return Tokenizer.train(config, [" ".join(WORDS)], vocab_size=40)


def test_how_a_model_reads(tmp_path, tokenizer):
    path = save(tmp_path / "a.tsv", [f"{' '.join(WORDS[: n % 6 + 1])} {'x' * n}\t{n % 2}" for n in range(1, 41)])
    report = check_files(path, tokenizer=tokenizer, max_length=8)
    reading = report.surveys[0].reading
    lengths = [n % 6 + 2 for n in range(1, 41)]  # one of them unknown
    assert reading.tokens == Spread.of(length + 2 for length in lengths)
    assert reading.unknown == pytest.approx(40 / sum(lengths))
    assert [example.row - 1 for example in reading.long] == [n for n in range(1, 41) if n % 6 == 5]
    assert said(report) == [
        (True, 40, "have 22% unknown tokens; take a model that knows this language"),
        (True, 6, "are longer than the 8 tokens of the model and are cut (line 6, line 12, line 18, …)"),
    ]
    assert not check_files(path, tokenizer=tokenizer, max_length=9, reads_letters=True).findings


def test_words_with_tags_are_read_one_by_one(tmp_path, tokenizer):
    path = tmp_path / "a.conll"
    path.write_text("".join(f"one O\ntwo-{n} B-X\n\n" for n in range(20)))
    reading = check_files(path, tokenizer=tokenizer, max_length=6).surveys[0].reading
    assert reading.tokens == Spread(least=6, median=6, most=6, greatest=6) and reading.long == []


def test_mistakes(tmp_path):
    path = save(tmp_path / "a.tsv", good(4))
    with pytest.raises(ConfigError, match="'clasify' is no task; did you mean classify"):
        check_files(path, task="clasify")
    with pytest.raises(DataError, match=r"a.tsv: no column 'text_a'; did you mean text\?"):
        check_files(path, task="pair")
    with pytest.raises(DataError, match=r"b.tsv: no such file; did you mean a.tsv\?"):
        check_files(path, tmp_path / "b.tsv")


@given(st.lists(st.integers(0, 50), min_size=1))
def test_spreads(figures):
    assert Spread.of(range(201)) == Spread(least=0, median=100, most=190, greatest=200)
    spread = Spread.of(figures)
    assert [min(figures), max(figures)] == [spread.least, spread.greatest]
    assert {spread.median, spread.most} <= set(figures)
    assert sum(figure <= spread.median for figure in figures) >= len(figures) / 2
    assert sum(figure >= spread.median for figure in figures) >= len(figures) / 2
    assert sum(figure > spread.most for figure in figures) <= 0.05 * len(figures) + 0.5
