"""Chunked cross entropy against torch's."""

import pytest
import torch
import torch.nn.functional as F

from polyseme.layers.linear_cross_entropy import MAX_CHUNK_ROWS, linear_cross_entropy, token_nll


@pytest.mark.parametrize("rows", [0, 1, 7, MAX_CHUNK_ROWS, MAX_CHUNK_ROWS + 1, 3 * MAX_CHUNK_ROWS - 5])
@pytest.mark.parametrize("with_bias", [True, False])
def test_equals_torch_cross_entropy(rows, with_bias):
    torch.manual_seed(rows)
    hidden = torch.randn(rows, 12, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(50, 12, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(50, dtype=torch.float64, requires_grad=True) if with_bias else None
    targets = torch.randint(50, (rows,))
    inputs = [tensor for tensor in (hidden, weight, bias) if tensor is not None]

    plain = F.cross_entropy(F.linear(hidden, weight, bias), targets, reduction="sum")
    expected = torch.autograd.grad(plain * 0.3, inputs)
    chunked = linear_cross_entropy(hidden, weight, bias, targets)
    actual = torch.autograd.grad(chunked * 0.3, inputs)

    torch.testing.assert_close(chunked, plain)
    for ours, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_token_nll_and_correct_predictions():
    torch.manual_seed(0)
    hidden, weight = torch.randn(MAX_CHUNK_ROWS + 3, 8), torch.randn(20, 8)
    targets = torch.randint(20, (MAX_CHUNK_ROWS + 3,))
    nll, correct = token_nll(hidden, weight, None, targets)
    logits = hidden @ weight.T
    torch.testing.assert_close(nll, F.cross_entropy(logits, targets, reduction="none"))
    assert torch.equal(correct, logits.argmax(-1) == targets)
    with torch.no_grad():
        torch.testing.assert_close(linear_cross_entropy(hidden, weight, None, targets), nll.sum())


def test_large_logits_do_not_overflow():
    hidden = torch.full((2, 4), 100.0, requires_grad=True)
    weight = torch.tensor([[100.0] * 4, [-100.0] * 4])
    loss = linear_cross_entropy(hidden, weight, None, torch.tensor([0, 1]))
    loss.backward()
    assert loss.item() == pytest.approx(80_000)
    assert torch.isfinite(hidden.grad).all()
