"""Projected LSTM against torch's and against an unfused implementation."""

import pytest
import torch

from polyseme.layers.projected_lstm import ProjectedLstm

LENGTH, ROWS, INPUT, CELL, WIDTH = 7, 3, 5, 6, 4


def some_input(scale: float = 1.0):
    generator = torch.Generator().manual_seed(1)
    shapes = ((LENGTH, ROWS, INPUT), (ROWS, WIDTH), (ROWS, CELL))
    return [scale * torch.randn(shape, generator=generator) for shape in shapes]


def unfused(lstm: ProjectedLstm, x, hidden, cell):
    """Time step by time step, with autograd."""
    outputs, cells = [], []
    for step in x:
        gates = step @ lstm.input.T + hidden @ lstm.recurrent.T + lstm.bias
        i, f, o, g = gates.chunk(4, 1)
        cell = torch.sigmoid(f + 1) * cell + torch.sigmoid(i) * torch.tanh(g)
        cell = cell.clamp(-lstm.cell_clip, lstm.cell_clip)
        hidden = ((torch.sigmoid(o) * torch.tanh(cell)) @ lstm.projection.T).clamp(
            -lstm.projection_clip, lstm.projection_clip
        )
        outputs.append(hidden)
        cells.append(cell)
    return torch.stack(outputs), torch.stack(cells)


@pytest.mark.parametrize(("cell_clip", "clip"), [(1e9, 1e9), (0.5, 1e9), (1e9, 0.2), (0.5, 0.2)])
def test_outputs_and_gradients(cell_clip, clip):
    torch.manual_seed(0)
    lstm = ProjectedLstm(INPUT, CELL, WIDTH, cell_clip=cell_clip, projection_clip=clip)
    x, hidden, cell = some_input(2.0)
    hidden, cell = hidden.clamp(-clip, clip), cell.clamp(-cell_clip, cell_clip)
    found = []
    for run in (lstm, lambda *args: unfused(lstm, *args)):
        lstm.zero_grad()
        inputs = x.clone().requires_grad_()
        outputs, cells = run(inputs, hidden, cell)
        (outputs * torch.arange(outputs.numel()).view_as(outputs).sin()).sum().backward()
        found.append([outputs, cells, inputs.grad, *(weight.grad for weight in lstm.parameters())])
    assert (found[1][0].abs() == clip).any() == (clip < 1), "clipping is at work"
    assert (found[1][1].abs() == cell_clip).any() == (cell_clip < 1)
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_equals_torch_without_clipping():
    torch.manual_seed(0)
    lstm = ProjectedLstm(INPUT, CELL, WIDTH, cell_clip=1e9, projection_clip=1e9)
    bias = lstm.bias.detach().clone()
    bias[CELL : 2 * CELL] += 1
    i, f, o, g = range(4)
    there = [
        torch.cat([weight.chunk(4)[gate] for gate in (i, f, g, o)]) for weight in (lstm.input, lstm.recurrent, bias)
    ]
    weights = [*there, torch.zeros_like(bias), lstm.projection]
    x, hidden, cell = some_input()
    state = (hidden[None], cell[None])
    top, _, last = torch._VF.lstm(x, state, weights, True, 1, 0.0, False, False, False)
    outputs, cells = lstm(x, hidden, cell)
    torch.testing.assert_close(outputs, top)
    torch.testing.assert_close(cells[-1], last[0])
