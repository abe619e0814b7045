"""Real kernels, compiled and counted: what is plainly worse must be estimated plainly slower."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
import torch

from benchmarks.calibrate import TOLERANCE
from benchmarks.cost_cases import OPERATIONS, Operation
from benchmarks.cost_kernels import add_relu, add_relu_by_columns, softmax
from benchmarks.counting import CountingLauncher
from kernelagent.tools.virtual.cost.ceilings import ceilings_for
from kernelagent.tools.virtual.cost.eager import eager_rows
from kernelagent.tools.virtual.cost.forward_cost import (
    ForwardEstimate,
    estimate_eager,
    whole_forward,
)
from kernelagent.tools.virtual.interpreter.interpreter import Interpreter

_CLEARLY = 1.1
_SAMPLED = 16
_HEAVY = {"without dot": 2, "spilling": 4}
"""Variants whose programs take long in the interpreter."""

interpreter = cache(Interpreter)


@cache
def estimates(operation: Operation) -> dict[str, ForwardEstimate]:
    on_meta = operation.inputs(torch.device("meta"), 1)
    eager = eager_rows(operation.eager, (on_meta,), {})
    result = {"eager": estimate_eager(eager, ceilings_for("sm_90"))}
    tensors = operation.inputs(torch.device("cpu"), 1)
    for name, variant in operation.variants.items():
        launcher = CountingLauncher(interpreter(), "sm_90", _HEAVY.get(name, _SAMPLED))
        variant(launcher, tensors)
        launches = [item.estimate for item in launcher.counted]
        result[name] = whole_forward(launches, (), ceilings_for("sm_90"))
    return result


@pytest.fixture(autouse=True, scope="module")
def _restored_language():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    interpreter().leave()


PAIRS = [(op, *pair) for op in OPERATIONS for pair in op.slower]
OFTEN = ("add + relu", "layer norm", "softmax")
"""Compared on every commit; the others take seconds each."""
COMPARED = [
    pytest.param(
        op, better, worse, id=f"{op.name}-{better}-{worse}",
        marks=[] if op.name.startswith(OFTEN) else [pytest.mark.long],
    )
    for op, better, worse in PAIRS
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("operation", "better", "worse"), COMPARED)
def test_the_better_variant_is_estimated_clearly_faster(
    operation: Operation, better: str, worse: str
):
    result = estimates(operation)
    if worse == "eager":
        assert result[better].us < result[worse].us
    else:
        assert _CLEARLY * result[better].us < result[worse].us


@pytest.mark.long
def test_one_fused_kernel_costs_what_the_same_torch_operation_costs():
    """softmax is one kernel in eager as well; how far it stays behind is within both intervals."""
    operation = next(op for op in OPERATIONS if op.name.startswith("softmax"))
    result = estimates(operation)
    eager, fused = result["eager"], result["fused"]
    assert 1.0 < eager.us / fused.us < 2.0
    assert eager.interval
    assert fused.interval
    assert eager.interval.low < fused.interval.high


def counted(kernel, grid, most, num_warps=4, **arguments) -> CountingLauncher:
    launcher = CountingLauncher(interpreter(), "sm_90", most)
    launcher(kernel, grid, num_warps, **arguments)
    return launcher


@pytest.mark.long
def test_small_problems_are_bound_by_the_launch():
    x, y, out = (torch.zeros(256, 256) for _ in range(3))
    launcher = counted(add_relu, (64,), None, x=x, y=y, out=out, n=x.numel(), BLOCK=1024)
    assert launcher.counted[0].estimate.bound == "launch"
    assert launcher.counted[0].estimate.us < 5


@pytest.mark.long
def test_a_kernel_that_runs_counts_its_bytes_exactly():
    x, y, out = (torch.randn(100_000) for _ in range(3))
    launcher = counted(add_relu, (98,), None, x=x, y=y, out=out, n=100_000, BLOCK=1024)
    torch.testing.assert_close(out, torch.relu(x + y))
    traffic = launcher.counted[0].traffic
    assert traffic.requested_load_bytes == 2 * 400_000
    assert traffic.requested_store_bytes == 400_000
    assert traffic.dram_bytes == pytest.approx(1_200_000, abs=6 * 32)
    assert traffic.masked_lanes == 3 * (98 * 1024 - 100_000)


def sampled_and_whole(kernel, grid, **arguments):
    part, whole = (
        counted(kernel, grid, most, **arguments).counted[0] for most in (_SAMPLED * 4, None)
    )
    assert part.traffic.programs_run < whole.traffic.programs_run == np.prod(grid)
    return part, whole


@pytest.mark.long
@pytest.mark.parametrize("kind", ["rows", "columns"])
def test_a_sample_predicts_the_whole_grid(kind: str):
    x, y, out = (torch.randn(512, 1024) for _ in range(3))
    if kind == "rows":
        part, whole = sampled_and_whole(softmax, (512,), x=x, out=out, columns=1024, BLOCK=1024)
    else:
        arguments = {"x": x, "y": y, "out": out, "columns": 1024, "BLOCK": 512}
        part, whole = sampled_and_whole(add_relu_by_columns, (1024, 1), **arguments)
    assert part.estimate.us == pytest.approx(whole.estimate.us, rel=0.08)
    assert part.traffic.dram_bytes == pytest.approx(whole.traffic.dram_bytes, rel=0.08)
    assert part.traffic.load_sector_bytes == pytest.approx(whole.traffic.load_sector_bytes)


@pytest.mark.long
def test_two_runs_give_identical_numbers():
    x, out = torch.randn(64, 256), torch.empty(64, 256)
    arguments = {"x": x, "out": out, "columns": 256, "BLOCK": 256}
    first, second = (counted(softmax, (64,), None, **arguments).counted[0] for _ in range(2))
    assert (first.traffic, first.estimate) == (second.traffic, second.estimate)


VARIANTS = [(op, name) for op in OPERATIONS for name in op.variants]


@pytest.mark.long
@pytest.mark.parametrize(
    ("operation", "name"), VARIANTS, ids=[f"{o.name.split(',')[0]}-{n}" for o, n in VARIANTS]
)
def test_every_variant_computes_the_operation(operation: Operation, name: str):
    torch.manual_seed(0)
    tensors = operation.inputs(torch.device("cpu"), 4)
    launcher = CountingLauncher(interpreter(), "sm_90", None)
    got = operation.variants[name](launcher, tensors).float()
    expected = operation.eager(tensors).float()
    torch.testing.assert_close(got, expected, rtol=TOLERANCE, atol=TOLERANCE)


def test_variants_of_an_operation_have_names_of_their_own():
    for operation in OPERATIONS:
        names = {"eager", *operation.variants}
        assert names.issuperset(itertools.chain.from_iterable(operation.slower))
