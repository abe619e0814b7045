"""Poolings whose windows overlap: a tile is read once, and what is made of it is right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from kernelagent.models.compiler.capturing.capture import Smaller, capture
from kernelagent.models.compiler.choices import Choice
from kernelagent.models.compiler.module.writing import Writer, Written
from kernelagent.models.compiler.policy import Policy
from kernelagent.models.compiler.program.calls import Call
from kernelagent.models.compiler.templates.pooling.pool import KIND
from kernelagent.models.compiler.templates.pooling.pool_source import Axis
from kernelagent.tools.judge.source_reading.reading import disclosures
from kernelagent.tools.sandbox.spawn import ForkServer
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from tests.judges import verdict_on
from tests.models.compiler.templates.interpreted import answer

OVERLAPPING: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "1-D, dilated": (nn.MaxPool1d(8, 1, 4, 3), (3, 5, 100)),
    "1-D, seven in a window": (nn.MaxPool1d(7, 1, 3), (2, 3, 50)),
    "1-D average": (nn.AvgPool1d(8, 1, 4), (2, 3, 50)),
    "1-D average of five": (nn.AvgPool1d(5, 1, 2), (2, 3, 600)),
    "2-D": (nn.MaxPool2d(4, 1, 1), (2, 3, 30, 40)),
    "2-D in steps of two": (nn.MaxPool2d(3, 2, 1), (2, 3, 41, 70)),
    "2-D of another shape each way": (nn.MaxPool2d((5, 3), (1, 2), (2, 0)), (2, 3, 23, 31)),
    "2-D average": (nn.AvgPool2d(3, 1, 1, divisor_override=4), (2, 3, 20, 21)),
    "2-D without a batch": (nn.MaxPool2d(3, 1), (3, 20, 21)),
    "3-D, dilated in steps": (nn.MaxPool3d(3, 2, 1, 3), (2, 2, 18, 17, 19)),
    "3-D average": (nn.AvgPool3d(3, 2, 1), (1, 2, 12, 13, 14)),
}
"""Sizes that no tile divides."""


@pytest.fixture(scope="module")
def interpreter() -> BatchedInterpreter:
    return BatchedInterpreter()


def written(module: nn.Module, *args: torch.Tensor) -> Written:
    return Policy(module, "from_reference", {"default": (args, {})}).first()


@pytest.mark.long
@pytest.mark.parametrize("name", OVERLAPPING)
def test_windows_that_overlap_are_right(
    interpreter: BatchedInterpreter, tmp_path: Path, name: str
) -> None:
    module, shape = OVERLAPPING[name]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    made = written(module, x)
    assert KIND in made.kinds.values()
    assert list(disclosures(made.source)) == []
    assert made.source.count("tl.load(") == 1
    got = answer(interpreter, made.source, tmp_path, module, x)
    torch.testing.assert_close(got, module(x), rtol=1e-5, atol=1e-6)


def test_nan_and_infinities_come_out_as_torch_has_them(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    module, x = nn.MaxPool2d(3, 1, 1), torch.randn(1, 2, 20, 20)
    x[0, 0, 5, 5], x[0, 1, 0, 0], x[0, 1, 7:12, 7:12] = torch.nan, torch.inf, -torch.inf
    got = answer(interpreter, written(module, x).source, tmp_path, module, x)
    torch.testing.assert_close(got, module(x), equal_nan=True)


@pytest.mark.long
def test_half_precision_is_summed_in_fp32(interpreter: BatchedInterpreter, tmp_path: Path) -> None:
    module, x = nn.AvgPool2d(5, 1), torch.randn(1, 2, 20, 20).bfloat16()
    got = answer(interpreter, written(module, x).source, tmp_path, module, x)
    torch.testing.assert_close(got, module(x.float()).bfloat16())


class Placed(nn.Module):
    """Where the maxima stand is asked for, too."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, places = nn.functional.max_pool2d(x, 3, 1, return_indices=True)
        return torch.relu(values), places


@pytest.mark.long
def test_places_are_right_where_they_are_asked_for(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    module, x = Placed(), torch.randn(1, 2, 20, 20)
    got = answer(interpreter, written(module, x).source, tmp_path, module, x)
    torch.testing.assert_close(got, module(x))


@pytest.mark.long
def test_windows_that_stand_apart_stay_in_the_kernels_around_them() -> None:
    made = written(nn.Sequential(nn.ReLU(), nn.MaxPool2d(2)), torch.randn(2, 3, 20, 20))
    assert KIND not in made.kinds.values()
    assert made.source.count("@triton.jit") == 1


@pytest.mark.long
def test_sizes_that_vary_are_arguments_of_the_kernel(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    module, few = nn.MaxPool2d(4, 1, 1), torch.randn(2, 3, 15, 37)
    smaller = Smaller(module, (few.to("meta"),), {})
    captured = capture(module, (torch.empty(8, 3, 90, 80),), {}, smaller=smaller)
    source = Writer(module, "from_reference", Choice()).write([Call("default", captured)]).source
    got = answer(interpreter, source, tmp_path, module, few)
    torch.testing.assert_close(got, module(few))


@pytest.mark.parametrize("window", range(1, 12))
def test_shifts_cover_a_window_and_nothing_beyond_it(window: int) -> None:
    axis = Axis(window, 1, 0, 3)
    covered = {0}
    for shift in axis.shifts:
        covered |= {place + shift for place in covered}
    assert covered == {3 * place for place in range(window)}


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.always
@pytest.mark.long
def test_a_pooling_is_accepted_by_the_judge(
    tmp_path: Path, fork_server: ForkServer, kind: str
) -> None:
    module = nn.MaxPool2d(3, 1, 1) if kind == "max" else nn.AvgPool1d(4, 1)
    args = (torch.randn(2, 3, 18, 20) if kind == "max" else torch.randn(2, 3, 90),)
    source = written(module, *args).source
    assert re.search(r"tl\.gather\(", source)
    result = verdict_on(source, module, args, tmp_path / "bundle", fork_server)
    assert result.accepted, f"{result.reason}\n{source}"
