import csv
import gzip
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyseme.errors import ConfigError, DataError
from polyseme.text.forms import (
    TASKS,
    Answer,
    ChoiceExample,
    ClassifyExample,
    PairExample,
    SimilarityExample,
    SpanExample,
    TagExample,
)
from polyseme.text.labelled import examples_of, find_labels, guess_task, read_examples, require_labels, stream_examples
from polyseme.text.records import RowError
from polyseme.text.town import Town, write

CLASSIFY = [{"text": "a fine day", "label": "good"}, {"text": "雨，又是雨", "label": "bad"}]
ROWS = {
    "classify": CLASSIFY,
    "pair": [{"text_a": "it rains", "text_b": "it is wet", "label": "entailment"}],
    "similarity": [{"text_a": "it rains", "text_b": "it is wet", "score": 3.5}],
    "choice": [{"context": "when it rains one takes", "choices": ["a cat", "an umbrella", "伞"], "answer": 1}],
}


def save(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def tables(folder, rows):
    """The same rows in every format."""
    names = list(rows[0])
    cells = [names, *([v if isinstance(v, str) else json.dumps(v) for v in row.values()] for row in rows)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    yield save(folder / "a.tsv", "".join("\t".join(row) + "\n" for row in cells))
    yield save(folder / "a.jsonl", lines)
    yield save(folder / "a.jsonl.gz", gzip.compress(lines.encode()))
    with (folder / "a.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(cells)
    yield folder / "a.csv"


def values(examples):
    return [{name: getattr(example, name) for name in type(example).columns} for example in examples]


@pytest.mark.parametrize("task", ROWS)
def test_tables_of_every_kind(tmp_path, task):
    rows = [row | {"choices": tuple(row["choices"])} if "choices" in row else row for row in ROWS[task]]
    for path in tables(tmp_path, ROWS[task]):
        assert guess_task(path) == task
        examples = read_examples(path, TASKS[task])
        assert values(examples) == rows
        first = 1 if "json" in path.name else 2  # after the names
        assert [example.row for example in examples] == list(range(first, first + len(rows)))
        assert examples[0].place == f"{path}, line {examples[0].row}"


@pytest.mark.parametrize("task", ROWS)
def test_parquet(tmp_path, task):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(arrow.Table.from_pylist([row | {"extra": {"deep": [1]}} for row in ROWS[task]]), path)
    examples = read_examples(path, TASKS[task])
    assert json.dumps(values(examples)) == json.dumps(ROWS[task])
    assert guess_task(path) == task and examples[0].place == f"{path}, row 1"


def test_bytes_in_parquet_that_are_no_text(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    texts = arrow.array([b"a\xffb", b"\x00"], arrow.binary())
    broken = arrow.StringArray.from_buffers(2, texts.buffers()[1], texts.buffers()[2])
    lists = arrow.ListArray.from_arrays([0, 2], broken)
    table = arrow.table({"context": broken[:1], "choices": lists, "answer": [0]})
    parquet.write_table(table, tmp_path / "a.parquet")
    (example,) = read_examples(tmp_path / "a.parquet", ChoiceExample)
    assert example.texts == ("a\ufffdb", "a\ufffdb", "\ufffd")


def test_columns_may_have_other_names(tmp_path):
    path = save(tmp_path / "a.csv", 'stars,review,text\n5,"one\ntwo",x\n1,"say ""no""",x\n')
    columns = {"text": "review", "label": "stars"}
    assert guess_task(path, columns=columns) == "classify"
    first, second = read_examples(path, ClassifyExample, columns=columns)
    assert (first.text, first.label, first.row) == ("one\ntwo", "5", 2)
    assert (second.text, second.label, second.row) == ('say "no"', "1", 4)
    with pytest.raises(ConfigError, match="txet is nothing that the task needs; did you mean text"):
        read_examples(path, ClassifyExample, columns={"txet": "review"})


def test_labels_may_be_numbers(tmp_path):
    path = save(tmp_path / "a.jsonl", '{"text": "a", "label": 1}\n\n{"text": "b", "label": " 0 "}\n')
    assert [(example.label, example.row) for example in read_examples(path, ClassifyExample)] == [("1", 1), ("0", 3)]


@pytest.mark.parametrize(
    ("choices", "answer", "expected"),
    [
        (["a", "b", "c"], 2, 2),
        (["a", "b", "c"], "b", 1),
        (["a", "b", "c"], "2", 2),
        (["7", "8"], "8", 1),
        (["1", "0"], 0, 0),
        (["0", "1"], "1", 1),
        (["a", "a", "c"], 1, 1),
    ],
)
def test_answers_by_number_and_by_text(tmp_path, choices, answer, expected):
    path = save(tmp_path / "a.jsonl", json.dumps({"context": "x", "choices": choices, "answer": answer}))
    assert read_examples(path, ChoiceExample)[0].answer == expected


def tagged(path, **options):
    return [(example.row, example.words, example.tags) for example in read_examples(path, TagExample, **options)]


def test_tags(tmp_path):
    path = save(tmp_path / "a.conll", "\nAda\tB-PER\r\n#\tO\r\n \t \r\n\r\n他\tO\n去\tI-X")
    assert tagged(path) == [(2, ("Ada", "#"), ("B-PER", "O")), (6, ("他", "去"), ("O", "I-X"))]
    assert guess_task(path) == "tag"


def test_tags_between_spaces_in_other_columns(tmp_path):
    path = save(tmp_path / "a.txt", "-DOCSTART- -X- O O\n\n# NN I-NP O\nEU NNP I-NP S-ORG\n\n-DOCSTART- -X- O O\n")
    assert tagged(path) == [(3, ("#", "EU"), ("O", "S-ORG"))]
    assert tagged(path, columns={"tag": "2"}) == [(3, ("#", "EU"), ("NN", "NNP"))]
    assert tagged(path, columns={"tag": "-2", "word": "4"}) == [(3, ("O", "S-ORG"), ("I-NP", "I-NP"))]


def test_comments_where_columns_stand_between_tabs(tmp_path):
    path = save(tmp_path / "a.conllu", "# text = He left\n1\tHe\tPRON\n2\tleft\tVERB\n\n# no words\n\n")
    assert tagged(path, columns={"word": "2"}) == [(2, ("He", "left"), ("PRON", "VERB"))]


def squad(path, *questions, passage="The bank by the river."):
    paragraph = {"context": passage, "qas": list(questions)}
    return save(path, json.dumps({"version": "x", "data": [{"paragraphs": [paragraph]}]}, indent=1))


def ask(*answers, **extra):
    return {"id": "q7", "question": "Where?", "answers": [{"text": t, "answer_start": s} for t, s in answers]} | extra


def test_questions(tmp_path):
    path = squad(
        tmp_path / "a.json",
        ask(("bank", 4), ("river", 16)),
        ask(is_impossible=True, plausible_answers=[{"text": "x", "answer_start": 3}]),
        ask(("", 0)),
        ask(("by a stream", -1)),
        {"question": "Who?", "answers": []},
    )
    assert guess_task(path) == "span"
    first, *others = read_examples(path, SpanExample)
    assert first.answers == (Answer("bank", 4), Answer("river", 16)) and first.id == "q7"
    assert [example.answers for example in others] == [(), (), (Answer("by a stream", None),), ()]
    assert [example.labels[0][0] for example in (first, *others)] == ["a", "u", "u", "a", "u"]
    assert (others[-1].id, others[-1].row) == ("5", 5) and first.passage is others[0].passage


def test_json_of_one_long_line(tmp_path):
    """Whole files have no rows, so that no row is too long."""
    passage = "word " * 3_300_000
    (example,) = read_examples(squad(tmp_path / "a.json", ask(("word", 5)), passage=passage), SpanExample)
    assert len(example.passage) == len(passage)


@given(st.text(min_size=1, max_size=40).filter(str.strip), st.integers(0, 40), st.integers(1, 40), st.integers(-3, 3))
def test_answers_are_exactly_where_they_are_said_to_be(tmp_path_factory, passage, start, length, shift):
    text = passage[start : start + length]
    path = squad(tmp_path_factory.mktemp("span") / "a.json", ask((text, start + shift)), passage=passage)
    mended = passage.replace("\0", "\ufffd")
    try:
        (example,) = read_examples(path, SpanExample)
    except DataError as error:
        assert "a.json, question 1 (q7): the answer is not at its place" in str(error) and "\n" not in str(error)
        assert shift
        return
    for answer in example.answers:
        place = start + shift if answer.start is None else answer.start
        assert answer.start is None or mended[place : place + len(answer.text)] == answer.text
        assert place == start + shift


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(str.strip)


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=5))
def test_any_text_comes_back_from_json_and_csv(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("rows")
    lines = [json.dumps({"text": text, "label": label}) for text, label in rows]
    with (folder / "a.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    for path, ending in ((save(folder / "a.jsonl", "\n".join(lines)), "\r\n"), (folder / "a.csv", "\n")):
        examples = read_examples(path, ClassifyExample)
        expected = [(text.replace("\r\n", ending), label.replace("\r\n", ending).strip()) for text, label in rows]
        assert [(example.text, example.label) for example in examples] == expected


words = st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1).filter(lambda word: word == word.strip())


@given(st.lists(st.lists(st.tuples(words, words), min_size=1, max_size=4), min_size=1, max_size=4))
def test_any_words_come_back_from_columns(tmp_path_factory, sentences):
    path = tmp_path_factory.mktemp("tags") / "a.conll"
    save(path, "\n\n".join("\n".join(f"{word}\t{tag}" for word, tag in sentence) for sentence in sentences))
    assert [tuple(zip(words, tags, strict=True)) for _, words, tags in tagged(path)] == list(map(tuple, sentences))


@given(st.binary(max_size=300), st.sampled_from(["tsv", "csv", "jsonl", "conll", "json"]), st.sampled_from([*TASKS]))
def test_no_bytes_raise_anything_but_data_errors(tmp_path_factory, content, ending, task):
    path = save(tmp_path_factory.mktemp("hostile") / f"a.{ending}", content)
    for options in ({}, {"faults": []}):
        try:
            for example in read_examples(path, TASKS[task], **options):
                assert all(example.texts)
        except DataError as error:
            assert "\n" not in str(error)


def test_the_town(tmp_path):
    write(tmp_path, 0, num_documents=16, num_rows=24)
    for task, form in TASKS.items():
        for folder in (tmp_path / task, tmp_path / f"{task}_zh"):
            for split, number in (("train", 24), ("dev", 3), ("test", 3)):
                (path,) = folder.glob(f"{split}.*")
                assert guess_task(path) == task
                assert len(read_examples(path, form)) == number
    rows = list(Town(0).labelled("span", 24))
    for row, example in zip(rows, read_examples(tmp_path / "span" / "train.json", SpanExample), strict=True):
        assert (row["id"], row["question"], row["context"]) == (example.id, example.question, example.passage)
        assert bool(example.answers) is not row["is_impossible"]


def choice(choices, answer):
    return json.dumps({"context": "a", "choices": choices, "answer": answer})


HEAD = "text\tlabel\n"
SCORE = "text_a\ttext_b\tscore\n"
CHINESE = "天气很好，我们去公园\tgood\n".encode("gb18030") * 9
NONE = "the answer is none of the choices"
SEVERAL = "the answer may be several of the choices"
MISTAKES = [
    (ClassifyExample, "a.tsv", "txt\tlabel\na\tb\n", "a.tsv: no column 'text'; did you mean txt?"),
    (ClassifyExample, "a.tsv", f"{HEAD}a\tb\n \tc\n", "a.tsv, line 3: the column 'text' is empty; give it a value"),
    (ClassifyExample, "a.tsv", f"{HEAD}a\n", "a.tsv, line 2: the column 'label' is empty"),
    (ClassifyExample, "a.tsv", f"{HEAD}a\tb\tc\n", "a.tsv, line 2: more fields than columns; look for a tab"),
    (ClassifyExample, "a.tsv", HEAD, "a.tsv holds no examples"),
    (ClassifyExample, "a.csv", "", "a.csv holds no examples"),
    (ClassifyExample, "a.csv", 'text,label\n"a,b\nc,d\n', "a.csv, line 2: the column 'label' is empty"),
    (ClassifyExample, "a.txt", "a\tb\n", "a.txt is not a table; write it as .tsv"),
    (ClassifyExample, "a.jsonl", '{"text": 5, "label": 1}', "a.jsonl, line 1: the column 'text' is not text"),
    (ClassifyExample, "a.jsonl", '{"text": "a", "label": [1]}', "the column 'label' is no label"),
    (ClassifyExample, "a.jsonl", '{"text": "a", "label": 1}\n{"text": "b"}', "line 2: the column 'label' is empty"),
    (ClassifyExample, "a.jsonl", '"text"', "a.jsonl, line 1: not a row with columns"),
    (ClassifyExample, "a.jsonl", '{"text": "a"\n', "a.jsonl, line 1: not JSON"),
    (ClassifyExample, "a.tsv", HEAD.encode() + CHINESE, "iconv -f gb18030"),
    (ClassifyExample, "none.tsv", None, "none.tsv: no such file"),
    (PairExample, "a.tsv", "text_a\ttext_b\tlabel\na\t\tc\n", "a.tsv, line 2: the column 'text_b' is empty"),
    (SimilarityExample, "a.tsv", f"{SCORE}a\tb\thigh\n", "a.tsv, line 2: the column 'score' is no number ('high')"),
    (SimilarityExample, "a.tsv", f"{SCORE}a\tb\tnan\n", "is no number ('nan'); write one such as 3.5"),
    (SimilarityExample, "a.jsonl", '{"text_a": "a", "text_b": "b", "score": true}', "is no number (True)"),
    (ChoiceExample, "a.jsonl", choice(["b"], 0), "a.jsonl, line 1: the choices are not two texts or more"),
    (ChoiceExample, "a.jsonl", choice(["b", " "], 0), "the choices are not two texts or more"),
    (ChoiceExample, "a.tsv", "context\tchoices\tanswer\na\tb, c\t0\n", 'write a list such as ["yes", "no"]'),
    (ChoiceExample, "a.jsonl", choice(["b", "c"], 2), f"{NONE} (2); give the text of one, or a number from 0 to 1"),
    (ChoiceExample, "a.jsonl", choice(["b", "c"], -1), f"{NONE} (-1)"),
    (ChoiceExample, "a.jsonl", choice(["b", "c"], True), f"{NONE} (True)"),
    (ChoiceExample, "a.jsonl", choice(["b", "b"], "b"), f"{SEVERAL} ('b')"),
    (ChoiceExample, "a.jsonl", choice(["1", "2"], "1"), f"{SEVERAL} ('1')"),
    (TagExample, "a.conll", "a O\nb\n", "a.conll, line 2: not as many columns as in the first line (1 of 2)"),
    (TagExample, "a.conll", "a\tO\n\tO\n", "a.conll, line 2: a word or its tag is empty"),
    (TagExample, "a.conll", "a\nb\n", "a.conll, line 1: no tag beside the word; write both"),
    (TagExample, "a.conll", "\n \n", "a.conll holds no examples"),
    (TagExample, "a.tsv", "a\tO\n", "a.tsv is a table; write a word and its tag a line"),
    (SpanExample, "a.json", "{", "a.json, line 1: not JSON"),
    (SpanExample, "a.json", '{"data":\n [}', "a.json, line 2: not JSON"),
    (SpanExample, "a.json", "[]", "a.json: no 'data' where SQuAD has one"),
    (SpanExample, "a.json", '{"data": [{"paragraphs": [{"qas": []}]}]}', "a.json: no 'context' where SQuAD has one"),
    (SpanExample, "a.json", '{"data": []}', "a.json holds no examples"),
]


@pytest.mark.parametrize(("form", "name", "content", "said"), MISTAKES)
def test_mistakes_are_told_in_one_line(tmp_path, form, name, content, said):
    if content is not None:
        save(tmp_path / name, content)
    with pytest.raises(DataError) as caught:
        read_examples(tmp_path / name, form)
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (
            ask(("river", 15)),
            "question 1 (q7): the answer is not at its place in the passage ('river' is at 16, not",
        ),
        (ask(("stream", 3)), "('stream' is nowhere); copy it from the passage"),
        (ask(("river", None)), "'river' is at 16, not at None); correct answer_start"),
        (ask(("river", -6)), "'river' is at 16, not at -6); correct answer_start"),
        (ask(question=" "), "question 1 (q7): the question or its passage is empty"),
        ({"question": "Who?"}, "no 'answers' where SQuAD has one"),
    ],
)
def test_answers_that_are_elsewhere(tmp_path, question, said):
    with pytest.raises(DataError) as caught:
        read_examples(squad(tmp_path / "a.json", question), SpanExample)
    assert said in str(caught.value)


@pytest.mark.parametrize("column", ["0", "x", "", "9" * 5000, "1.5"])
def test_columns_are_counted_from_one(tmp_path, column):
    path = save(tmp_path / "a.conll", "a O\n")
    with pytest.raises(ConfigError, match="count from 1, or from the end with -1"):
        tagged(path, columns={"tag": column})
    with pytest.raises(DataError, match="line 1: no column 3 for the tag; there are 2"):
        tagged(path, columns={"tag": "3"})


def test_rows_that_cannot_be_used_may_be_left_out(tmp_path):
    path = save(tmp_path / "a.tsv", f"{HEAD}a\tx\n\ty\nb\ty\nc\n")
    faults: list[RowError] = []
    assert [example.text for example in read_examples(path, ClassifyExample, faults=faults)] == ["a", "b"]
    assert [(fault.place, fault.wrong) for fault in faults] == [
        (f"{path}, line 3", "the column 'text' is empty"),
        (f"{path}, line 5", "the column 'label' is empty"),
    ]


def test_no_task_has_such_columns(tmp_path):
    path = save(tmp_path / "a.tsv", "source\ttarget\na\tb\n")
    with pytest.raises(DataError, match=r"its columns are those of no task \(source, target\); say which"):
        guess_task(path)
    with pytest.raises(DataError, match="is a folder; name one of its files"):
        guess_task(tmp_path)
    save(tmp_path / "b.tsv", HEAD)
    with pytest.raises(DataError, match="stands for 2 files"):
        guess_task(tmp_path / "*.tsv")


def test_labels_to_learn(tmp_path):
    train = read_examples(save(tmp_path / "train.tsv", f"{HEAD}a\tpositive\nb\tnegative\n"), ClassifyExample)
    dev = read_examples(save(tmp_path / "dev.tsv", f"{HEAD}a\tnegative\nb\tpostive\n"), ClassifyExample)
    labels = find_labels(train)
    assert labels == ["negative", "positive"]
    require_labels(train, labels, train[0].file)
    with pytest.raises(DataError) as caught:
        require_labels(dev, labels, train[0].file)
    assert str(caught.value).startswith(f"{tmp_path}/dev.tsv, line 3: {tmp_path}/train.tsv has no label 'postive'")
    assert str(caught.value).endswith("; did you mean positive?")
    with pytest.raises(DataError, match=r"train.tsv: every row has the label 'positive'.*; add rows with another one"):
        find_labels(train[:1])
    tags = read_examples(save(tmp_path / "a.conll", "a O\nb B-X\n\nc I-X\n"), TagExample)
    assert find_labels(tags) == ["B-X", "I-X", "O"]
    with pytest.raises(DataError, match=r"a.conll, line 4: .* has no label 'I-X'"):
        require_labels(tags, ["O", "B-X"], tmp_path)


# Rows that are only to be answered


def streamed(source, form, **options):
    """What a model is told, and what it should say."""
    names = [*form.given, "tags" if form is TagExample else "answers" if form is SpanExample else [*form.columns][-1]]
    return [tuple(getattr(example, name) for name in names) for example in stream_examples(source, form, **options)]


def without_labels(rows):
    return [{name: value for name, value in row.items() if name not in ("label", "score", "answer")} for row in rows]


@pytest.mark.parametrize("task", ROWS)
def test_tables_without_labels(tmp_path, task):
    form, rows = TASKS[task], without_labels(ROWS[task])
    for path in tables(tmp_path, rows):
        assert examples_of(form, stream_examples(path, form)) == list(stream_examples(path, form))
        told = [example[:-1] for example in streamed(path, form)]
        assert json.dumps(told) == json.dumps([list(row.values()) for row in rows])
        label = streamed(path, form)[0][-1]
        assert label in ("", -100) or label != label


@pytest.mark.parametrize("task", ROWS)
def test_labels_that_are_there_are_kept(tmp_path, task):
    for path in tables(tmp_path, ROWS[task]):
        assert list(stream_examples(path, TASKS[task])) == read_examples(path, TASKS[task])


@pytest.mark.parametrize("task", ROWS)
def test_what_is_piped_in_tells_its_form(tmp_path, task):
    form = TASKS[task]
    for rows in (ROWS[task], without_labels(ROWS[task])):
        for path in tables(tmp_path, rows):
            if path.suffix == ".gz":
                continue
            piped = list(stream_examples(io.BytesIO(path.read_bytes()), form))
            told = [(example.texts, example.row) for example in piped]
            assert told == [(example.texts, example.row) for example in stream_examples(path, form)]
            assert piped[0].place == f"standard input, line {piped[0].row}"


def test_a_mark_at_the_beginning_and_columns_of_other_names_are_piped_in_too():
    table = "\ufeffstars\treview\r\n5\tgood\r\n"
    columns = {"text": "review", "label": "stars"}
    assert streamed(io.BytesIO(table.encode()), ClassifyExample, columns=columns) == [("good", "5")]
    assert streamed(io.BytesIO('\ufeff{"text": "好"}'.encode()), ClassifyExample) == [("好", "")]


PLAIN = [
    (ClassifyExample, "a fine\tday \r\n\n雨，又是雨", [("a fine\tday ", ""), ("雨，又是雨", "")]),
    (PairExample, "it rains\tit is wet\n", [("it rains", "it is wet", "")]),
    (ChoiceExample, 'one takes\t["a cat", "an umbrella"]', [("one takes", ("a cat", "an umbrella"), -100)]),
    (TagExample, " Ada  left\n \n她去Paris 了", [(" Ada  left", ("", "")), ("她去Paris 了", ("",) * 8)]),
    (SpanExample, "Where?\tBy the river.", [("Where?", "By the river.", ())]),
]


@pytest.mark.parametrize(("form", "lines", "expected"), PLAIN)
def test_plain_lines(tmp_path, form, lines, expected):
    for source in (save(tmp_path / "a.txt", lines), save(tmp_path / "a", lines), io.BytesIO(lines.encode())):
        assert streamed(source, form) == expected


def test_a_million_lines_are_not_held():
    class Endless(io.RawIOBase):
        """Lines without end."""

        taken = 0

        def readable(self):
            return True

        def readinto(self, space):
            line = b"a fine day\n" * (len(space) // 11)
            space[: len(line)] = line
            self.taken += len(line)
            return len(line)

    source = Endless()
    examples = stream_examples(io.BufferedReader(source), ClassifyExample)
    rows = [next(examples).row for _ in range(50_000)]
    assert rows == list(range(1, 50_001)) and source.taken < 2_000_000


def cut(text):
    (example,) = examples_of(TagExample, [text])
    assert all(text[start:end] == word for word, start, end in example.spans)
    return list(example.words)


def test_sentences_are_cut_into_words():
    assert cut("  Ada\u00a0left\u3000for  Paris. ") == ["Ada", "left", "for", "Paris."]
    assert cut("浙商银行abc，好 2008 年") == [*"浙商银行abc，好", "2008", "年"]
    assert cut("He met 张三 in Beijing") == ["He", "met", "张", "三", "in", "Beijing"]


@given(st.lists(st.text(min_size=1)).map(" ".join).filter(str.strip))
def test_words_are_where_they_are_said_to_be(text):
    assert "".join(cut(text)) == "".join(text.split())


def test_words_of_one_column(tmp_path):
    path = save(tmp_path / "a.conll", "Ada\nleft\n\n他\n去\n")
    assert streamed(path, TagExample) == [("Ada left", ("", "")), ("他 去", ("", ""))]
    path = save(tmp_path / "b.conll", "Ada\tB-PER\nleft\t\n")
    assert streamed(path, TagExample) == [("Ada left", ("B-PER", ""))]
    path = save(tmp_path / "a.jsonl", '{"tokens": ["Ada", "left "]}\n{"tokens": "Ada left", "tags": ["B-PER", "O"]}')
    examples = list(stream_examples(path, TagExample, columns={"text": "tokens"}))
    assert [example.words for example in examples] == [("Ada", "left")] * 2 and examples[1].tags == ("B-PER", "O")


def test_questions_without_answers(tmp_path):
    path = squad(tmp_path / "a.json", {"question": "Who?"}, ask(("bank", 4)))
    (_, _, none), (_, _, some) = streamed(path, SpanExample)
    assert none == () and some == (Answer("bank", 4),)
    row = {"question": "Where?", "passage": "The bank.", "id": "q9"}
    others = [row, row | {"answers": [{"text": "bank", "answer_start": 4}]}, row | {"answers": {"text": ["bank"]}}]
    path = save(tmp_path / "a.jsonl", "\n".join(map(json.dumps, others)))
    examples = list(stream_examples(path, SpanExample))
    assert [example.answers for example in examples] == [(), (Answer("bank", 4),), ()]
    assert examples[1].id == "q9" and examples[1].place == f"{path}, line 2"
    assert list(stream_examples(io.BytesIO(path.read_bytes()), SpanExample))[1].answers == (Answer("bank", 4),)


def test_rows_of_python():
    (example,) = examples_of(ClassifyExample, ["a fine day"])
    assert (example.text, example.label) == ("a fine day", "")
    assert examples_of(ClassifyExample, [example]) == [example]
    assert examples_of(ClassifyExample, [{"text": "a", "label": 3}])[0].label == "3"
    assert examples_of(PairExample, [("a", "b"), ["c", "d"]])[1].texts == ("c", "d")
    assert examples_of(ChoiceExample, [("a", ("b", "c"))])[0].choices == ("b", "c")
    assert examples_of(TagExample, [["Ada", "left"]])[0].words == ("Ada", "left")
    assert examples_of(SpanExample, [("Where?", "The bank.")])[0].passage == "The bank."
    assert examples_of(SimilarityExample, []) == []


@pytest.mark.parametrize(
    ("form", "row", "said"),
    [
        (ClassifyExample, " ", "given, row 2: the column 'text' is empty"),
        (ClassifyExample, 5, "given, row 2: the column 'text' is not text"),
        (ClassifyExample, ("a", "b"), "given, row 2: the column 'text' is not text"),
        (ClassifyExample, {"txt": "a"}, "given, row 2: the column 'text' is empty"),
        (PairExample, "a", "given, row 2: the column 'text_b' is empty"),
        (PairExample, ("a", "b", "c"), "given, row 2: more fields than columns"),
        (SimilarityExample, {"text_a": "a", "text_b": "b", "score": "x"}, "the column 'score' is no number ('x')"),
        (ChoiceExample, ("a", ["b"]), "given, row 2: the choices are not two texts or more"),
        (TagExample, ["a", " "], "given, row 2: the column 'text' is neither text nor a list of words"),
        (TagExample, {"text": "a b", "tags": ["O"]}, "given, row 2: not as many tags as words (for 2)"),
        (SpanExample, ("Where?", ""), "given, row 2: the column 'passage' is empty"),
    ],
)
def test_mistakes_in_rows_of_python(form, row, said):
    good = {"classify": "a", "choice": ("a", ["b", "c"]), "tag": "a"}
    task = next(task for task, known in TASKS.items() if known is form)
    with pytest.raises(DataError) as caught:
        examples_of(form, [good.get(task, ("a", "b")), row])
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_one_row_is_no_list():
    with pytest.raises(ConfigError, match="write it in brackets"):
        examples_of(ClassifyExample, "a fine day")


@pytest.mark.parametrize(
    ("form", "name", "content", "said"),
    [
        (ClassifyExample, "a.txt", " \n\n", "a.txt holds no examples"),
        (ClassifyExample, "a.json", '{"text": "a"}', "a.json is not a table"),
        (ClassifyExample, "a.tsv", "txt\na\n", "a.tsv: no column 'text'; did you mean txt?"),
        (ClassifyExample, "a.jsonl", '{"text": "a"}\n{"label": "b"}', "a.jsonl, line 2: the column 'text' is empty"),
        (PairExample, "a.txt", "a\tb\na b\n", "a.txt, line 2: the column 'text_b' is empty"),
        (PairExample, "a.txt", "a\tb\tc\n", "a.txt, line 1: more fields than columns; look for a tab"),
        (TagExample, "a.conll", "a\nb\tO\n", "a.conll, line 2: not as many columns as in the first line"),
        (SpanExample, "a.json", "[]", "a.json: no 'data' where SQuAD has one"),
        (SpanExample, "a.jsonl", '{"question": "a"}', "a.jsonl: no column 'passage'"),
    ],
)
def test_mistakes_without_labels(tmp_path, form, name, content, said):
    with pytest.raises(DataError) as caught:
        list(stream_examples(save(tmp_path / name, content), form))
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_plain_lines_have_no_columns(tmp_path):
    for source in (save(tmp_path / "a.txt", "a\n"), io.BytesIO(b"a\n")):
        with pytest.raises(DataError, match="is not a table"):
            list(stream_examples(source, ClassifyExample, columns={"text": "review"}))
    with pytest.raises(ConfigError, match="txet is nothing that the task needs; did you mean text"):
        list(stream_examples(tmp_path / "a.txt", TagExample, columns={"txet": "review"}))


@given(
    st.binary(max_size=300), st.sampled_from(["tsv", "csv", "jsonl", "conll", "json", "txt"]), st.sampled_from([*TASKS])
)
def test_no_bytes_without_labels_raise_anything_but_data_errors(tmp_path_factory, content, ending, task):
    path = save(tmp_path_factory.mktemp("hostile") / f"a.{ending}", content)
    for source in (path, io.BytesIO(content)):
        try:
            assert all(all(example.texts) for example in stream_examples(source, TASKS[task]))
        except DataError as error:
            assert "\n" not in str(error)
