"""Embeddings of int8 models."""

import json

import numpy as np
import pytest

import polyseme as ps

TEXTS = ["the old bank by the river", "她在苹果公司上班。", "A bat slept in the barn!", "spring", "", "a " * 100]


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_int8_vectors_are_close_to_float32(trained, family):
    floats = ps.load(trained / family).embed(TEXTS)
    model = ps.load(trained / family, weights="int8")
    vectors = model.embed(TEXTS)
    cosines = (vectors * floats).sum(1) / np.linalg.norm(vectors, axis=1) / np.linalg.norm(floats, axis=1)
    assert cosines.min() > 0.99
    assert not np.array_equal(vectors, floats)
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(model.embed([text])[0], vector, rtol=0, atol=1e-3 * np.abs(vector).max())


def test_by_command(polyseme, bert):
    ended = polyseme("embed", bert, *TEXTS[:4], "--weights", "int8")
    assert ended.code == 0
    shown = [json.loads(line)["vector"] for line in ended.out.splitlines()]
    np.testing.assert_allclose(shown, ps.load(bert, weights="int8").embed(TEXTS[:4]), atol=1e-5)
    ended = polyseme("embed", bert, "a text", "--weights", "int4")
    assert ended.code == 2 and "float32 or int8" in ended.err
