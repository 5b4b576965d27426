"""Learning curves are on the scale of the final scores."""

import pytest

import polyseme as ps
from polyseme.comparison.metadata import learning_curve_rows
from polyseme.datasets.splits import open_by_language, split_text
from polyseme.inference.scores import total


@pytest.mark.parametrize(
    ("family", "name"), [("nnlm", "dev text, uncased"), ("elmo", "dev text"), ("gpt2", "dev text")]
)
def test_a_learning_curve_ends_at_the_score_of_the_model(family, name, text, tmp_path, monkeypatch):
    """Both include the cost of spelling the OOV words of a small vocabulary."""
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path / "cache"))
    split = split_text(open_by_language([str(text)], "text"), tmp_path / "text", dev_characters=20_000)
    corpus, dev = split.as_options("train"), split.as_options("dev")
    settings = ["model.vocab_size=300", "training.threads=1"]
    model = ps.pretrain(
        family, corpus=corpus, dev=dev, out=tmp_path / "run", size="tiny", budget="40steps", settings=settings
    )
    (row,) = learning_curve_rows(model, tmp_path / "run", split)
    score = total(model.score([document for _, document in split.documents("dev")]))
    assert row["name"] == name and (family == "gpt2") == (score.num_oov == 0)
    assert row["points"][-1]["bits_per_character"] == pytest.approx(score.bits_per_character, rel=0.03)
