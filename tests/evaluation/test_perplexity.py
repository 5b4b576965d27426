"""Bits per character and perplexity: against transformers, independent of files and batches, named by scale."""

import math
import statistics

import pytest
import torch
import torch.nn.functional as F
from tests.evaluation.random_models import random_model

import polyseme as ps
from polyseme.errors import ConfigError, DataError
from polyseme.inference.scores import total

DOCUMENTS = [
    "The old bank by the river lends money.\nIt is closed on Monday.",
    "她在苹果公司上班。河边的银行昨天关门了。",
    " ".join(["A bat slept in the barn while the boys looked for their other bat."] * 4),
    "Spring!",
]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "some.dev.txt"
    path.write_text("\n\n".join(DOCUMENTS), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def gpt2(documents, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "gpt2"
    random_model("gpt2", documents, "model.max_length=200", folder=folder)
    return ps.load(folder)


def by_metric(results):
    return {(result.metric, result.section): result for result in results}


def test_likelihood_equals_transformers(gpt2, file):
    """Score the documents one by one with transformers, each after the end-of-text token."""
    import transformers

    theirs = transformers.AutoModelForCausalLM.from_pretrained(gpt2.folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(gpt2.folder)
    nats, tokens = [], []
    for document in DOCUMENTS:
        ids = torch.tensor([[tokenizer.eos_token_id, *tokenizer(document)["input_ids"]]])
        assert ids.shape[1] < 200
        with torch.inference_mode():
            nats.append(F.cross_entropy(theirs(ids).logits[0, :-1].double(), ids[0, 1:], reduction="sum").item())
        tokens.append(ids.shape[1] - 1)
    characters = [len(document) for document in DOCUMENTS]
    found = by_metric(gpt2.evaluate(file, suite="likelihood"))
    assert [*found] == [
        ("bits per character", ""),
        ("perplexity per word", ""),
        ("perplexity per token", ""),
    ]
    bits = found["bits per character", ""]
    assert (bits.name, bits.num_scored, bits.num_items) == ("some.dev", 4, 4)
    assert bits.value == pytest.approx(sum(nats) / math.log(2) / sum(characters), rel=1e-5)
    assert found["perplexity per token", ""].value == pytest.approx(math.exp(sum(nats) / sum(tokens)), rel=1e-5)
    words = 13 + 20 + 4 * 14 + 1  # eighteen ideographs and two punctuation marks
    assert found["perplexity per word", ""].value == pytest.approx(math.exp(sum(nats) / words), rel=1e-4)
    # The standard error of a ratio, from the residuals of the documents.
    costs = [cost / math.log(2) for cost in nats]
    rest = [cost - bits.value * count for cost, count in zip(costs, characters, strict=True)]
    assert sum(rest) == pytest.approx(0, abs=1e-2)
    by_deviation = statistics.stdev(rest) * math.sqrt(4) / sum(characters)
    assert bits.standard_error == pytest.approx(by_deviation, rel=1e-3)
    per_token = found["perplexity per token", ""]
    assert per_token.standard_error > 0 and per_token.standard_error < per_token.value


@pytest.mark.parametrize("family", ["gpt2", "nnlm", "ulmfit", "elmo", "bert"])
def test_result_is_independent_of_files_and_batches(documents, family, file, tmp_path, monkeypatch):
    model = random_model(family, documents)
    expected = model.evaluate(file, suite="likelihood")
    (tmp_path / "b.txt").write_text("\n\n\n".join(DOCUMENTS[:3]), encoding="utf-8")
    (tmp_path / "a.jsonl").write_text('{"text": "Spring!"}\n', encoding="utf-8")
    monkeypatch.setattr("polyseme.evaluation.perplexity._BATCH_CHARACTERS", 50)
    for data in (tmp_path, file):
        found = model.evaluate(data, suite="likelihood")
        assert [result.metric for result in found] == [result.metric for result in expected]
        for one, other in zip(found, expected, strict=True):
            assert one.value == pytest.approx(other.value, rel=1e-5) and one.num_items == 4
            assert one.standard_error == pytest.approx(other.standard_error, rel=1e-4)


def test_metric_names_state_the_scale(documents, file):
    def metrics(family, *settings):
        return [*by_metric(random_model(family, documents, *settings).evaluate(file, suite="likelihood"))]

    assert metrics("bert")[0] == ("pseudo-bits per character, uncased", "")
    assert metrics("bert")[2] == ("pseudo-perplexity per token", "")
    assert metrics("bert", "tokenizer.lowercase=false")[0] == ("pseudo-bits per character", "")
    assert metrics("nnlm")[0] == ("bits per character, uncased", "")
    assert metrics("nnlm", "tokenizer.lowercase=false")[0] == ("bits per character", "")
    assert metrics("ulmfit", "model.direction=backward")[0] == ("bits per character", "")


def test_bidirectional_model_reports_both_directions_and_their_mean(documents, file):
    model = random_model("elmo", documents)
    found = by_metric(model.evaluate(file, suite="likelihood"))
    mean, left, right = (found["bits per character", direction] for direction in ("", "forward", "backward"))
    assert mean.value == pytest.approx((left.value + right.value) / 2) and left.value != right.value
    ppl, left, right = (found["perplexity per token", direction].value for direction in ("", "forward", "backward"))
    assert ppl == pytest.approx(math.sqrt(left * right))
    score = total(model.score(DOCUMENTS))
    spelling = found["bits per character", "spelling of OOV words"]
    assert spelling.value == pytest.approx(score.oov_nats / math.log(2) / score.num_characters) and spelling.value > 0.1
    assert mean.value == pytest.approx(score.bits_per_character)


def test_sample_of_documents_depends_on_the_seed(gpt2, file):
    one, same = (gpt2.evaluate(file, suite="likelihood", most=2, seed=1) for _ in range(2))
    others = [gpt2.evaluate(file, suite="likelihood", most=2, seed=seed)[0].value for seed in range(5)]
    assert one == same and one[0].num_items == 2 and len({*others}) > 1
    assert gpt2.evaluate(file, suite="likelihood", most=9)[0].num_items == 4
    alone = gpt2.evaluate(file, suite="likelihood", most=1)[0]
    assert alone.standard_error is None and alone.value > 0


def test_unusable_input_is_refused(gpt2, documents, tmp_path):
    with pytest.raises(DataError, match="no such file"):
        gpt2.evaluate(tmp_path / "nothing.txt", suite="likelihood")
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(DataError, match="holds no text"):
        gpt2.evaluate(tmp_path / "empty.txt", suite="likelihood")
    (tmp_path / "vectors.txt").write_text("bank 1 2\nriver 3 4\n")
    with pytest.raises(ConfigError, match="cannot score"):
        ps.load(tmp_path / "vectors.txt").evaluate(tmp_path / "empty.txt", suite="likelihood")
