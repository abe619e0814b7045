"""Kernels say which expression of PyTorch they compute."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from kernelagent.models.compiler.capturing.capture import capture
from kernelagent.models.compiler.program.expressions import expressions_of
from tests.models.compiler.test_policy import Of, policy_for, source_of


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (Of(lambda m, x: torch.relu(x) * 2 - 1), ["relu(arg0_1) * 2 - 1"]),
        (Of(lambda m, x: x / (x.abs() - 1)), ["arg0_1 / (abs(arg0_1) - 1)"]),
        (
            Of(lambda m, x: (y := torch.tanh(x * 0.25 + 1.5)) / y.sum(-1, keepdim=True)),
            ["tanh_1 = tanh(arg0_1 * 0.25 + 1.5)", "tanh_1 / sum(tanh_1, [-1], True)"],
        ),
        (Of(lambda m, x: torch.softmax(x, -1)), ["exp(arg0_1 - largest) / total"]),
        (
            nn.LayerNorm(48, elementwise_affine=False),
            ["(arg0_1 - mean) * rsqrt(variance + 1e-05)"],
        ),
    ],
    ids=["a chain", "brackets where they are needed", "a value used twice", "softmax", "moments"],
)
def test_an_expression_has_what_is_fused_and_no_more(
    module: nn.Module, expected: list[str]
) -> None:
    source = capture(module, (torch.randn(10, 48),), {}).source
    (lines,) = expressions_of(source).values()
    assert list(lines) == expected


@pytest.mark.long
def test_a_kernel_s_docstring_has_the_file_s_own_names() -> None:
    source = source_of(policy_for(nn.Sequential(nn.LayerNorm(48)), (torch.randn(4, 48),)).reply([]))
    assert "rsqrt(variance + 1e-05)" in source
    assert "arg0_1" not in source
    assert "forward only: it has no gradient" in source
