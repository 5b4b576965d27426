"""What is said of models beside their answers."""

import pytest

import polyseme as ps
from polyseme.comparison.facts import curve
from polyseme.comparison.splitting import open_text, split_text
from polyseme.scoring import total


@pytest.mark.parametrize(
    ("family", "called"), [("nnlm", "dev text, uncased"), ("elmo", "dev text"), ("gpt2", "dev text")]
)
def test_a_learning_curve_ends_where_a_model_does(family, called, text, tmp_path, monkeypatch):
    """Words that a small vocabulary lacks are spelt on the way as they are at the end."""
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path / "cache"))
    split = split_text(open_text([str(text)], "text"), tmp_path / "text", dev_characters=20_000)
    corpus, dev = split.named("train"), split.named("dev")
    told = ["model.vocab_size=300", "plan.threads=1"]
    model = ps.pretrain(
        family, corpus=corpus, dev=dev, out=tmp_path / "run", size="tiny", budget="40steps", settings=told
    )
    (row,) = curve(family, model, tmp_path / "run", split)
    whole = total(model.score([document for _, document in split.documents("dev")]))
    assert row["name"] == called and (family == "gpt2") == (whole.num_unknown == 0)
    assert row["points"][-1]["bits_per_character"] == pytest.approx(whole.bits_per_character, rel=0.03)
