"""A kernel is called by what it does, and by nothing that it does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.functional import rms_norm, silu

from kernelagent.models.compiler.capturing.capture import capture
from kernelagent.models.compiler.kernels.naming import kernel_name
from kernelagent.models.compiler.program.program import parse_program

WIDTH = 64


class Of(nn.Module):
    """A function of a tensor, another of its shape, and a weight."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.function(x, y, self.weight)


def by_hand(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


NAMES = {
    "rms_norm": lambda x, y, w: rms_norm(x, (WIDTH,), w),
    "silu_rms_norm": lambda x, y, w: silu(by_hand(x, w)) * y,
    "add_rms_norm": lambda x, y, w: by_hand(x + y, w),
}


@pytest.mark.parametrize("persistent", [True, False], ids=["held", "in blocks"])
@pytest.mark.parametrize("name", NAMES)
def test_an_addition_is_in_the_name_only_where_two_values_are_added(
    name: str, persistent: bool
) -> None:
    inputs = (torch.ones(32, WIDTH), torch.ones(32, WIDTH))
    source = capture(Of(NAMES[name]), inputs, {}, persistent=persistent).source
    (kernel,) = parse_program(source, "it").kernels.values()
    assert "add" in kernel.operations
    assert kernel_name(kernel, ()) == name


def test_a_weight_of_one_and_a_little_is_no_addition_a_reader_would_look_for() -> None:
    inputs = (torch.ones(32, WIDTH), torch.ones(32, WIDTH))
    source = capture(Of(lambda x, y, w: by_hand(x, 1 + w)), inputs, {}).source
    (kernel,) = parse_program(source, "it").kernels.values()
    assert kernel_name(kernel, ("rms_norm",)) == "rms_norm_2"
