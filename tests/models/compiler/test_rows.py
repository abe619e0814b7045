"""Rows that are scanned, searched, pooled, or stand side by side: what is written is right and reads memory in order."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from kernelagent.models.compiler.capturing.capture import PolicyCannot, capture
from kernelagent.models.compiler.choices import Choice
from kernelagent.models.compiler.module.writing import Writer, Written
from kernelagent.models.compiler.program.calls import Call
from kernelagent.models.compiler.program.dataflow import carried_by_loops
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from tests.lanes import crossed
from tests.models.compiler.templates.interpreted import answer


class Of(nn.Module):
    """One function of one tensor."""

    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


@pytest.fixture(scope="module")
def interpreter() -> BatchedInterpreter:
    return BatchedInterpreter()


def written(
    module: nn.Module, x: torch.Tensor, choice: Choice | None = None, *, persistent: bool = True
) -> Written:
    call = Call("default", capture(module, (x,), {}, persistent=persistent))
    return Writer(module, "from_reference", choice or Choice()).write([call])


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


SCANS = {
    "sums": lambda x: torch.cumsum(x, 1),
    "sums from the end": lambda x: torch.cumsum(x.flip(1), 1).flip(1),
    "sums down columns": lambda x: torch.cumsum(x, 0),
    "products": lambda x: torch.cumprod(1 + 0.01 * x, 1),
    "masked sums and what follows": lambda x: torch.relu(torch.cumsum(x * (x > 0), 1)) * 2,
}


@pytest.mark.parametrize(("scan", "persistent"), crossed(SCANS, {"held": True, "in blocks": False}))
def test_scans_agree_with_float64_in_rows_that_are_held_and_in_blocks(
    interpreter: BatchedInterpreter,
    tmp_path: Path,
    scan: Callable[[torch.Tensor], Any],
    persistent: bool,
) -> None:
    module, x = Of(scan), draw(5, 2500)
    source = written(module, x, persistent=persistent).source
    assert "associative_scan" not in source
    got = answer(interpreter, source, tmp_path, module, x)
    torch.testing.assert_close(got.double(), module(x.double()), rtol=1e-4, atol=1e-4)


def test_a_scan_by_another_operation_is_refused_by_name() -> None:
    with pytest.raises(PolicyCannot, match="has a function"):
        written(Of(lambda x: torch.logcumsumexp(x, 1)), draw(3, 40))


PLACES = {
    "largest": lambda x: torch.argmax(x, 1),
    "smallest": lambda x: torch.argmin(x, 1),
    "values and places": lambda x: tuple(torch.max(x, 1)),
}


VALUES = ("drawn", "equal", "all -inf", "with NaN")


@pytest.mark.parametrize(
    ("name", "values"), crossed({name: name for name in PLACES}, {kind: kind for kind in VALUES})
)
def test_the_first_of_the_best_is_found_in_blocks_of_a_row(
    interpreter: BatchedInterpreter, tmp_path: Path, name: str, values: str
) -> None:
    module, x = Of(PLACES[name]), draw(3, 2300, 5)
    if values == "equal":
        x = torch.round(x)
    elif values == "all -inf":
        x = torch.full_like(x, -torch.inf)
    elif values == "with NaN" and name != "values and places":
        x[1, [700, 1900], 2] = torch.nan
    source = written(module, x, persistent=False).source
    assert "for start in" in source
    got = answer(interpreter, source, tmp_path, module, x)
    torch.testing.assert_close(got, module(x), equal_nan=True)


SOFTMAXES = {
    "softmax": lambda x: torch.softmax(x, 1),
    "log softmax": lambda x: torch.log_softmax(x, 1),
    "cross entropy": lambda x: torch.nn.functional.cross_entropy(x, torch.arange(4)),
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "values"), crossed({name: name for name in SOFTMAXES}, {kind: kind for kind in VALUES})
)
def test_a_softmax_of_long_rows_finds_maximum_and_sum_in_one_reading(
    interpreter: BatchedInterpreter, tmp_path: Path, name: str, values: str
) -> None:
    module, x = Of(SOFTMAXES[name]), draw(4, 2300)
    if values == "equal":
        x = torch.full_like(x, 3.5)
    elif values == "all -inf":
        x[1] = -torch.inf
        x[2, 1000:] = -torch.inf
    elif values == "with NaN":
        x[1, 700], x[2, 50] = torch.nan, torch.inf
    source = written(module, x, persistent=False).source
    kernels = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    loops = [node for node in ast.walk(kernels[0]) if isinstance(node, ast.For)]
    assert len(loops) == (1 if name == "cross entropy" else 2)
    got = answer(interpreter, source, tmp_path, module, x)
    torch.testing.assert_close(got, module(x), equal_nan=True)


@pytest.mark.long
def test_rows_that_are_split_over_programs_are_joined_with_their_maxima(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    module, x = Of(SOFTMAXES["softmax"]), draw(2, 150_000)
    made = written(module, x)
    assert set(made.kinds) == {"softmax", "softmax_2", "softmax_3"}
    assert "In PyTorch: exp(x - largest) / total." in made.source
    got = answer(interpreter, made.source, tmp_path, module, x)
    torch.testing.assert_close(got, module(x))


@pytest.mark.long
def test_a_loss_of_one_row_is_one_number(interpreter: BatchedInterpreter, tmp_path: Path) -> None:
    module = Of(lambda x: torch.nn.functional.cross_entropy(x, torch.arange(1)))
    x = draw(1, 70_000)
    got = answer(interpreter, written(module, x).source, tmp_path, module, x)
    torch.testing.assert_close(got, module(x))


@pytest.mark.long
def test_rows_side_by_side_are_read_many_at_a_time_and_not_held_where_they_are_long() -> None:
    x = draw(4, 4096, 600)
    made = written(Of(lambda x: torch.sum(x, 1)), x)
    (config,) = made.configs.values()
    assert set(made.kinds.values()) == {"reduction"}
    assert config.blocks["XBLOCK"] >= 8
    within = written(Of(lambda x: torch.softmax(x, 2)), x)
    assert set(within.kinds.values()) == {"persistent_reduction"}


@pytest.mark.long
def test_short_rows_are_held_many_at_a_time(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    module, x = Of(lambda x: torch.softmax(x, 1)), draw(7, 19, 23, 5)
    made = written(module, x)
    held = [name for name, kind in made.kinds.items() if kind == "persistent_reduction"]
    assert held
    assert all(made.configs[name].blocks["XBLOCK"] >= 8 for name in held)
    got = answer(interpreter, made.source, tmp_path, module, x)
    torch.testing.assert_close(got, module(x))


POOLS = {
    "overlapping with a border": nn.AvgPool3d(3, 2, 1),
    "apart": nn.AvgPool3d((5, 2, 3)),
    "another divisor": nn.AvgPool3d(3, 1, 1, divisor_override=5),
}
TYPES = {"float32": torch.float32, "float16": torch.float16}


@pytest.mark.long
@pytest.mark.parametrize(("pool", "dtype"), crossed(POOLS, TYPES))
def test_averages_over_large_windows_of_volumes_are_kernels_of_ours(
    interpreter: BatchedInterpreter, tmp_path: Path, pool: nn.Module, dtype: torch.dtype
) -> None:
    module, x = Of(lambda x: pool(x) * 2), draw(2, 3, 11, 9, 10).to(dtype)
    made = written(module, x)
    # Where windows overlap, what follows is a kernel of its own.
    assert made.source.count("@triton.jit") == (1 if pool is POOLS["apart"] else 2)
    assert "functional.avg_pool3d(" not in made.source.split("class ModelNew")[1]
    got = answer(interpreter, made.source, tmp_path, module, x)
    loose = 1e-5 if dtype == torch.float32 else 4e-3
    torch.testing.assert_close(got.double(), module(x.double()), rtol=loose, atol=loose)


def test_a_name_is_carried_by_a_loop_that_finds_a_value_in_it():
    body = ast.parse(
        "total = 0\nfor i in rows:\n    at = i\n    total = total + at\n"
        "for i in rows:\n    at = i\n    last = at\nfirst = 1\nfirst = 2\n"
    ).body
    assert carried_by_loops(body) == {"total"}


def test_a_sum_of_few_results_is_split_where_the_target_has_multiprocessors_for_it() -> None:
    """Whatever the machine that writes has: 32 programs keep a small GPU's memory busy, not a large one's."""
    module, x = Of(lambda x: x.sum(0)), torch.empty(65536, 256)
    launches = {
        target: capture(module, (x,), {}, target=target).source.count(".run(")
        for target in ("sm_90", "sm_75")
    }
    assert launches == {"sm_90": 2, "sm_75": 1}


@pytest.mark.long
def test_a_sum_is_not_split_where_a_second_kernel_costs_more_than_it_saves() -> None:
    for function, shape in (
        (lambda x: x.sum(0), (8192, 1024)),
        (lambda x: torch.softmax(x, -1), (64, 131072)),
    ):
        assert capture(Of(function), (torch.empty(shape),), {}).source.count(".run(") == 1


class Scaled(nn.Module):
    """Multiplied by a parameter without dimensions and an input without any."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, x: torch.Tensor, shift: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * self.scale + shift, shift * 2


@pytest.mark.long
def test_tensors_without_dimensions_are_read_by_the_kernels_and_not_on_the_host(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    module, args = Scaled(), (draw(6, 40), torch.tensor(0.25))
    call = Call("default", capture(module, args, {}))
    source = Writer(module, "from_reference", Choice()).write([call]).source
    assert ".item()" not in source
    assert '_contiguous("shift", shift, (), torch.float32)' in source
    got = answer(interpreter, source, tmp_path, module, *args)
    torch.testing.assert_close(got, module(*args))


class States(nn.Module):
    """Its last state is the last of its states, in memory of its own; a view shares that of what it views."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first, last = torch.relu(x), torch.sigmoid(x) * 2
        return torch.cat([first, last]), last, first.view(-1), first


def test_results_share_memory_where_those_of_the_module_do_and_nowhere_else(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    module, x = States(), draw(6, 8)
    results = answer(interpreter, written(module, x).source, tmp_path, module, x)
    every, last, flat, first = (t.untyped_storage().data_ptr() for t in results)
    assert len({every, last, first}) == 3
    assert flat == first
    for got, want in zip(results, module(x), strict=True):
        torch.testing.assert_close(got, want)
