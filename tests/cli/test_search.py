"""`polyseme search` and `evaluate --suite retrieval`: tables, JSON, the cache of vectors, and one-line errors."""

import json

import pytest
from tests.datasets.test_derived_retrieval import english

import polyseme as ps

VECTORS = "bank 1 0\nmoney 1 0.1\nriver 0 1\nwater 0.1 1\nthe 0.1 0.1\n"
TEXTS = ["the bank lends money.", "water in the river.", "河边的银行。"]


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vectors.txt").write_text(VECTORS)
    (tmp_path / "text.txt").write_text("\n\n".join(TEXTS))
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    rows = [{"_id": f"d{number}", "title": "", "text": text} for number, text in enumerate(TEXTS)]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    queries = [{"_id": "q0", "text": "money bank"}, {"_id": "q1", "text": "the river"}]
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td0\t1\nq1\td1\t1\n")
    (folder / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td0\t1\n")
    return tmp_path


def rows(ended):
    assert ended.code == 0, ended.err
    return [json.loads(line) for line in ended.out.splitlines()]


@pytest.mark.parametrize("model", ["vectors.txt", "bm25"])
def test_search(polyseme, desk, model):
    ended = polyseme("search", model, "--corpus", "text.txt", "bank money", "river", "--top", 1)
    assert ended.code == 0 and ended.err.splitlines()[-1].startswith("next: polyseme ")
    head, *cells = [line.split("\t") for line in ended.out.splitlines()]
    assert head == ["query", "rank", "score", "passage"]
    assert [(cell[0], cell[1], cell[3]) for cell in cells] == [("bank money", "1", TEXTS[0]), ("river", "1", TEXTS[1])]
    found = rows(polyseme("search", model, "--corpus", "text.txt", "--json", stdin="river\n"))
    assert [row["query"] for row in found] == ["river"] and len(found[0]["results"]) == 3
    assert found[0]["results"][0]["text"] == TEXTS[1]
    scores = [result["score"] for result in found[0]["results"]]
    assert scores == sorted(scores, reverse=True)


def test_chinese_by_bm25(polyseme, desk):
    found = rows(polyseme("search", "bm25", "--corpus", "text.txt", "银行", "--top", 1, "--json"))
    assert found[0]["results"][0]["text"] == TEXTS[2]


def test_whole_documents(polyseme, desk):
    (desk / "long.txt").write_text(" ".join(f"The river has {number} banks today." for number in range(50)))
    command = ["search", "bm25", "--corpus", "long.txt", "river", "--json"]
    assert len(rows(polyseme(*command))[0]["results"]) > 1
    assert len(rows(polyseme(*command, "--documents"))[0]["results"]) == 1


def test_vectors_are_cached_by_model_and_texts(desk, monkeypatch):
    monkeypatch.setenv("POLYSEME_CACHE", str(desk / "cache"))
    embedded = []
    original = ps.Pretrained.embed

    def embed(self, texts, **options):
        embedded.extend(texts)
        return original(self, texts, **options)

    monkeypatch.setattr(ps.Pretrained, "embed", embed)
    first = ps.load("vectors.txt").search(["river"], TEXTS, top=2)
    assert embedded == [*TEXTS, "river"]
    embedded.clear()
    assert ps.load("vectors.txt").search(["river"], TEXTS, top=2) == first and embedded == ["river"]
    (desk / "vectors.txt").write_text(VECTORS.replace("water 0.1 1", "water 1 0"))
    changed = ps.load("vectors.txt").search(["river"], TEXTS, top=2)
    assert embedded == ["river", *TEXTS, "river"] and changed != first
    ps.load("vectors.txt").search(["river"], TEXTS[:2], top=2)
    assert embedded[-3:] == [*TEXTS[:2], "river"]


def test_evaluation(polyseme, desk):
    command = ["evaluate", "vectors.txt", "--suite", "retrieval", "--data", "beir", "--json"]
    found = rows(polyseme(*command))
    assert [(row["section"], row["metric"]) for row in found[:2]] == [("", "ndcg@10"), ("", "recall@10")]
    assert {row["section"] for row in found} == {"", "bm25", "difference from bm25"}
    assert found[0] == {
        "set": "beir", "section": "", "metric": "ndcg@10", "value": 1.0, "standard_error": 0.0, "scored": 2, "items": 2
    }  # fmt: skip
    assert rows(polyseme(*command, "--split", "dev"))[0]["value"] < 1.0
    assert ps.load("vectors.txt").evaluate("beir", suite="retrieval")[0].value == 1.0


def test_evaluation_on_derived_queries(polyseme, desk):
    (desk / "text.txt").write_text("\n\n".join(map(english, range(40))))
    ended = polyseme("evaluate", "vectors.txt", "--suite", "retrieval", "--data", "text.txt", "--json")
    sets = {row["set"] for row in rows(ended)}
    assert sets == {"title to paragraph", "first sentence to rest", "sentence to neighbours"}


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["search", "bm25", "river"], ["--corpus"]),
        (["search", "bm25", "--corpus", "nothing.txt", "river"], ["nothing.txt"]),
        (["search", "nowhere", "--corpus", "text.txt", "river"], ["nowhere does not exist"]),
        (["evaluate", "vectors.txt", "--suite", "retrieval", "--data", "text.txt"], ["too little text"]),
        (["evaluate", "vectors.txt", "--suite", "retrieval", "--data", "beir", "--split", "train"], ["train.tsv"]),
        (["evaluate", "vectors.txt", "--suite", "retrieval", "--data", "beir", "--split", "all"], ["evaluate.split"]),
    ],
)
def test_errors(polyseme, desk, command, words):
    ended = polyseme(*command)
    assert ended.code == 2 and len(ended.err.splitlines()) == 1 and all(word in ended.err for word in words), ended.err
