"""LSTM with a recurrent projection layer (LSTMP; Sak et al., 2014) and with clipped cells and outputs, as in ELMo.

Torch has no clipping, and its projection is slow on a CPU, because it accumulates all weight gradients at every time
step. Here only what depends on the previous step is computed step by step, the rest in one product per sequence.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn


class ProjectedLstm(nn.Module):
    """One layer in one direction.

    The order of the gates is i, f, o, g. The forget gate has a constant 1 added to its bias (Jozefowicz et al., 2015).
    """

    def __init__(self, input_width: int, cell_width: int, width: int, cell_clip: float, projection_clip: float) -> None:
        super().__init__()
        self.cell_clip = cell_clip
        self.projection_clip = projection_clip
        self.input = nn.Parameter(torch.empty(4 * cell_width, input_width))
        self.recurrent = nn.Parameter(torch.empty(4 * cell_width, width))
        self.bias = nn.Parameter(torch.zeros(4 * cell_width))
        self.projection = nn.Parameter(torch.empty(width, cell_width))
        for weight in (self.input, self.recurrent, self.projection):
            bound = 1 / math.sqrt(weight.shape[1])
            nn.init.uniform_(weight, -bound, bound)

    def forward(self, x: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """Compute outputs (T, B, D) and cells (T, B, C) from inputs (T, B, I) and the initial state.

        No gradient flows through the returned cells or to the initial state.
        """
        forget = torch.zeros_like(self.bias)
        forget[len(forget) // 4 : len(forget) // 2] = 1
        weights = (self.input, self.recurrent, self.bias + forget, self.projection)
        clips = (self.cell_clip, self.projection_clip)
        return _Recurrence.apply(x, hidden, cell, clips, *weights)  # type: ignore[no-any-return, no-untyped-call]


class _Recurrence(torch.autograd.Function):
    """Clip c, compute o tanh(c), project, clip again, in the order of the ELMo authors' code (bilm-tf)."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, hidden: Tensor, cell: Tensor, clips: tuple[float, float], *weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        input_weight, recurrent, bias, projection = weights
        cell_clip, projection_clip = ctx.clips = clips
        length, num_rows, _ = x.shape
        width, cell_width = projection.shape
        gates = torch.addmm(bias, x.reshape(length * num_rows, -1), input_weight.T).view(length, num_rows, -1)
        hiddens = x.new_empty(length + 1, num_rows, width)  # the initial state first
        cells = x.new_empty(length + 1, num_rows, cell_width)
        tanh_cells = x.new_empty(length, num_rows, cell_width)  # tanh(c)
        outputs = x.new_empty(length, num_rows, cell_width)  # o tanh(c)
        hiddens[0], cells[0] = hidden, cell
        for step in range(length):
            gates[step].addmm_(hiddens[step], recurrent.T)
            gates[step, :, : 3 * cell_width].sigmoid_()
            gates[step, :, 3 * cell_width :].tanh_()
            i, f, o, g = gates[step].chunk(4, 1)
            torch.mul(f, cells[step], out=cells[step + 1]).addcmul_(i, g).clamp_(-cell_clip, cell_clip)
            torch.tanh(cells[step + 1], out=tanh_cells[step])
            torch.mul(o, tanh_cells[step], out=outputs[step])
            torch.mm(outputs[step], projection.T, out=hiddens[step + 1]).clamp_(-projection_clip, projection_clip)
        ctx.save_for_backward(x, gates, hiddens, cells, tanh_cells, outputs, input_weight, recurrent, projection)
        ctx.mark_non_differentiable(cells)
        return hiddens[1:], cells[1:]

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        x, gates, hiddens, cells, tanh_cells, outputs, input_weight, recurrent, projection = ctx.saved_tensors
        cell_clip, projection_clip = ctx.clips
        length = len(outputs)
        grad_gates = torch.empty_like(gates)
        grad_hiddens = upstream[0].contiguous().clone()
        grad_cell = torch.zeros_like(cells[0])
        for step in reversed(range(length)):
            grad_hidden = grad_hiddens[step]
            if step + 1 < length:
                grad_hidden.addmm_(grad_gates[step + 1], recurrent)
            grad_hidden.masked_fill_(hiddens[step + 1].abs() >= projection_clip, 0)
            grad_outputs = grad_hidden @ projection
            i, f, o, g = gates[step].chunk(4, 1)
            grad_i, grad_f, grad_o, grad_g = grad_gates[step].chunk(4, 1)
            grad_cell += grad_outputs * o * (1 - tanh_cells[step].square())
            grad_cell.masked_fill_(cells[step + 1].abs() >= cell_clip, 0)
            torch.mul(grad_outputs * tanh_cells[step], o * (1 - o), out=grad_o)
            torch.mul(grad_cell * g, i * (1 - i), out=grad_i)
            torch.mul(grad_cell * cells[step], f * (1 - f), out=grad_f)
            torch.mul(grad_cell * i, 1 - g.square(), out=grad_g)
            grad_cell *= f
        flat = grad_gates.flatten(0, 1)  # (T B, 4 C)
        grad_weights = (
            flat.T @ x.flatten(0, 1),
            flat.T @ hiddens[:-1].flatten(0, 1),
            flat.sum(0),
            grad_hiddens.flatten(0, 1).T @ outputs.flatten(0, 1),
        )
        return (flat @ input_weight).view_as(x), None, None, None, *grad_weights
