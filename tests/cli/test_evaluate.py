"""`polyseme evaluate` and `ask`: tables, JSON, charts, and one-line errors."""

import json
from xml.etree import ElementTree

import pytest

PAIRS = [("the old bank lends", "the old bank lend"), ("she lit a match", "lit she match a"), ("Quagga", "quagga!")]


@pytest.fixture
def desk(tmp_path, corpus_file, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs").mkdir()
    for name in ("one", "two"):
        rows = [{"sentence_good": a, "sentence_bad": b, "field": "syntax", "linguistics_term": name} for a, b in PAIRS]
        (tmp_path / "pairs" / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "last.jsonl").write_text('{"text": "the old bank"}\n{"text": "the boys looked for their bat"}\n')
    (tmp_path / "choices.jsonl").write_text('{"context": "a bat", "choices": ["slept", "lends"], "answer": 0}\n')
    (tmp_path / "pairs.tsv").write_text("source\ttarget\nthe bank\tdie Bank\n")
    (tmp_path / "story.txt").write_text("The old bank by the river\nlends money.\n")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "vectors.txt").write_text("bank 1 2\nriver 3 4\n")
    return tmp_path


def rows(ended):
    assert ended.code == 0, ended.err
    return [json.loads(line) for line in ended.out.splitlines()]


def test_likelihood(polyseme, desk, gpt2, bert, corpus_file):
    ended = polyseme("evaluate", gpt2, "--suite", "likelihood", "--data", corpus_file)
    assert ended.code == 0 and ended.err.startswith("next: ")
    head, bits, *_ = [line.split("\t") for line in ended.out.splitlines()]
    assert head == ["set", "section", "metric", "value", "s.e.", "scored"]
    assert bits[:3] == ["corpus", "(all)", "bits per character"] and bits[5] == "40 of 40" and float(bits[3]) < 8
    found = rows(polyseme("evaluate", bert, "--suite", "likelihood", "--data", corpus_file, "--most", 2, "--json"))
    assert found[0]["metric"] == "pseudo-bits per character, uncased" and found[0]["items"] == 2
    assert found[0]["standard_error"] > 0
    whole = rows(polyseme("evaluate", gpt2, "--suite", "likelihood", "--data", f"{corpus_file.parent}/*.txt", "--json"))
    assert f"{whole[0]['value']:.3f}" == bits[3]


def test_minimal_pairs(polyseme, desk, gpt2, bert):
    found = rows(polyseme("evaluate", gpt2, "--suite", "minimal-pairs", "--data", "pairs", "--json"))
    assert [(row["set"], row["section"]) for row in found] == [
        ("one", ""),
        ("two", ""),
        ("pairs", "phenomenon: one"),
        ("pairs", "phenomenon: two"),
        ("pairs", "field: syntax"),
        ("pairs", ""),
    ]
    assert found[-1]["items"] == found[-1]["scored"] == 6 and 0 <= found[-1]["value"] <= 1
    some = polyseme("evaluate", bert, "--suite", "minimal-pairs", "--data", "pairs", "--most", 2, "--json")
    assert rows(some)[0]["items"] == 2
    again = polyseme("evaluate", bert, "--suite", "minimal-pairs", "--data", "pairs", "--most", 2, "--json")
    assert again == some


def test_a_chart_of_the_metrics(polyseme, desk, gpt2):
    arguments = ["evaluate", gpt2, "--suite", "minimal-pairs", "--data", "pairs"]
    ended = polyseme(*arguments, "--chart", "pairs.svg")
    assert ended.code == 0 and "pairs.svg" in ended.err
    drawn = ElementTree.fromstring((desk / "pairs.svg").read_text())
    labels = [text.text for text in drawn.findall(".//{*}text")]
    assert "accuracy" in labels and "pairs: phenomenon: one" in labels and len(drawn.findall(".//{*}circle")) == 6
    for wrong, message in {"pairs.png": "wrong extension", "no/pairs.svg": "no is not a folder"}.items():
        refused = polyseme(*arguments, "--chart", wrong)
        assert refused.code == 2 and message in refused.err


def test_prompts(polyseme, desk, gpt2):
    found = rows(polyseme("evaluate", gpt2, "--suite", "prompts", "--data", "last.jsonl", "--shots", 1, "--json"))
    assert [(row["section"], row["metric"]) for row in found] == [
        ("complete, 1-shot", "accuracy"),
        ("complete, 1-shot", "perplexity of the word"),
    ]
    ended = polyseme("evaluate", gpt2, "--suite", "prompts", "--data", "choices.jsonl")
    assert ended.code == 0 and "choices\tchoose, 0-shot\taccuracy per token\t" in ended.out


def test_ask(polyseme, desk, gpt2):
    ended = polyseme("ask", gpt2, "Who lends?", "--passage", "story.txt", "--show", "--json", "--max-tokens", 5)
    (row,) = rows(ended)
    assert row["prompt"] == "The old bank by the river\nlends money.\n\nQ: Who lends?\nA:" and row["answer"].strip()
    assert ended.err == f"next: polyseme evaluate {gpt2} --suite prompts --data FILE\n"
    ended = polyseme("ask", gpt2, "--task", "summarise", "--file", "story.txt", "--show", "--seed", 1)
    assert ended.code == 0 and ended.err.startswith("The old bank by the river\nlends money.\nTL;DR:\n")
    assert ended.out == polyseme("ask", gpt2, "--task", "summarise", "--file", "story.txt", "--seed", 1).out
    by_pipe = polyseme("ask", gpt2, "--task", "summarise", stdin="The old bank by the river\nlends money.\n")
    assert by_pipe.out == polyseme("ask", gpt2, "--task", "summarise", "--file", "story.txt").out
    ended = polyseme(
        "ask", gpt2, "the river", "a bat", "--task", "translate", "--shots", "pairs.tsv", "--show", "--json"
    )
    assert [row["prompt"] for row in rows(ended)] == [
        "the bank = die Bank\nthe river =",
        "the bank = die Bank\na bat =",
    ]
    (desk / "long.tsv").write_text(f"source\ttarget\n{'the old bank ' * 30}\tdie Bank\n")
    ended = polyseme("ask", gpt2, "the river", "--task", "translate", "--shots", "long.tsv")
    assert ended.code == 0 and "no example fits" in ended.err
    ended = polyseme("ask", gpt2, "a bat", "--task", "choose", "--choice", "slept", "--choice", "lends")
    assert ended.code == 0 and ended.out.split("\t")[1].startswith("(slept 0.")
    (row,) = rows(polyseme("ask", gpt2, "a bat", "--task", "choose", "--choice", "slept", "--choice", "x", "--json"))
    assert sum(row["choices"].values()) == pytest.approx(1, abs=1e-5) and row["answer"] in row["choices"]


MISTAKES = {
    "ask a masked language model": (
        ["ask", "BERT", "Who?"],
        "cannot score continuations; use a model with a causal language model head",
    ),
    "ask word vectors": (["ask", "vectors.txt", "Who?"], "cannot score continuations"),
    "prompts for a masked model": (
        ["evaluate", "BERT", "--suite", "prompts", "--data", "last.jsonl"],
        "cannot score continuations",
    ),
    "likelihood of vectors": (["evaluate", "vectors.txt", "--suite", "likelihood", "--data", "x"], "cannot score"),
    "no such task": (["ask", "GPT2", "Who?", "--task", "answr"], "ask.task: should be 'answer', 'summarise'"),
    "no such language": (["ask", "GPT2", "Who?", "--language", "de"], "ask.language: should be 'auto', 'en' or 'zh'"),
    "no such passage": (["ask", "GPT2", "Who?", "--passage", "nothing"], "nothing cannot be read"),
    "an empty passage": (["ask", "GPT2", "Who?", "--passage", "empty.txt"], "empty.txt contains no text"),
    "no choices": (["ask", "GPT2", "Who?", "--task", "choose"], "nothing to choose from; give at least two choices"),
    "other examples": (["ask", "GPT2", "Who?", "--shots", "pairs.tsv"], "has examples of translate, not of answer"),
    "no examples": (["ask", "GPT2", "Who?", "--shots", "nothing.tsv"], "nothing.tsv: no such file"),
    "no question": (["ask", "GPT2"], "standard input contains no text"),
    "too many shots": (
        ["evaluate", "GPT2", "--suite", "prompts", "--data", "last.jsonl", "--shots", "2"],
        "has 1 other examples with answers; use fewer --shots",
    ),
    "examples of another kind": (
        ["evaluate", "GPT2", "--suite", "prompts", "--data", "last.jsonl", "--shots", "1", "--examples", "pairs.tsv"],
        "has examples of translate, but last.jsonl is complete",
    ),
    "pairs of nothing": (["evaluate", "GPT2", "--suite", "minimal-pairs", "--data", "last.jsonl"], "sentence_good"),
    "pairs in plain text": (["evaluate", "GPT2", "--suite", "minimal-pairs", "--data", "story.txt"], "is not a table"),
    "fewer than none": (["evaluate", "GPT2", "--data", "pairs", "--most", "-1"], "Invalid value for '--most'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_user_errors(polyseme, desk, trained, mistake):
    arguments, phrase = MISTAKES[mistake]
    folders = {"BERT": trained / "bert", "GPT2": trained / "gpt2"}
    ended = polyseme(*(folders.get(argument, argument) for argument in arguments))
    assert ended.code == 2 and ended.out == "" and phrase in ended.err and ended.err.count("\n") == 1
