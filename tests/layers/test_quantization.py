"""Int8 products against float64."""

import pytest
import torch
import torch.nn.functional as F

from polyseme.layers.quantization import int8_linear, pack


def matrix(height, width, seed=0):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(-127, 128, (height, width), dtype=torch.int8, generator=generator)
    return values, torch.rand(height, generator=generator) + 0.1


@pytest.mark.parametrize("rows", [0, 1, 5, 6, 7, 48, 49, 150])
@pytest.mark.parametrize(("height", "width"), [(16, 32), (17, 33), (1, 1), (100, 7), (384, 96)])
def test_equals_the_float_product(rows, height, width):
    values, scales = matrix(height, width)
    torch.manual_seed(rows)
    x, bias = torch.randn(rows, width) * 10 ** torch.randn(rows, 1), torch.randn(height)
    product = x.double() @ (values * scales[:, None]).double().T
    sizes = x.double().abs() @ (values * scales[:, None]).double().abs().T  # what rounding is measured against
    ours = int8_linear(x, pack(values, scales), bias)
    assert ours.shape == (rows, height)
    assert ((ours - product - bias).abs() <= 1e-3 * sizes + 1e-5).all()
    assert torch.equal(int8_linear(x, pack(values, scales)), int8_linear(x, pack(values, scales), torch.zeros(height)))


def test_integers_are_exact():
    values, _ = matrix(40, 64)
    x = torch.randint(-300, 301, (50, 64), generator=torch.Generator().manual_seed(1)).float()
    x[:, 0] = 32767  # with this as its largest, the scale of a row is one
    assert torch.equal(int8_linear(x, pack(values, torch.ones(40))).double(), x.double() @ values.T.double())


@pytest.mark.parametrize("width", [516, 1536, 4096, 20_000])
def test_the_largest_sums_do_not_overflow(width):
    values = torch.full((16, width), 127, dtype=torch.int8)
    x = torch.cat([torch.full((6, width), 3.0), torch.full((6, width), -3.0)])
    expected = x.sum(1, keepdim=True).expand(12, 16) * 127
    torch.testing.assert_close(int8_linear(x, pack(values, torch.ones(16))), expected, rtol=1e-5, atol=0)


def test_a_row_does_not_depend_on_the_others():
    values, scales = matrix(70, 50)
    packed = pack(values, scales)
    x = torch.randn(130, 50) * 10 ** torch.randn(130, 1)
    together = int8_linear(x, packed)
    assert all(torch.equal(int8_linear(x[row : row + 1], packed)[0], together[row]) for row in range(130))
    assert torch.equal(int8_linear(x.view(2, 65, 50), packed).view(130, 70), together)
    assert torch.equal(int8_linear(x.T.contiguous().T, packed), together), "rows that are not one after another"


def test_zeros_and_non_finite_values():
    values, scales = matrix(20, 30)
    x = torch.randn(9, 30)
    x[2] = 0
    x[4, 7], x[6, 0] = float("nan"), float("inf")
    product = int8_linear(x, pack(values, scales))
    assert (product[2] == 0).all()
    assert not product[[4, 6]].isfinite().any()
    plain = F.linear(x, values * scales[:, None])
    torch.testing.assert_close(product[[0, 1, 3, 5, 7, 8]], plain[[0, 1, 3, 5, 7, 8]], atol=0.5, rtol=1e-3)


def test_result_does_not_depend_on_the_number_of_threads():
    values, scales = matrix(64, 40)
    x, packed = torch.randn(500, 40), pack(values, scales)
    before = torch.get_num_threads()
    found = []
    try:
        for number in (1, 2, 3, 7):
            torch.set_num_threads(number)
            found.append(int8_linear(x, packed))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(product, found[0]) for product in found)
