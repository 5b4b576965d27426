"""`polyseme attention`: a page, or the statistics of heads."""

import json

import pytest

import polyseme as ps

TEXT = "the old bank by the river"


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_page(polyseme, trained, family, tmp_path):
    ended = polyseme("attention", trained / family, TEXT, "--out", tmp_path / "page.html")
    assert ended.code == 0 and ended.out == ""
    saved, following = ended.err.splitlines()
    assert saved.startswith(f"Saved {tmp_path / 'page.html'}: 2 × 2 heads over ") and "open it in a browser" in saved
    assert following.startswith("next: polyseme attention ") and following.endswith(
        "'the old bank by the river' --json"
    )
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page == ps.load(trained / family).attention(TEXT).page()
    assert page.startswith("<!doctype html>")
    assert ("data.first_token=null" in page) == (family == "gpt2")  # advice that only fits a causal model


def test_head_statistics(polyseme, bert):
    ended = polyseme("attention", bert, TEXT)
    header, *rows = ended.out.splitlines()
    assert ended.code == 0 and header.split("\t")[:5] == ["layer", "head", "label", "first", "first if uniform"]
    assert [row.split("\t")[:2] for row in rows] == [["1", "1"], ["1", "2"], ["2", "1"], ["2", "2"]]
    assert ended.err.startswith("next: polyseme attention ")
    rows = [json.loads(line) for line in polyseme("attention", bert, TEXT, "--json").out.splitlines()]
    expected = ps.load(bert).attention(TEXT).table()
    for row, other in zip(rows, expected, strict=True):
        assert (row.pop("text"), row.pop("weights")) == (1, "self-attention")
        assert row.pop("label") == other.pop("label") and row == pytest.approx(other, abs=1e-6)
    assert polyseme("attention", bert, TEXT, "--json").out == polyseme("attention", bert, "--json", stdin=TEXT).out


def test_head_statistics_by_word(polyseme, bert):
    text = "unbelievable farmers by the river"
    attention = ps.load(bert).attention(text)
    assert len(attention.by_word().tokens) < len(attention.tokens)
    row = json.loads(polyseme("attention", bert, text, "--words", "--json").out.splitlines()[0])
    assert row["distance"] == pytest.approx(attention.by_word().heads[0].distance, abs=1e-6)


def test_two_texts(polyseme, bert, gpt2, tmp_path):
    texts = [f"{TEXT} she", f"{TEXT} he"]
    ended = polyseme("attention", gpt2, *texts, "--out", tmp_path / "two.html", "--json")
    assert ended.code == 0
    first, second = map(ps.load(gpt2).attention, texts)
    assert (tmp_path / "two.html").read_text(encoding="utf-8") == first.page(second)
    assert [json.loads(line)["text"] for line in ended.out.splitlines()] == [1] * 4 + [2] * 4
    table = polyseme("attention", gpt2, *texts).out.splitlines()
    assert table[0].startswith("text\tweights\tlayer") and len(table) == 9
    ended = polyseme("attention", bert, *texts, "--pair", "--json")
    row = json.loads(ended.out.splitlines()[-1])
    assert row["first"] == pytest.approx(ps.load(bert).attention(*texts).heads[-1].first, abs=1e-6)
    assert len(ended.out.splitlines()) == 4


def test_truncation_is_reported(polyseme, bert):
    ended = polyseme("attention", bert, "river " * 60)
    assert ended.code == 0 and "the last 14 tokens are omitted" in ended.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "b", "c"], "one or two texts, not 3; omit some"),
        (["a", "--pair"], "--pair needs two texts"),
        (["a", "--out", "page.png"], "page.png has the wrong extension"),
        (["a", "--out", "no/page.html"], "no/page.html cannot be written"),
        ([""], "text"),
        (["a", "b", "--pair"], "gpt2"),
    ],
)
def test_user_errors(polyseme, gpt2, arguments, message):
    ended = polyseme("attention", gpt2, *arguments)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1) and message in ended.err


def test_output_that_cannot_be_written(polyseme, gpt2, tmp_path):
    (tmp_path / "page.html").mkdir()
    ended = polyseme("attention", gpt2, "a", "--out", tmp_path / "page.html")
    assert ended.code == 2 and ended.err.count("\n") == 1 and "cannot be written" in ended.err


def test_a_family_without_attention(polyseme, tmp_path):
    (tmp_path / "vectors.txt").write_text("a 1 2\nb 2 1\n")
    ended = polyseme("attention", tmp_path / "vectors.txt", "a b")
    assert ended.code == 2 and ended.err.count("\n") == 1 and "has no attention weights; choose" in ended.err
