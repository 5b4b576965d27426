"""Linear layers: compiled kernels for few rows, int8 weights."""

import os
import subprocess
import sys
import threading

import pytest
import torch
import torch.nn.functional as F

from polyseme.layers import linear as module
from polyseme.layers.linear import MAX_ROWS, MIN_WEIGHTS, Int8Matrix, Linear, linear, quantize


@pytest.fixture
def kernel_calls(monkeypatch):
    """One entry per call of the kernel."""
    kernels = module._kernels()
    assert kernels is not None, "this machine has no OpenMP"
    calls, matmul = [], kernels.matmul
    monkeypatch.setattr(kernels, "matmul", lambda *args, **options: calls.append(1) or matmul(*args, **options))
    return calls


@pytest.mark.parametrize("width, inner", [(128, 256), (129, 255), (1000, 40), (31, 2000)])
@pytest.mark.parametrize("num_rows", range(1, MAX_ROWS + 1))
@torch.inference_mode()
def test_few_rows_equal_torch(num_rows, width, inner, kernel_calls):
    torch.manual_seed(num_rows)
    layer = Linear(width, inner)
    x = torch.randn(num_rows, width)
    torch.testing.assert_close(layer(x), F.linear(x, layer.weight, layer.bias), atol=2e-5, rtol=1e-5)
    torch.testing.assert_close(linear(x, layer.weight), F.linear(x, layer.weight), atol=2e-5, rtol=1e-5)
    assert len(kernel_calls) == 2


@torch.inference_mode()
def test_any_input_shape(kernel_calls):
    layer = Linear(256, 192)
    for x in (torch.randn(256), torch.randn(2, 3, 256), torch.randn(0, 256), torch.randn(256, 5).T):
        torch.testing.assert_close(layer(x), F.linear(x, layer.weight, layer.bias), atol=2e-5, rtol=1e-5)
    assert len(kernel_calls) == 4


def test_unsupported_or_slow_cases_use_torch(kernel_calls):
    layer = Linear(256, 192)
    layer(torch.randn(1, 256)).sum().backward()
    assert layer.weight.grad is not None
    with torch.inference_mode():
        layer(torch.randn(MAX_ROWS + 1, 256))
        Linear(16, MIN_WEIGHTS // 16 - 1)(torch.randn(1, 16))
        Linear(256, 192, dtype=torch.float64)(torch.randn(1, 256, dtype=torch.float64))
        linear(torch.randn(1, 256), torch.randn(256, 192).T)
        for matrix in (layer.weight, Int8Matrix.of(layer.weight)):
            with pytest.raises(RuntimeError, match="shape"):
                linear(torch.randn(1, 255), matrix)
    assert not kernel_calls


def test_without_openmp(monkeypatch):
    monkeypatch.setattr(module, "_kernels", lambda: None)
    layer = Linear(256, 192)
    x = torch.randn(2, 256)
    with torch.inference_mode():
        assert torch.equal(layer(x), F.linear(x, layer.weight, layer.bias))
        matrix = Int8Matrix.of(layer.weight)
        assert torch.equal(matrix.linear(x), F.linear(x, matrix.dequantize()))


@torch.inference_mode()
def test_non_finite_values_propagate():
    weight = torch.randn(200, 256)
    x = torch.randn(2, 256)
    x[0, 3], x[1, 7] = float("nan"), float("inf")
    assert linear(x, weight)[0].isnan().all()
    assert not linear(x, weight)[1].isfinite().any()


def test_the_number_of_torch_threads_is_unchanged():
    code = """
import torch
from polyseme.layers.linear import linear
torch.set_num_threads(1)
with torch.inference_mode():
    linear(torch.ones(1, 256), torch.ones(256, 256))
print(torch.get_num_threads(), torch.__config__.parallel_info().split("omp_get_max_threads() : ")[1][0])
"""
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert process.stdout.split() == ["1", "1"]


@torch.inference_mode()
def test_concurrent_calls():
    weight, rows = torch.randn(500, 256), torch.randn(4, 1, 256)
    expected = [F.linear(x, weight) for x in rows]
    found = [[] for _ in rows]

    def work(number):
        with torch.inference_mode():
            found[number] = [linear(rows[number], weight) for _ in range(50)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(rows))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, results in enumerate(found):
        for result in results:
            torch.testing.assert_close(result, expected[number], atol=2e-5, rtol=1e-5)


def test_quantization_rounds_to_nearest():
    weight = torch.randn(50, 300) * torch.logspace(-6, 6, 50)[:, None]
    weight[7] = 0
    matrix = Int8Matrix.of(weight)
    assert matrix.values.dtype == torch.int8 and matrix.shape == weight.shape and matrix.device == weight.device
    error = (matrix.dequantize() - weight).abs()
    assert (error <= weight.abs().amax(1, keepdim=True) / 127 / 2 * 1.0001).all()
    assert (matrix.values.abs().amax(1)[weight.abs().amax(1) > 0] == 127).all(), "all of the range is used"


@pytest.mark.parametrize("num_rows", [1, 3, 4, 8, MAX_ROWS, MAX_ROWS + 1, 100])
@torch.inference_mode()
def test_int8_product_equals_dequantized_product(num_rows):
    torch.manual_seed(num_rows)
    matrix = Int8Matrix.of(torch.randn(300, 257))
    x, bias = torch.randn(num_rows, 257), torch.randn(300)
    close = 5e-3  # activations are rounded too, to 15 bits
    for optional in (None, bias):
        expected = F.linear(x, matrix.dequantize(), optional)
        torch.testing.assert_close(matrix.linear(x, optional), expected, atol=close, rtol=0)
        torch.testing.assert_close(F.linear(x, matrix, optional), expected, atol=close, rtol=0)
    torch.testing.assert_close(F.linear(x, matrix, bias=bias), expected, atol=close, rtol=0)


def test_int8_matrix_supports_embedding_and_linear_only():
    matrix = Int8Matrix.of(torch.randn(20, 8))
    ids = torch.tensor([[1, 2], [19, 0]])
    assert torch.equal(F.embedding(ids, matrix), matrix.dequantize()[ids])
    with pytest.raises(TypeError):
        torch.add(torch.ones(20, 8), matrix)


def test_quantize_replaces_every_matrix():
    encoder = torch.nn.Module()
    encoder.tokens, encoder.positions = torch.nn.Embedding(30, 8), torch.nn.Embedding(5, 8)
    encoder.inside = torch.nn.Sequential(Linear(8, 16), torch.nn.LayerNorm(16))
    quantize(encoder)
    assert {name for name, _ in encoder.named_parameters()} == {
        "positions.weight",
        "inside.0.bias",
        "inside.1.weight",
        "inside.1.bias",
    }
    assert isinstance(encoder.tokens.weight, Int8Matrix) and isinstance(encoder.inside[0].weight, Int8Matrix)
    assert encoder.inside(encoder.tokens(torch.tensor([3, 4]))).shape == (2, 16)


@pytest.mark.parametrize(
    "num_rows, num_heads, size, length", [(1, 1, 1, 0), (1, 4, 64, 30), (3, 2, 7, 49), (8, 2, 16, 5)]
)
@torch.inference_mode()
def test_decoding_attention_equals_torch(num_rows, num_heads, size, length):
    torch.manual_seed(length)
    projected, past = torch.randn(num_rows, 1, 3, num_heads, size), torch.randn(2, num_rows, num_heads, 50, size)
    past[:, :, :, length + 1 :] = float("nan")  # not yet written
    expected = past.clone()
    query, expected[0, :, :, length], expected[1, :, :, length] = (part[:, 0] for part in projected.unbind(2))
    keys, values = expected[:, :, :, : length + 1]
    mean = F.scaled_dot_product_attention(query[:, :, None], keys, values)
    found = module._kernels().attend(projected, past, length)
    torch.testing.assert_close(found, mean.transpose(1, 2), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(past, expected, atol=0, rtol=0, equal_nan=True)
