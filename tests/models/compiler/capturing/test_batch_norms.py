"""A batch norm in training as it is traced: how its sums round."""

from __future__ import annotations

import torch

from kernelagent.models.compiler.capturing.batch_norms import BATCH_NORMS

_BACKWARD = BATCH_NORMS[torch.ops.aten.native_batch_norm_backward.default]


def _gradients(grad: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    weight, eps = torch.ones(x.shape[1], dtype=x.dtype), 1e-5
    variance, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
    rstd = torch.rsqrt(variance + eps)
    made = _BACKWARD(grad, x, weight, None, None, mean, rstd, True, eps, [True] * 3)
    return tuple(made)


def test_a_bias_gradient_rounds_as_a_sum_of_what_came_even_where_the_first_element_is_large():
    torch.manual_seed(0)
    x, grad = torch.randn(4, 6, 7, 6), torch.randn(4, 6, 7, 6)
    grad[0, :, 0, 0] = 1000.0
    grad[0, :, 0, 1] = -1000.0
    _, _, bias = _gradients(grad, x)
    _, _, exact = _gradients(grad.double(), x.double())
    # 168 times the first element, taken off and added again, would have forty times as much.
    assert (bias - exact).abs().max() < 5e-4


def test_what_all_places_share_leaves_no_gradient_of_the_input():
    torch.manual_seed(0)
    x = 2 + torch.randn(4, 3, 33, 34)
    inputs, weight, _ = _gradients(torch.full(x.shape, 0.3), x)
    assert not inputs.any()
    assert not weight.any()
