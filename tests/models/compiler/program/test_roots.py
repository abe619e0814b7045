"""Roots of sizes that are executed smaller: computed in the kernels, in what a GPU is fast at."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from kernelagent.models.compiler.capturing.capture import PolicyCannot, Smaller, capture
from kernelagent.models.compiler.choices import Choice
from kernelagent.models.compiler.module.writing import Writer
from kernelagent.models.compiler.program.calls import Call
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from tests.models.compiler.templates.interpreted import answer

Computed = Callable[[torch.Tensor], torch.Tensor]
COMPUTED: dict[str, Computed] = {
    "one over the root": lambda x: torch.relu(x) * (1.0 / math.sqrt(x.shape[-1])),
    "divided by a multiple": lambda x: torch.relu(x) / (2 * math.sqrt(x.shape[-1])),
    "the root of a sum of sizes": lambda x: x.sin() + math.sqrt(x.shape[-1] + x.shape[-2]),
    "without what it is the root of": lambda x: x.sin() * (x.shape[-1] - math.sqrt(x.shape[-1])),
    "the root's negative": lambda x: x.cos() + -math.sqrt(x.shape[-1]),
}


class Of(nn.Module):
    def __init__(self, computed: Computed) -> None:
        super().__init__()
        self.computed = computed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.computed(x)


def written(module: nn.Module, x: torch.Tensor) -> str:
    few = Smaller(module, (torch.empty(4, 24, device="meta"),), {})
    captured = capture(module, (x,), {}, smaller=few)
    return Writer(module, "from_reference", Choice()).write([Call("default", captured)]).source


@pytest.mark.long
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("computed", COMPUTED.values(), ids=list(COMPUTED))
def test_what_is_computed_with_a_root_is_right_at_both_sizes(
    computed: Computed, dtype: torch.dtype, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    module, interpreter = Of(computed), BatchedInterpreter()
    full, few = torch.randn(6, 50).to(dtype), torch.randn(4, 24).to(dtype)
    source = written(module, full)
    assert "float64" not in source
    for x in (full, few):
        given = answer(interpreter, source, tmp_path, module, x)
        torch.testing.assert_close(given, computed(x))


def test_a_root_that_is_no_operand_is_named_and_nothing_is_written() -> None:
    def added(x: torch.Tensor) -> torch.Tensor:
        return x.sin().add(x, alpha=math.sqrt(x.shape[-1]))

    with pytest.raises(PolicyCannot, match="the root of a size"):
        written(Of(added), torch.randn(6, 50))
