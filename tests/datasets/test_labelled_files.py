import csv
import gzip
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyseme.datasets.labelled_files import (
    find_labels,
    parse_examples,
    read_examples,
    require_labels,
    stream_examples,
)
from polyseme.datasets.records import RowError
from polyseme.datasets.squad import Answer, SpanExample
from polyseme.datasets.task_schemas import (
    ChoiceExample,
    ClassifyExample,
    PairExample,
    SimilarityExample,
    TagExample,
)
from polyseme.datasets.town.generator import Town
from polyseme.datasets.town.writers import write_town
from polyseme.errors import ConfigError, DataError
from polyseme.tasks import TASKS, guess_task

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
    """Write rows to files of every format."""
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
def test_table_formats(tmp_path, task):
    rows = [row | {"choices": tuple(row["choices"])} if "choices" in row else row for row in ROWS[task]]
    for path in tables(tmp_path, ROWS[task]):
        assert guess_task(path) == task
        examples = read_examples(path, TASKS[task].Example)
        assert values(examples) == rows
        first = 1 if "json" in path.name else 2  # after the header
        assert [example.row for example in examples] == list(range(first, first + len(rows)))
        assert examples[0].location == f"{path}, line {examples[0].row}"


@pytest.mark.parametrize("task", ROWS)
def test_parquet(tmp_path, task):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(arrow.Table.from_pylist([row | {"extra": {"deep": [1]}} for row in ROWS[task]]), path)
    examples = read_examples(path, TASKS[task].Example)
    assert json.dumps(values(examples)) == json.dumps(ROWS[task])
    assert guess_task(path) == task and examples[0].location == f"{path}, row 1"


def test_undecodable_bytes_in_parquet_are_replaced(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    texts = arrow.array([b"a\xffb", b"\x00"], arrow.binary())
    broken = arrow.StringArray.from_buffers(2, texts.buffers()[1], texts.buffers()[2])
    lists = arrow.ListArray.from_arrays([0, 2], broken)
    table = arrow.table({"context": broken[:1], "choices": lists, "answer": [0]})
    parquet.write_table(table, tmp_path / "a.parquet")
    (example,) = read_examples(tmp_path / "a.parquet", ChoiceExample)
    assert example.texts == ("a\ufffdb", "a\ufffdb", "\ufffd")


def test_columns_can_be_mapped_by_name(tmp_path):
    path = save(tmp_path / "a.csv", 'stars,review,text\n5,"one\ntwo",x\n1,"cry ""no""",x\n')
    columns = {"text": "review", "label": "stars"}
    assert guess_task(path, columns=columns) == "classify"
    first, second = read_examples(path, ClassifyExample, columns=columns)
    assert (first.text, first.label, first.row) == ("one\ntwo", "5", 2)
    assert (second.text, second.label, second.row) == ('cry "no"', "1", 4)
    with pytest.raises(ConfigError, match="the task has no column 'txet'; did you mean text"):
        read_examples(path, ClassifyExample, columns={"txet": "review"})


def test_numeric_labels(tmp_path):
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
def test_choice_answers_by_index_and_by_text(tmp_path, choices, answer, expected):
    path = save(tmp_path / "a.jsonl", json.dumps({"context": "x", "choices": choices, "answer": answer}))
    assert read_examples(path, ChoiceExample)[0].answer == expected


def tagged(path, **options):
    return [(example.row, example.words, example.tags) for example in read_examples(path, TagExample, **options)]


def test_conll_tags(tmp_path):
    path = save(tmp_path / "a.conll", "\nAda\tB-PER\r\n#\tO\r\n \t \r\n\r\n他\tO\n去\tI-X")
    assert tagged(path) == [(2, ("Ada", "#"), ("B-PER", "O")), (6, ("他", "去"), ("O", "I-X"))]
    assert guess_task(path) == "tag"


def test_conll_columns_can_be_chosen_by_number(tmp_path):
    path = save(tmp_path / "a.txt", "-DOCSTART- -X- O O\n\n# NN I-NP O\nEU NNP I-NP S-ORG\n\n-DOCSTART- -X- O O\n")
    assert tagged(path) == [(3, ("#", "EU"), ("O", "S-ORG"))]
    assert tagged(path, columns={"tag": "2"}) == [(3, ("#", "EU"), ("NN", "NNP"))]
    assert tagged(path, columns={"tag": "-2", "word": "4"}) == [(3, ("O", "S-ORG"), ("I-NP", "I-NP"))]


def test_conll_comments_are_skipped_in_tab_separated_files(tmp_path):
    path = save(tmp_path / "a.conllu", "# text = He left\n1\tHe\tPRON\n2\tleft\tVERB\n\n# no words\n\n")
    assert tagged(path, columns={"word": "2"}) == [(2, ("He", "left"), ("PRON", "VERB"))]


def squad(path, *questions, passage="The bank by the river."):
    paragraph = {"context": passage, "qas": list(questions)}
    return save(path, json.dumps({"version": "x", "data": [{"paragraphs": [paragraph]}]}, indent=1))


def qa(*answers, **extra):
    return {"id": "q7", "question": "Where?", "answers": [{"text": t, "answer_start": s} for t, s in answers]} | extra


def test_squad_questions(tmp_path):
    path = squad(
        tmp_path / "a.json",
        qa(("bank", 4), ("river", 16)),
        qa(is_impossible=True, plausible_answers=[{"text": "x", "answer_start": 3}]),
        qa(("", 0)),
        qa(("by a stream", -1)),
        {"question": "Who?", "answers": []},
    )
    assert guess_task(path) == "span"
    first, *others = read_examples(path, SpanExample)
    assert first.answers == (Answer("bank", 4), Answer("river", 16)) and first.id == "q7"
    assert [example.answers for example in others] == [(), (), (Answer("by a stream", None),), ()]
    assert [example.labels[0][0] for example in (first, *others)] == ["a", "u", "u", "a", "u"]
    assert (others[-1].id, others[-1].row) == ("5", 5) and first.passage is others[0].passage


def test_json_of_one_long_line(tmp_path):
    """The bound on the length of rows does not apply to whole JSON files."""
    passage = "word " * 3_300_000
    (example,) = read_examples(squad(tmp_path / "a.json", qa(("word", 5)), passage=passage), SpanExample)
    assert len(example.passage) == len(passage)


@given(st.text(min_size=1, max_size=40).filter(str.strip), st.integers(0, 40), st.integers(1, 40), st.integers(-3, 3))
def test_answer_offsets_are_checked(tmp_path_factory, passage, start, length, shift):
    text = passage[start : start + length]
    path = squad(tmp_path_factory.mktemp("span") / "a.json", qa((text, start + shift)), passage=passage)
    replaced = passage.replace("\0", "\ufffd")
    try:
        (example,) = read_examples(path, SpanExample)
    except DataError as error:
        assert "a.json, question 1 (q7): the passage has no such answer" in str(error) and "\n" not in str(error)
        assert shift
        return
    for answer in example.answers:
        place = start + shift if answer.start is None else answer.start
        assert answer.start is None or replaced[place : place + len(answer.text)] == answer.text
        assert place == start + shift


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(str.strip)


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=5))
def test_any_text_round_trips_through_json_and_csv(tmp_path_factory, rows):
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
def test_any_words_round_trip_through_conll(tmp_path_factory, sentences):
    path = tmp_path_factory.mktemp("tags") / "a.conll"
    save(path, "\n\n".join("\n".join(f"{word}\t{tag}" for word, tag in sentence) for sentence in sentences))
    assert [tuple(zip(words, tags, strict=True)) for _, words, tags in tagged(path)] == list(map(tuple, sentences))


@given(
    st.binary(max_size=300),
    st.sampled_from(["tsv", "csv", "jsonl", "conll", "json"]),
    st.sampled_from([*TASKS]),
)
def test_arbitrary_bytes_raise_only_data_errors(tmp_path_factory, content, ending, task):
    path = save(tmp_path_factory.mktemp("hostile") / f"a.{ending}", content)
    for options in ({}, {"errors": []}):
        try:
            for example in read_examples(path, TASKS[task].Example, **options):
                assert all(example.texts)
        except DataError as error:
            assert "\n" not in str(error)


def test_built_in_datasets_are_readable(tmp_path):
    write_town(tmp_path, 0, num_documents=16, num_rows=24)
    for task, spec in TASKS.items():
        for folder in (tmp_path / task, tmp_path / f"{task}_zh"):
            for split, number in (("train", 24), ("dev", 3), ("test", 3)):
                (path,) = folder.glob(f"{split}.*")
                assert guess_task(path) == task
                assert len(read_examples(path, spec.Example)) == number
    rows = list(Town(0).labelled_rows("span", 24))
    for row, example in zip(rows, read_examples(tmp_path / "span" / "train.json", SpanExample), strict=True):
        assert (row["id"], row["question"], row["context"]) == (example.id, example.question, example.passage)
        assert bool(example.answers) is not row["is_impossible"]


def choice(choices, answer):
    return json.dumps({"context": "a", "choices": choices, "answer": answer})


HEAD = "text\tlabel\n"
SCORE = "text_a\ttext_b\tscore\n"
CHINESE = "天气很好，我们去公园\tgood\n".encode("gb18030") * 9
NONE = "the answer is not one of the choices"
SEVERAL = "the answer matches several choices"
MISTAKES = [
    (ClassifyExample, "a.tsv", "txt\tlabel\na\tb\n", "a.tsv: no column 'text'; did you mean txt?"),
    (ClassifyExample, "a.tsv", f"{HEAD}a\tb\n \tc\n", "a.tsv, line 3: column 'text' is empty; fill it in"),
    (ClassifyExample, "a.tsv", f"{HEAD}a\n", "a.tsv, line 2: column 'label' is empty"),
    (ClassifyExample, "a.tsv", f"{HEAD}a\tb\tc\n", "a.tsv, line 2: more fields than columns; check for a tab"),
    (ClassifyExample, "a.tsv", HEAD, "a.tsv holds no examples"),
    (ClassifyExample, "a.csv", "", "a.csv holds no examples"),
    (ClassifyExample, "a.csv", 'text,label\n"a,b\nc,d\n', "a.csv, line 2: column 'label' is empty"),
    (ClassifyExample, "a.txt", "a\tb\n", "a.txt is not a table; write it as .tsv"),
    (ClassifyExample, "a.jsonl", '{"text": 5, "label": 1}', "a.jsonl, line 1: column 'text' is not text"),
    (ClassifyExample, "a.jsonl", '{"text": "a", "label": [1]}', "column 'label' is not a label"),
    (ClassifyExample, "a.jsonl", '{"text": "a", "label": 1}\n{"text": "b"}', "line 2: column 'label' is empty"),
    (ClassifyExample, "a.jsonl", '"text"', "a.jsonl, line 1: not a row with columns"),
    (ClassifyExample, "a.jsonl", '{"text": "a"\n', "a.jsonl, line 1: not JSON"),
    (ClassifyExample, "a.tsv", HEAD.encode() + CHINESE, "iconv -f gb18030"),
    (ClassifyExample, "none.tsv", None, "none.tsv: no such file"),
    (PairExample, "a.tsv", "text_a\ttext_b\tlabel\na\t\tc\n", "a.tsv, line 2: column 'text_b' is empty"),
    (SimilarityExample, "a.tsv", f"{SCORE}a\tb\thigh\n", "a.tsv, line 2: column 'score' is not a number ('high')"),
    (SimilarityExample, "a.tsv", f"{SCORE}a\tb\tnan\n", "is not a number ('nan'); write a number such as 3.5"),
    (SimilarityExample, "a.jsonl", '{"text_a": "a", "text_b": "b", "score": true}', "is not a number (True)"),
    (ChoiceExample, "a.jsonl", choice(["b"], 0), "a.jsonl, line 1: fewer than two choices"),
    (ChoiceExample, "a.jsonl", choice(["b", " "], 0), "fewer than two choices"),
    (ChoiceExample, "a.tsv", "context\tchoices\tanswer\na\tb, c\t0\n", 'write a list such as ["yes", "no"]'),
    (ChoiceExample, "a.jsonl", choice(["b", "c"], 2), f"{NONE} (2); give the text of one, or its index from 0 to 1"),
    (ChoiceExample, "a.jsonl", choice(["b", "c"], -1), f"{NONE} (-1)"),
    (ChoiceExample, "a.jsonl", choice(["b", "c"], True), f"{NONE} (True)"),
    (ChoiceExample, "a.jsonl", choice(["b", "b"], "b"), f"{SEVERAL} ('b')"),
    (ChoiceExample, "a.jsonl", choice(["1", "2"], "1"), f"{SEVERAL} ('1')"),
    (TagExample, "a.conll", "a O\nb\n", "a.conll, line 2: wrong number of columns (1 instead of 2)"),
    (TagExample, "a.conll", "a\tO\n\tO\n", "a.conll, line 2: empty word or tag"),
    (TagExample, "a.conll", "a\nb\n", "a.conll, line 1: no tag after the word; write both"),
    (TagExample, "a.conll", "\n \n", "a.conll holds no examples"),
    (TagExample, "a.tsv", "a\tO\n", "a.tsv is a table; write a word and its tag"),
    (SpanExample, "a.json", "{", "a.json, line 1: not JSON"),
    (SpanExample, "a.json", '{"data":\n [}', "a.json, line 2: not JSON"),
    (SpanExample, "a.json", "[]", "a.json: not in SQuAD format (no 'data')"),
    (SpanExample, "a.json", '{"data": [{"paragraphs": [{"qas": []}]}]}', "a.json: not in SQuAD format (no 'context')"),
    (SpanExample, "a.json", '{"data": []}', "a.json holds no examples"),
]


@pytest.mark.parametrize(("example_type", "name", "content", "expected"), MISTAKES)
def test_invalid_files_raise_one_line_errors(tmp_path, example_type, name, content, expected):
    if content is not None:
        save(tmp_path / name, content)
    with pytest.raises(DataError) as caught:
        read_examples(tmp_path / name, example_type)
    assert expected in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (qa(("river", 15)), "question 1 (q7): the passage has no such answer at answer_start ('river' is at 16, not"),
        (qa(("stream", 3)), "('stream' is not in the passage); copy"),
        (qa(("river", None)), "'river' is at 16, not at None); correct answer_start"),
        (qa(("river", -6)), "'river' is at 16, not at -6); correct answer_start"),
        (qa(question=" "), "question 1 (q7): the question or its passage is empty"),
        ({"question": "Who?"}, "not in SQuAD format (no 'answers')"),
    ],
)
def test_misplaced_answers(tmp_path, question, expected):
    with pytest.raises(DataError) as caught:
        read_examples(squad(tmp_path / "a.json", question), SpanExample)
    assert expected in str(caught.value)


@pytest.mark.parametrize("column", ["0", "x", "", "9" * 5000, "1.5"])
def test_invalid_column_numbers(tmp_path, column):
    path = save(tmp_path / "a.conll", "a O\n")
    with pytest.raises(ConfigError, match="count from 1"):
        tagged(path, columns={"tag": column})
    with pytest.raises(DataError, match="line 1: no column 3 for the tag"):
        tagged(path, columns={"tag": "3"})


def test_invalid_rows_can_be_skipped(tmp_path):
    path = save(tmp_path / "a.tsv", f"{HEAD}a\tx\n\ty\nb\ty\nc\n")
    errors: list[RowError] = []
    assert [example.text for example in read_examples(path, ClassifyExample, errors=errors)] == ["a", "b"]
    assert [(error.location, error.problem) for error in errors] == [
        (f"{path}, line 3", "column 'text' is empty"),
        (f"{path}, line 5", "column 'label' is empty"),
    ]


def test_task_of_unknown_columns(tmp_path):
    path = save(tmp_path / "a.tsv", "source\ttarget\na\tb\n")
    with pytest.raises(DataError, match=r"no task has the columns source, target; name the task"):
        guess_task(path)
    with pytest.raises(DataError, match="is a folder; name one of its files"):
        guess_task(tmp_path)
    save(tmp_path / "b.tsv", HEAD)
    with pytest.raises(DataError, match="matches 2 files"):
        guess_task(tmp_path / "*.tsv")


def test_labels_of_dev_sets_must_occur_in_training(tmp_path):
    train = read_examples(save(tmp_path / "train.tsv", f"{HEAD}a\tpositive\nb\tnegative\n"), ClassifyExample)
    dev = read_examples(save(tmp_path / "dev.tsv", f"{HEAD}a\tnegative\nb\tpostive\n"), ClassifyExample)
    labels = find_labels(train)
    assert labels == ["negative", "positive"]
    require_labels(train, labels, train[0].file)
    with pytest.raises(DataError) as caught:
        require_labels(dev, labels, train[0].file)
    assert str(caught.value).startswith(
        f"{tmp_path}/dev.tsv, line 3: label 'postive' does not occur in {tmp_path}/train.tsv"
    )
    assert str(caught.value).endswith("; did you mean positive?")
    with pytest.raises(DataError, match=r"train.tsv: all rows have the label 'positive'; add rows"):
        find_labels(train[:1])
    tags = read_examples(save(tmp_path / "a.conll", "a O\nb B-X\n\nc I-X\n"), TagExample)
    assert find_labels(tags) == ["B-X", "I-X", "O"]
    with pytest.raises(DataError, match=r"a.conll, line 4: label 'I-X' does not occur"):
        require_labels(tags, ["O", "B-X"], tmp_path)


# Unlabelled examples for prediction


def streamed(source, example_type, **options):
    """Inputs and target of each example."""
    names = [
        *example_type.inputs,
        "tags"
        if example_type is TagExample
        else "answers"
        if example_type is SpanExample
        else [*example_type.columns][-1],
    ]
    return [
        tuple(getattr(example, name) for name in names) for example in stream_examples(source, example_type, **options)
    ]


def without_labels(rows):
    return [{name: value for name, value in row.items() if name not in ("label", "score", "answer")} for row in rows]


@pytest.mark.parametrize("task", ROWS)
def test_tables_without_labels(tmp_path, task):
    example_type, rows = TASKS[task].Example, without_labels(ROWS[task])
    for path in tables(tmp_path, rows):
        assert parse_examples(example_type, stream_examples(path, example_type)) == list(
            stream_examples(path, example_type)
        )
        inputs = [example[:-1] for example in streamed(path, example_type)]
        assert json.dumps(inputs) == json.dumps([list(row.values()) for row in rows])
        label = streamed(path, example_type)[0][-1]
        assert label in ("", -100) or label != label


@pytest.mark.parametrize("task", ROWS)
def test_streamed_labels_are_read(tmp_path, task):
    for path in tables(tmp_path, ROWS[task]):
        assert list(stream_examples(path, TASKS[task].Example)) == read_examples(path, TASKS[task].Example)


@pytest.mark.parametrize("task", ROWS)
def test_format_of_standard_input_is_detected(tmp_path, task):
    example_type = TASKS[task].Example
    for rows in (ROWS[task], without_labels(ROWS[task])):
        for path in tables(tmp_path, rows):
            if path.suffix == ".gz":
                continue
            piped = list(stream_examples(io.BytesIO(path.read_bytes()), example_type))
            found = [(example.texts, example.row) for example in piped]
            assert found == [(example.texts, example.row) for example in stream_examples(path, example_type)]
            assert piped[0].location == f"standard input, line {piped[0].row}"


def test_byte_order_marks_and_mapped_columns_of_standard_input():
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


@pytest.mark.parametrize(("example_type", "lines", "expected"), PLAIN)
def test_plain_text_lines(tmp_path, example_type, lines, expected):
    for source in (save(tmp_path / "a.txt", lines), save(tmp_path / "a", lines), io.BytesIO(lines.encode())):
        assert streamed(source, example_type) == expected


def test_standard_input_is_streamed():
    class Endless(io.RawIOBase):
        """An endless stream of lines."""

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


def split_words(text):
    (example,) = parse_examples(TagExample, [text])
    assert all(text[start:end] == word for word, start, end in example.spans)
    return list(example.words)


def test_sentences_are_split_into_words():
    assert split_words("  Ada\u00a0left\u3000for  Paris. ") == ["Ada", "left", "for", "Paris."]
    assert split_words("浙商银行abc，好 2008 年") == [*"浙商银行abc，好", "2008", "年"]
    assert split_words("He met 张三 in Beijing") == ["He", "met", "张", "三", "in", "Beijing"]


@given(st.lists(st.text(min_size=1)).map(" ".join).filter(str.strip))
def test_word_spans_cover_the_text(text):
    assert "".join(split_words(text)) == "".join(text.split())


def test_untagged_words(tmp_path):
    path = save(tmp_path / "a.conll", "Ada\nleft\n\n他\n去\n")
    assert streamed(path, TagExample) == [("Ada left", ("", "")), ("他 去", ("", ""))]
    path = save(tmp_path / "b.conll", "Ada\tB-PER\nleft\t\n")
    assert streamed(path, TagExample) == [("Ada left", ("B-PER", ""))]
    path = save(tmp_path / "a.jsonl", '{"tokens": ["Ada", "left "]}\n{"tokens": "Ada left", "tags": ["B-PER", "O"]}')
    examples = list(stream_examples(path, TagExample, columns={"text": "tokens"}))
    assert [example.words for example in examples] == [("Ada", "left")] * 2 and examples[1].tags == ("B-PER", "O")


def test_questions_without_answers(tmp_path):
    path = squad(tmp_path / "a.json", {"question": "Who?"}, qa(("bank", 4)))
    (_, _, none), (_, _, some) = streamed(path, SpanExample)
    assert none == () and some == (Answer("bank", 4),)
    row = {"question": "Where?", "passage": "The bank.", "id": "q9"}
    others = [row, row | {"answers": [{"text": "bank", "answer_start": 4}]}, row | {"answers": {"text": ["bank"]}}]
    path = save(tmp_path / "a.jsonl", "\n".join(map(json.dumps, others)))
    examples = list(stream_examples(path, SpanExample))
    assert [example.answers for example in examples] == [(), (Answer("bank", 4),), ()]
    assert examples[1].id == "q9" and examples[1].location == f"{path}, line 2"
    assert list(stream_examples(io.BytesIO(path.read_bytes()), SpanExample))[1].answers == (Answer("bank", 4),)


def test_examples_from_python_values():
    (example,) = parse_examples(ClassifyExample, ["a fine day"])
    assert (example.text, example.label) == ("a fine day", "")
    assert parse_examples(ClassifyExample, [example]) == [example]
    assert parse_examples(ClassifyExample, [{"text": "a", "label": 3}])[0].label == "3"
    assert parse_examples(PairExample, [("a", "b"), ["c", "d"]])[1].texts == ("c", "d")
    assert parse_examples(ChoiceExample, [("a", ("b", "c"))])[0].choices == ("b", "c")
    assert parse_examples(TagExample, [["Ada", "left"]])[0].words == ("Ada", "left")
    assert parse_examples(SpanExample, [("Where?", "The bank.")])[0].passage == "The bank."
    assert parse_examples(SimilarityExample, []) == []


@pytest.mark.parametrize(
    ("example_type", "row", "expected"),
    [
        (ClassifyExample, " ", "input, row 2: column 'text' is empty"),
        (ClassifyExample, 5, "input, row 2: column 'text' is not text"),
        (ClassifyExample, ("a", "b"), "input, row 2: column 'text' is not text"),
        (ClassifyExample, {"txt": "a"}, "input, row 2: column 'text' is empty"),
        (PairExample, "a", "input, row 2: column 'text_b' is empty"),
        (PairExample, ("a", "b", "c"), "input, row 2: more fields than columns"),
        (SimilarityExample, {"text_a": "a", "text_b": "b", "score": "x"}, "column 'score' is not a number ('x')"),
        (ChoiceExample, ("a", ["b"]), "input, row 2: fewer than two choices"),
        (TagExample, ["a", " "], "input, row 2: column 'text' is neither text nor a list of words"),
        (TagExample, {"text": "a b", "tags": ["O"]}, "input, row 2: wrong number of tags (1 for 2 words)"),
        (SpanExample, ("Where?", ""), "input, row 2: column 'passage' is empty"),
    ],
)
def test_invalid_python_values(example_type, row, expected):
    good = {"classify": "a", "choice": ("a", ["b", "c"]), "tag": "a"}
    task = next(task for task, spec in TASKS.items() if spec.Example is example_type)
    with pytest.raises(DataError) as caught:
        parse_examples(example_type, [good.get(task, ("a", "b")), row])
    assert expected in str(caught.value) and "\n" not in str(caught.value)


def test_a_single_row_is_refused():
    with pytest.raises(ConfigError, match="put it in brackets"):
        parse_examples(ClassifyExample, "a fine day")


@pytest.mark.parametrize(
    ("example_type", "name", "content", "expected"),
    [
        (ClassifyExample, "a.txt", " \n\n", "a.txt holds no examples"),
        (ClassifyExample, "a.json", '{"text": "a"}', "a.json is not a table"),
        (ClassifyExample, "a.tsv", "txt\na\n", "a.tsv: no column 'text'; did you mean txt?"),
        (ClassifyExample, "a.jsonl", '{"text": "a"}\n{"label": "b"}', "a.jsonl, line 2: column 'text' is empty"),
        (PairExample, "a.txt", "a\tb\na b\n", "a.txt, line 2: column 'text_b' is empty"),
        (PairExample, "a.txt", "a\tb\tc\n", "a.txt, line 1: more fields than columns; check for a tab"),
        (TagExample, "a.conll", "a\nb\tO\n", "a.conll, line 2: wrong number of columns"),
        (SpanExample, "a.json", "[]", "a.json: not in SQuAD format (no 'data')"),
        (SpanExample, "a.jsonl", '{"question": "a"}', "a.jsonl: no column 'passage'"),
    ],
)
def test_invalid_unlabelled_files(tmp_path, example_type, name, content, expected):
    with pytest.raises(DataError) as caught:
        list(stream_examples(save(tmp_path / name, content), example_type))
    assert expected in str(caught.value) and "\n" not in str(caught.value)


def test_plain_text_has_no_columns(tmp_path):
    for source in (save(tmp_path / "a.txt", "a\n"), io.BytesIO(b"a\n")):
        with pytest.raises(DataError, match="is not a table"):
            list(stream_examples(source, ClassifyExample, columns={"text": "review"}))
    with pytest.raises(ConfigError, match="the task has no column 'txet'; did you mean text"):
        list(stream_examples(tmp_path / "a.txt", TagExample, columns={"txet": "review"}))


@given(
    st.binary(max_size=300),
    st.sampled_from(["tsv", "csv", "jsonl", "conll", "json", "txt"]),
    st.sampled_from([*TASKS]),
)
def test_arbitrary_unlabelled_bytes_raise_only_data_errors(tmp_path_factory, content, ending, task):
    path = save(tmp_path_factory.mktemp("hostile") / f"a.{ending}", content)
    for source in (path, io.BytesIO(content)):
        try:
            assert all(all(example.texts) for example in stream_examples(source, TASKS[task].Example))
        except DataError as error:
            assert "\n" not in str(error)
