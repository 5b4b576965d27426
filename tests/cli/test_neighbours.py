"""Word vectors on the command line: import, export, neighbours, analogies, evaluation."""

import json

import pytest

import polyseme as ps

VECTORS = "man 1 1\nwoman 1 -1\nking 3 1\nqueen 3 -1\nnew york -1 2\n"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "people.txt"
    path.write_text(VECTORS, encoding="utf-8")
    return path


def test_neighbours(polyseme, file):
    ended = polyseme("neighbours", file, "king", "new york", "--top", "2")
    assert ended.code == 0 and ended.err.startswith("next: polyseme senses ")
    assert ended.out.splitlines() == [
        "word\tneighbour\tcosine",
        "king\tman\t0.894",
        "\tqueen\t0.800",
        "new york\tman\t0.316",
        "\tking\t-0.141",
    ]
    ended = polyseme("neighbours", file, "--json", stdin="king\nman\n")
    rows = [json.loads(line) for line in ended.out.splitlines()]
    assert [row["word"] for row in rows] == ["king", "man"]
    assert rows[0]["neighbours"][0] == {"word": "man", "score": 0.894427} and len(rows[0]["neighbours"]) == 4


def test_analogy(polyseme, file):
    ended = polyseme("analogy", file, "man", "king", "woman", "--top", "1")
    assert ended.code == 0 and ended.out.splitlines()[:1] == ["answer\tscore"]
    assert ended.out.splitlines()[1].startswith("queen\t0.")
    ended = polyseme("analogy", file, "man", "king", "woman", "--method", "3cosmul", "--json")
    row = json.loads(ended.out)
    assert row["question"] == ["man", "king", "woman"] and row["answers"][0]["word"] == "queen"
    assert (
        row["answers"][0]["score"]
        != json.loads(polyseme("analogy", file, "man", "king", "woman", "--json").out)["answers"][0]["score"]
    )


def test_evaluate(polyseme, file, tmp_path):
    sets = tmp_path / "sets"
    sets.mkdir()
    (sets / "pairs.tsv").write_text("word_a\tword_b\tscore\nking\tqueen\t9\nman\tking\t8\nman\twoman\t1\nman\tdog\t1\n")
    (sets / "more.txt").write_text(": family\nman king woman queen\n: cities\ncat dog bird fish\n")
    ended = polyseme("evaluate", file, "--suite", "words", "--data", sets)
    assert ended.code == 0 and ended.err.startswith("next: polyseme compare ")
    assert ended.out.splitlines() == [
        "set\tsection\tmetric\tvalue\ts.e.\tscored",
        "more\tfamily\taccuracy\t1.000\t\t1 of 1",
        "more\tcities\taccuracy\t–\t\t0 of 1",
        "more\t(all)\taccuracy\t1.000\t\t1 of 2",
        "pairs\t(all)\tspearman\t0.500\t\t3 of 4",
    ]
    ended = polyseme("evaluate", file, "--data", sets / "pairs.tsv", "--json")
    assert json.loads(ended.out) == {
        "set": "pairs",
        "section": "",
        "metric": "spearman",
        "value": 0.5,
        "standard_error": None,
        "scored": 3,
        "items": 4,
    }


def test_import_and_export(polyseme, file, tmp_path):
    out = tmp_path / "new" / "model"
    ended = polyseme("import", file, "--out", out)
    assert ended.code == 0 and f"Saved {out}.\n" in ended.err
    assert {path.name for path in out.iterdir()} == {
        "config.json",
        "manifest.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert polyseme("neighbours", out, "new york").out == polyseme("neighbours", file, "new york").out
    ended = polyseme("export", out, "--to", "glove", "--out", tmp_path / "again" / "people.txt")
    assert ended.code == 0 and ended.out == f"{tmp_path / 'again' / 'people.txt'}: vectors of 2 dimensions\n"
    assert (tmp_path / "again" / "people.txt").read_text(encoding="utf-8") == VECTORS
    info = json.loads(polyseme("info", file, "--json").out)
    assert (info["family"], info["context"], info["model"]["vocab_size"]) == ("glove", "none", 6)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_layer_0_of_other_families(polyseme, trained, family, tmp_path):
    folder = trained / family
    ended = polyseme("neighbours", folder, "bank", "--top", "3", "--json")
    near = json.loads(ended.out)["neighbours"]
    assert ended.code == 0 and len(near) == 3
    for to in ("word2vec", "word2vec-text"):
        path = tmp_path / f"{family}.{to}"
        assert polyseme("export", folder, "--to", to, "--out", path).code == 0
        model, vectors = ps.load(folder), ps.load(path)
        word = model.tokenizer.token(model.space.find("bank"))
        assert [n.word for n in vectors.neighbours(word, top=3)] == [neighbour["word"] for neighbour in near]
