"""Padding leaves sizes open that are executed smaller."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from kernelagent.models.compiler.capturing.capture import Smaller, capture
from kernelagent.models.compiler.choices import Choice
from kernelagent.models.compiler.module.writing import Writer
from kernelagent.models.compiler.program.calls import Call
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from tests.models.compiler.templates.interpreted import answer

pytestmark = pytest.mark.long


class Padded(nn.Module):
    def __init__(self, widths: list[int]) -> None:
        super().__init__()
        self.widths = widths

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.pad(x, self.widths, "constant", 0.5).sin()


@pytest.mark.parametrize("widths", [[0, 0, 1, 2, 3, 1], [2, -1], [-1, 0, 0, -2]])
def test_a_batch_that_is_not_padded_stays_open(widths: list[int], tmp_path: Path) -> None:
    module, full, few = Padded(widths), torch.randn(10, 8, 4, 5), torch.randn(2, 8, 4, 5)
    smaller = Smaller(module, (torch.empty(few.shape, device="meta"),), {})
    captured = capture(module, (full,), {}, smaller=smaller)
    source = Writer(module, "from_reference", Choice()).write([Call("default", captured)]).source
    for x in (full, few):
        given = answer(BatchedInterpreter(), source, tmp_path, module, x)
        torch.testing.assert_close(given, module(x))
