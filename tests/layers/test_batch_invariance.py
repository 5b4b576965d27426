"""Continuous batching: the result for a row does not depend on the other rows of the batch."""

import pytest
import torch

from polyseme.batch import Batch
from polyseme.layers import attention as attention_module
from polyseme.layers.attention import AttentionContext, SelfAttention
from polyseme.layers.kv_cache import KVCache, RaggedKVCache
from polyseme.layers.linear import MAX_ROWS, batch_invariant, linear
from polyseme.models.gpt2 import Gpt2, Gpt2Config


@pytest.mark.parametrize("width, height", [(32, 96), (32, 300), (128, 128), (128, 8192), (100, 33)])
def test_linear_is_batch_invariant(width, height):
    torch.manual_seed(0)
    weight = torch.randn(height, width) / width**0.5  # products of order one, as in a model
    bias, rows = torch.randn(height), torch.randn(MAX_ROWS, width)
    with torch.inference_mode(), batch_invariant():
        whole = linear(rows, weight, bias)
        for number in range(1, MAX_ROWS + 1):
            assert torch.equal(linear(rows[:number], weight, bias), whole[:number])
            assert torch.equal(linear(rows[-number:], weight, bias), whole[-number:])
    torch.testing.assert_close(whole, torch.nn.functional.linear(rows, weight, bias))


def test_the_context_manager_ends_with_its_block():
    with pytest.raises(ZeroDivisionError), batch_invariant():
        raise ZeroDivisionError
    weight, rows = torch.randn(32, 32), torch.randn(3, 32)
    with torch.inference_mode():
        assert torch.equal(linear(rows, weight), torch.nn.functional.linear(rows, weight))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Gpt2(Gpt2Config(vocab_size=50, max_length=24, width=32, num_layers=2, num_heads=2)).eval()


def prefill(model, texts):
    """The caches of texts that were encoded one by one."""
    caches = [model.new_state(1, 20) for _ in texts]
    for text, cache in zip(texts, caches, strict=True):
        model(Batch.of(torch.tensor([text])), cache)
    return caches


@pytest.mark.parametrize("kernels", [True, False])
def test_ragged_decoding_equals_encoding_each_text(model, monkeypatch, kernels):
    if not kernels:
        monkeypatch.setattr(attention_module, "kernels_for", lambda x: None)
    texts, last = [[3, 5, 7], [1], [2, 4, 6, 8, 10, 12, 14]], [9, 11, 13]
    with torch.inference_mode(), batch_invariant():
        caches = prefill(model, texts)
        together = model(Batch.of(torch.tensor(last)[:, None]), RaggedKVCache(caches)).layers[-1]
        assert [cache.length for cache in caches] == [4, 2, 8]
        for number, text in enumerate(texts):
            whole = model(Batch.of(torch.tensor([[*text, last[number]]]))).layers[-1]
            torch.testing.assert_close(together[number], whole[0, -1:], atol=1e-5, rtol=1e-4)
            (own,) = prefill(model, [text])
            alone = model(Batch.of(torch.tensor([[last[number]]])), RaggedKVCache([own])).layers[-1]
            assert torch.equal(alone[0], together[number])


def test_ragged_attention_equals_batched_attention():
    torch.manual_seed(0)
    layer = SelfAttention(32, 2, 0.0).eval()
    x, shape = torch.randn(3, 6, 32), (1, 3, 2, 10, 16)
    with torch.inference_mode():
        whole = KVCache(shape, torch.device("cpu"))
        rows = [KVCache((1, 1, *shape[2:]), torch.device("cpu")) for _ in range(3)]
        for position in range(6):
            token = x[:, position : position + 1]
            expected = layer(token, AttentionContext(causal=True, cache=whole))
            found = layer(token, AttentionContext(causal=True, cache=RaggedKVCache(rows)))
            whole.advance(1)
            for row in rows:
                row.advance(1)
            torch.testing.assert_close(found, expected)
