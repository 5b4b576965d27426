"""`polyseme predict` with a model that was fine-tuned for one task, and with one for all six."""

import json
import sys
from types import SimpleNamespace

import pytest

import polyseme as ps
from polyseme.datasets.labelled_files import stream_examples
from polyseme.tasks import TASKS

MODULE = sys.modules["polyseme.cli.inference.predict"]  # its name is the command's as well
QUICK = ["training.threads=1", "data.batch_size=4", "data.sequence_length=48"]


RIVER, CITY = "the old bank by the river", "the bank in the city"
ROWS = {
    "classify.tsv": ["text\tlabel", f"{RIVER}\triver", f"{CITY}\tcity", "她在河边\triver"],
    "pair.tsv": ["text_a\ttext_b\tlabel", f"{RIVER}\t{CITY}\tno", f"{CITY}\t{CITY}\tyes"],
    "similarity.tsv": ["text_a\ttext_b\tscore", f"{RIVER}\t{CITY}\t1.5", f"{CITY}\t{CITY}\t5"],
    "choice.jsonl": [
        json.dumps({"context": RIVER, "choices": ["is wet", "is rich"], "answer": 0}),
        json.dumps({"context": CITY, "choices": ["is wet", "is rich", "is a bird"], "answer": 1}),
    ],
    "tag.conll": ["Ada B-PER", "left O", "", "他 O", "去 O", "北 B-LOC", "京 I-LOC"],
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A small file for each task."""
    folder = tmp_path_factory.mktemp("labelled")
    for name, lines in ROWS.items():
        (folder / name).write_text("\n".join(lines), encoding="utf-8")
    questions = [
        {"id": "a", "question": "where is the bank", "answers": [{"text": "river", "answer_start": 20}]},
        {"id": "b", "question": "who is there", "answers": [], "is_impossible": True},
    ]
    squad = {"data": [{"paragraphs": [{"context": RIVER, "qas": questions}]}]}
    (folder / "span.json").write_text(json.dumps(squad), encoding="utf-8")
    return folder


def file_of(folder, task):
    (file,) = folder.glob(f"{task}.*")
    return file


@pytest.fixture(scope="session")
def several(bert, folder):
    """A model for all tasks after two training steps; its predictions do not matter here."""
    kinds = {f"my-{task}": task for task in TASKS}
    files = {name: file_of(folder, task) for name, task in kinds.items()}
    ps.finetune(bert, task=kinds, train=files, out=folder / "several", budget="2steps", settings=QUICK)
    return folder / "several"


@pytest.fixture(scope="session")
def single(bert, folder):
    ps.finetune(bert, train=folder / "classify.tsv", out=folder / "single", budget="2steps", settings=QUICK)
    return folder / "single"


def objects(ended):
    assert ended.code == 0, ended.err
    return [json.loads(line) for line in ended.out.splitlines()]


def plain(value):
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("task", TASKS)
def test_labelled_files(polyseme, several, folder, task):
    model, file, name = ps.load(several), file_of(folder, task), f"my-{task}"
    rows = objects(polyseme("predict", several, file, "--task", name, "--json"))
    examples = list(stream_examples(file, model.example_type(name)))
    for row, example, answer in zip(rows, examples, model.predict(examples, task=name), strict=True):
        given = {name: getattr(example, name) for name in example.inputs}
        assert row == plain({"row": example.row, **given, **answer.to_json(example)})
    ended = polyseme("predict", several, file, "--task", name)
    header, *lines = [line.split("\t") for line in ended.out.splitlines()]
    assert ended.code == 0 and ended.err.startswith("next: ") and len(lines) == len(rows)
    assert header[: len(given) - 1] == [*given][: len(given) - 1] and header[-1] in ("probability", "score", "entities")
    assert all(len(line) == len(header) for line in lines) and not {"passage", "choices"} & {*header}


def test_standard_input_in_blocks(polyseme, single, monkeypatch):
    texts = [f"the old bank {number} by the river" for number in range(7)]
    whole = objects(polyseme("predict", single, "--json", stdin="\n".join(texts)))
    chunks, predict = [], ps.Pretrained.predict

    def watched(self, rows, **options):
        chunks.append(len(rows))
        return predict(self, rows, **options)

    monkeypatch.setattr(ps.Pretrained, "predict", watched)
    monkeypatch.setattr(MODULE, "_CHUNK", 3)
    rows = objects(polyseme("predict", single, "-", "--json", stdin="\n".join(texts)))
    assert chunks == [3, 3, 1] and [row["row"] for row in rows] == [1, 2, 3, 4, 5, 6, 7]
    assert [row["text"] for row in rows] == texts
    for row, other in zip(rows, whole, strict=True):
        assert row["probabilities"] == pytest.approx(other["probabilities"], abs=1e-5)
        assert row["label"] in row["probabilities"] and sum(row["probabilities"].values()) == pytest.approx(1, abs=1e-5)


def test_sequence_labelling(polyseme, several):
    lines = ["  Ada  lives\tin the old folder ", "张三在 Paris 工作"]
    rows = objects(polyseme("predict", several, "--task", "my-tag", "--json", stdin="\n".join(lines)))
    for row, line in zip(rows, lines, strict=True):
        assert row["text"] == line
        for found in (*row["words"], *row["entities"]):
            assert line[found["start"] : found["end"]] == found["text"]
    assert [word["text"] for word in rows[1]["words"]] == ["张", "三", "在", "Paris", "工", "作"]


def test_output_files(polyseme, single, tmp_path):
    source = tmp_path / "a.csv"
    source.write_text('stars,review\n5,"good\nas\tgold"\n1,bad\n', encoding="utf-8")
    arguments = ["predict", single, source, "--column", "text=review"]
    ended = polyseme(*arguments, "--out", tmp_path / "b.tsv")
    assert ended.code == 0 and ended.out == "" and ended.err.startswith(f"Saved {tmp_path / 'b.tsv'}.\n")
    header, first, second = (tmp_path / "b.tsv").read_text(encoding="utf-8").splitlines()
    assert header == "text\tlabel\tprobability"
    assert first.startswith("good as gold\t") and second.startswith("bad\t")
    ended = polyseme(*arguments, "--out", tmp_path / "b.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text(encoding="utf-8").splitlines()]
    assert ended.out == "" and [row["text"] for row in rows] == ["good\nas\tgold", "bad"]
    assert [row["row"] for row in rows] == [2, 4]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "b.jsonl", "b.tsv"]


def test_a_table_on_a_terminal(polyseme, single, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True, raising=False)
    drawn = polyseme("predict", single, "-", stdin="the old bank [by] the river").out
    assert "\t" not in drawn and "─" in drawn and "the old bank [by] the river" in drawn


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["single", "none.tsv"], "none.tsv: no such file"),
        (["nowhere", "a.tsv"], "nowhere does not exist"),
        (["bert", "a.tsv"], "is not fine-tuned"),
        (["several", "a.tsv"], "has several tasks; choose one of my-classify, my-pair"),
        (["several", "a.tsv", "--task", "my-tags"], "has no task 'my-tags'; did you mean my-tag?"),
        (["single", "a.tsv"], "a.tsv: no column 'text'; did you mean txt?"),
        (["single", "a.tsv", "--column", "text"], "--column text: name the field"),
        (["single", "a.tsv", "--column", "txet=txt"], "the task has no column 'txet'; did you mean text?"),
        (["single", "a.tsv", "--column", "text=txt"], "a.tsv, line 4: column 'txt' is empty"),
        (["single", "a.tsv", "--column", "text=txt", "--out", "b.tsv"], "a.tsv, line 4: column 'txt' is empty"),
        (["single", "a.tsv", "--out", "nowhere/b.tsv"], "nowhere/b.tsv cannot be written"),
        (["single", "-"], "standard input holds no examples; give at least one"),
        (["several", "-", "--task", "my-span"], "standard input holds no examples"),
        (["single", "."], "is a folder; name one of its files"),
        ([], "Missing"),
    ],
)
def test_user_errors(polyseme, single, several, bert, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.tsv").write_text("txt\tlabel\na\tb\nb\tc\n \td\n")
    places = {"single": single, "several": several, "bert": bert}
    ended = polyseme("predict", *(places.get(argument, argument) for argument in arguments))
    assert ended.code == 2 and message in ended.err
    assert ended.err.startswith("polyseme: ") and ended.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.tsv"]


def test_no_input(polyseme, single, monkeypatch):
    monkeypatch.setattr(MODULE, "sys", SimpleNamespace(stdin=None))
    ended = polyseme("predict", single)
    assert ended.code == 2 and "name a file, or pass text on standard input" in ended.err
