import pytest

from polyseme.datasets.edge_probing import read_sentences
from polyseme.errors import ConfigError, DataError

CONLLU = """# sent_id = 1
1\tDogs\tdog\tNOUN\t_\t_\t3\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\t_\t_\t3\taux\t_\tSpaceAfter=No
3\tn't\tnot\tPART\t_\t_\t0\troot\t_\t_
3.1\teat\teat\tVERB\t_\t_\t_\t_\t_\t_
4\t#\t#\tSYM\t_\t_\t3\tpunct\t_\t_

1\t银行\t_\tNOUN\t_\t_\t2\tnsubj\t_\tSpaceAfter=No
2\t关门\t_\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No
"""


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def targets_of(sentence, kind):
    return [
        (*(sentence.text[slice(*span)] for span in target.spans), *target.labels) for target in sentence.targets[kind]
    ]


def test_conllu(tmp_path):
    first, second = read_sentences(write(tmp_path / "some.conllu", CONLLU))
    assert first.text == "Dogs don't #" and second.text == "银行关门"
    assert targets_of(first, "pos") == [("Dogs", "NOUN"), ("do", "AUX"), ("n't", "PART"), ("#", "SYM")]
    assert targets_of(first, "dependencies") == [("n't", "Dogs", "nsubj"), ("n't", "do", "aux"), ("n't", "#", "punct")]
    assert targets_of(second, "dependencies") == [("关门", "银行", "nsubj")]
    assert list(read_sentences(tmp_path / "some.conllu", ["POS"])[0].targets) == ["pos"]


def test_labelled_files(tmp_path):
    tags = write(tmp_path / "tags.conll", "彭\tB-name\n小\tI-name\n来\tO\n\nyes\tO\n")
    assert targets_of(read_sentences(tags)[0], "tag") == [("彭", "B-name"), ("小", "I-name"), ("来", "O")]
    assert targets_of(read_sentences(tags, ["pos"])[1], "pos") == [("yes", "O")]
    texts = write(tmp_path / "texts.tsv", "review\tlabel\nall of it\tgood\n")
    assert targets_of(read_sentences(texts, columns={"text": "review"})[0], "classify") == [("all of it", "good")]


def test_edge_files(tmp_path):
    lines = """{"text": " Ann  met Bo", "targets": [{"span1": [0, 1], "span2": [1, 3], "label": "met"}]}
{"text": ["a", "b"], "targets": [{"span1": [0, 2], "span2": [0, 1], "label": ["x", "y"]},
""".replace("},\n", '}, {"span1": [0, 1], "span2": [1, 2], "label": []}]}\n')
    first, second = read_sentences(write(tmp_path / "edges.jsonl", lines))
    assert targets_of(first, "edges") == [("Ann", "met Bo", "met")]
    assert targets_of(second, "edges") == [("a b", "a", "x", "y"), ("a", "b")]


INVALID = {
    "columns": ("a.conllu", "1\tDogs\tNOUN\n", (), r"line 1: not the columns of CoNLL-U \(3 instead of 10\)"),
    "numbering": (
        "a.conllu",
        CONLLU.replace("\n4\t", "\n5\t"),
        (),
        r"line 7: words are not numbered consecutively \('5'\)",
    ),
    "heads": ("a.conllu", CONLLU.replace("\t3\tpunct", "\t9\tpunct"), (), r"no valid head .*'9' 'punct'.*--task pos"),
    "parts": ("a.conllu", CONLLU.replace("SYM", "_"), (), r"line 7: the word has no part of speech; fill in column 4"),
    "empty": ("a.conllu", "# nothing\n", (), "holds no sentences"),
    "kind": ("a.conllu", CONLLU, ["po"], "unknown probing task 'po'; did you mean pos"),
    "two ways": ("a.conll", "a\tb\n", ["tag", "pos"], "has one kind of annotation; choose one of tag, pos"),
    "no spans": ("a.tsv", "text_a\ttext_b\tlabel\na\tb\tc\n", (), "no column .text."),
    "no targets": ("a.jsonl", '{"text": "a b"}\n', ["edges"], "line 1: no list of targets"),
    "no label": ("a.jsonl", '{"text": "a", "targets": [{"span1": [0, 1]}]}\n', (), "without span1 or label"),
    "no span": ("a.jsonl", '{"text": "a", "targets": [{"span1": [0, 2], "label": "x"}]}\n', (), r"\[0, 2\]\); write"),
    "no word": ("a.jsonl", '{"text": "a", "targets": [{"span1": [0, 1], "label": [{}]}]}\n', (), "neither a word nor"),
    "no text": ("a.jsonl", '{"text": 3, "targets": []}\n', (), "neither a text nor a list"),
    "spans": (
        "a.jsonl",
        '{"text": "a", "targets": [{"span1": [0, 1], "label": 1}, {"span1": [0, 1], "span2": [0, 1], "label": 2}]}\n',
        (),
        "some targets have one span and some two",
    ),
}


@pytest.mark.parametrize("case", INVALID)
def test_invalid_files(tmp_path, case):
    name, text, kinds, message = INVALID[case]
    with pytest.raises((DataError, ConfigError), match=message) as error:
        read_sentences(write(tmp_path / name, text), kinds)
    assert "\n" not in str(error.value)


def test_fixed_columns_cannot_be_mapped(tmp_path):
    with pytest.raises(ConfigError, match="fixed columns"):
        read_sentences(write(tmp_path / "a.conllu", CONLLU), columns={"tag": "4"})
