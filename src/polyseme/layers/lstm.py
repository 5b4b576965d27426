"""An LSTM whose output is projected to fewer numbers (Sak et al., 2014), and clipped so that it cannot run away.

Torch has no clipping, and its projection is slow on a CPU: step by step it adds to the gradients of all weights. Here
only what depends on the step before is done step by step, and all the rest in one product for the whole row.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn


class ProjectedLstm(nn.Module):
    """One layer in one direction.

    Gates lie in the order i, f, o, g. The forget gate adds 1 to its bias, so that a new layer remembers.
    """

    def __init__(self, input_width: int, cell_width: int, width: int, *, cell_clip: float, clip: float) -> None:
        super().__init__()
        self.cell_clip = cell_clip
        self.clip = clip
        self.input = nn.Parameter(torch.empty(4 * cell_width, input_width))
        self.recurrent = nn.Parameter(torch.empty(4 * cell_width, width))
        self.bias = nn.Parameter(torch.zeros(4 * cell_width))
        self.projection = nn.Parameter(torch.empty(width, cell_width))
        for weight in (self.input, self.recurrent, self.projection):
            bound = 1 / math.sqrt(weight.shape[1])
            nn.init.uniform_(weight, -bound, bound)

    def forward(self, x: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs (T, B, D) and cells (T, B, C) of all steps, from inputs (T, B, I) and the state before them.

        No gradient comes back through the cells, nor to the state before.
        """
        forget = torch.zeros_like(self.bias)
        forget[len(forget) // 4 : len(forget) // 2] = 1
        weights = (self.input, self.recurrent, self.bias + forget, self.projection)
        return _Steps.apply(x, hidden, cell, *weights, self.cell_clip, self.clip)  # type: ignore[no-any-return, no-untyped-call]


class _Steps(torch.autograd.Function):
    """Clip c, then o tanh(c), then project, then clip, as the program of the paper on ELMo does."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        hidden: Tensor,
        cell: Tensor,
        input_weight: Tensor,
        recurrent: Tensor,
        bias: Tensor,
        projection: Tensor,
        cell_clip: float,
        clip: float,
    ) -> tuple[Tensor, Tensor]:
        length, num_rows, _ = x.shape
        width, cell_width = projection.shape
        gates = torch.addmm(bias, x.reshape(length * num_rows, -1), input_weight.T).view(length, num_rows, -1)
        hiddens = x.new_empty(length + 1, num_rows, width)  # the state before comes first
        cells = x.new_empty(length + 1, num_rows, cell_width)
        bent = x.new_empty(length, num_rows, cell_width)  # tanh(c)
        passed = x.new_empty(length, num_rows, cell_width)  # o tanh(c)
        hiddens[0], cells[0] = hidden, cell
        for step in range(length):
            gates[step].addmm_(hiddens[step], recurrent.T)
            gates[step, :, : 3 * cell_width].sigmoid_()
            gates[step, :, 3 * cell_width :].tanh_()
            i, f, o, g = gates[step].chunk(4, 1)
            torch.mul(f, cells[step], out=cells[step + 1]).addcmul_(i, g).clamp_(-cell_clip, cell_clip)
            torch.tanh(cells[step + 1], out=bent[step])
            torch.mul(o, bent[step], out=passed[step])
            torch.mm(passed[step], projection.T, out=hiddens[step + 1]).clamp_(-clip, clip)
        ctx.clips = cell_clip, clip
        ctx.save_for_backward(x, gates, hiddens, cells, bent, passed, input_weight, recurrent, projection)
        ctx.mark_non_differentiable(cells)
        return hiddens[1:], cells[1:]

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        x, gates, hiddens, cells, bent, passed, input_weight, recurrent, projection = ctx.saved_tensors
        cell_clip, clip = ctx.clips
        length, num_rows, _ = passed.shape
        to_gates = torch.empty_like(gates)
        to_hiddens = upstream[0].contiguous().clone()
        to_cell = torch.zeros_like(cells[0])
        for step in reversed(range(length)):
            to_hidden = to_hiddens[step]
            if step + 1 < length:
                to_hidden.addmm_(to_gates[step + 1], recurrent)
            to_hidden.masked_fill_(hiddens[step + 1].abs() >= clip, 0)
            to_passed = to_hidden @ projection
            i, f, o, g = gates[step].chunk(4, 1)
            to_i, to_f, to_o, to_g = to_gates[step].chunk(4, 1)
            to_cell += to_passed * o * (1 - bent[step].square())
            to_cell.masked_fill_(cells[step + 1].abs() >= cell_clip, 0)
            torch.mul(to_passed * bent[step], o * (1 - o), out=to_o)
            torch.mul(to_cell * g, i * (1 - i), out=to_i)
            torch.mul(to_cell * cells[step], f * (1 - f), out=to_f)
            torch.mul(to_cell * i, 1 - g.square(), out=to_g)
            to_cell *= f
        flat = to_gates.view(length * num_rows, -1)
        return (
            (flat @ input_weight).view_as(x),
            None,
            None,
            flat.T @ x.reshape(length * num_rows, -1),
            flat.T @ hiddens[:-1].view(length * num_rows, -1),
            flat.sum(0),
            to_hiddens.view(length * num_rows, -1).T @ passed.view(length * num_rows, -1),
            None,
            None,
        )
