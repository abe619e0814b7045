"""Which loads find memory that nobody has written since it was allocated, in a runner and its executor."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.tools.virtual.device.storages.fresh_memory import Fill, FreshMemory
from kernelagent.tools.virtual.provenance.never_written import NeverWritten, Region, Watch

SOURCE = """
import torch
import triton
import triton.language as tl


@triton.jit
def fill(o_ptr, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o_ptr + at, at.to(o_ptr.dtype.element_ty), mask=at < n)


@triton.jit
def read(x_ptr, o_ptr, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o_ptr + at, tl.load(x_ptr + at, mask=at < n).to(tl.float32), mask=at < n)


@triton.jit
def add(x_ptr):
    tl.atomic_add(x_ptr, 1)


@triton.jit
def both(x_ptr, o_ptr, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x_ptr + at, at.to(x_ptr.dtype.element_ty), mask=at < n)
    tl.debug_barrier()
    tl.store(o_ptr + at, tl.load(x_ptr + at, mask=at < n).to(tl.float32), mask=at < n)
"""
BODY = """
torch._C._set_deterministic_algorithms(True, warn_only=True)
torch.utils.deterministic.fill_uninitialized_memory = True
with cuda_names.pretending_cuda("sm_90", rounds=True):
    out = torch.empty(64, device="cuda")
{lines}
rows = judge_asks(kind="log", facts=False)["launches"]
show([[row["kernel"], sum(n for _, n in row.get("unwritten", []))] for row in rows])
"""
READ = "candidate.read[(4,)](x, out, {n}, B=16)"


@pytest.fixture
def loads(in_two_processes):
    """Elements that each launch of these lines loaded which nobody had written."""

    def of(*lines: str) -> list[tuple[str, int]]:
        done = in_two_processes(
            SOURCE, BODY.format(lines="\n".join(f"    {line}" for line in lines))
        )
        assert done.shown, done.errors[-2000:]
        return [(name, count) for name, count in done.shown[-1]]

    return of


def empty(dtype: str, size: int = 64) -> str:
    return f"x = torch.empty({size}, dtype=torch.{dtype}, device='cuda')"


@pytest.mark.long
def test_only_what_nobody_wrote_counts_as_unwritten(loads):
    half, kinds = "candidate.fill[(2,)](x, 32, B=16)", ("float32", "int32", "bfloat16", "int8")
    each = [(empty(kind), half, READ.format(n=32), READ.format(n=64)) for kind in kinds]
    assert loads(*sum(each, ())) == [("fill", 0), ("read", 0), ("read", 32)] * len(kinds)


@pytest.mark.long
def test_what_torch_or_the_program_itself_wrote_is_written(loads):
    by_torch = empty("int32"), "x.zero_()", READ.format(n=64)
    some = empty("int32"), "x[8:].zero_()", READ.format(n=64)
    own = empty("int32"), "candidate.both[(4,)](x, out, 64, B=16)"
    # Each of the three programs may be the first.
    atomics = empty("int32", 1), "candidate.add[(3,)](x)", READ.format(n=1)
    found = loads(*by_torch, *some, *own, *atomics)
    assert found == [("read", 0), ("read", 8), ("both", 0), ("add", 3), ("read", 0)]


@pytest.mark.long
def test_other_ways_to_fresh_memory_are_known_too(loads):
    ways = (
        "x = torch.zeros(3, dtype=torch.int32, device='cuda').new(64)",
        "x = torch.empty(0, device='cuda').resize_(64)",
        "x = torch.zeros(3, device='cuda').new_empty(64)",
        "x = torch.empty(128, device='cuda')[64:]",
    )
    lines = [line for way in ways for line in (way, READ.format(n=64))]
    assert loads(*lines) == [("read", 64)] * len(ways)


def test_what_lies_where_something_freed_lay_is_not_taken_for_it():
    known = FreshMemory()
    fresh = torch.empty(8)
    known.note(fresh, None)
    assert known.of(fresh.untyped_storage()) is not None
    assert known.of(torch.zeros(8).untyped_storage()) is None


def test_elements_that_hold_what_they_were_filled_with_by_chance_are_written():
    fill, never = Fill(1, "int8", seed=3), NeverWritten()
    contents = np.random.default_rng(4).integers(0, 256, 4096, np.uint8)
    assert int((contents == fill.bytes(4096)).sum()) > 0
    assert never.watch([(0, contents, fill)]) is None
    assert NeverWritten().watch([(0, fill.bytes(4096), fill)]) is not None


STRETCHES = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)), min_size=1, max_size=4)


@given(st.lists(st.booleans(), min_size=8, max_size=160), STRETCHES, st.sampled_from([1, 2, 4]))
def test_stretches_of_memory_are_looked_at_as_their_lanes_would_be(
    flags: list[bool], stretches: list[tuple[int, int]], size: int
) -> None:
    low, whole = 4096, len(flags) // 8 * 8
    inside = [(at, n) for at, n in stretches if (at + n) * size <= whole]
    start = np.array([low + at * size for at, _ in inside], dtype=np.int64)
    end = start + np.array([n * size for _, n in inside], dtype=np.int64)
    pointers = np.array([low + (at + i) * size for at, n in inside for i in range(n)], np.int64)
    first, second = (
        Watch((Region(low, np.array(flags[:whole])), Region(low + 9999, np.ones(8, bool))))
        for _ in range(2)
    )
    first.loaded(pointers, None, size)
    second.loaded_runs(start, end, size)
    first.keep()
    second.keep()
    one_by_one, together = first.stored(pointers, None, size), second.stored_runs(start, end, size)
    for mine, its in zip(first.regions, second.regions, strict=True):
        assert (mine.unwritten == its.unwritten).all()
    for put_back in (*one_by_one, *together):
        put_back()
    for mine, its in zip(first.regions, second.regions, strict=True):
        assert (mine.unwritten == its.unwritten).all()
    # A lane that two stretches have counts once for each.
    assert first.loads == second.loads
