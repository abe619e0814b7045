"""Which storages a launch stored to, in a runner and its executor, whatever they hold afterwards."""

from __future__ import annotations

import numpy as np
import pytest

from kernelagent.tools.virtual.provenance.stored_to import StoredTo

SOURCE = """
import torch
import triton
import triton.language as tl


@triton.jit
def add_one(x_ptr, o_ptr, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o_ptr + at, tl.load(x_ptr + at, mask=at < n) + 1, mask=at < n)


@triton.jit
def there_and_back(x_ptr, o_ptr, B: tl.constexpr):
    at = tl.arange(0, B)
    before = tl.load(x_ptr + at)
    tl.store(x_ptr + at, -before)
    tl.debug_barrier()
    tl.store(o_ptr + at, tl.load(x_ptr + at))
    tl.debug_barrier()
    tl.store(x_ptr + at, before)


@triton.jit
def count(x_ptr, o_ptr):
    tl.atomic_add(x_ptr, tl.load(o_ptr))
"""
BODY = """
with cuda_names.pretending_cuda("sm_90", rounds=True):
    x, out = torch.ones(64, device="cuda"), torch.zeros(64, device="cuda")
    names = {{t.untyped_storage()._cdata: n for n, t in (("x", x), ("out", out))}}
    {line}
show(sorted(names[key] for key in used.remote.take_stored()))
show(sorted(used.remote.take_stored()))
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "stored"),
    [
        ("candidate.add_one[(4,)](x, out, 64, B=16)", ["out"]),
        ("candidate.add_one[(4,)](x, x, 64, B=16)", ["x"]),
        ("candidate.add_one[(4,)](x, out, 0, B=16)", []),
        ("candidate.there_and_back[(1,)](x, out, B=64)", ["out", "x"]),
        ("candidate.count[(3,)](x, out)", ["x"]),
    ],
)
def test_a_launch_tells_which_storages_it_stored_to(in_two_processes, line, stored):
    done = in_two_processes(SOURCE, BODY.format(line=line))
    assert done.shown == [stored, []], done.errors[-2000:]


def test_addresses_are_found_in_whichever_of_several_storages_they_lie():
    stored = StoredTo([(2, 4096, 64), (0, 1024, 64), (1, 8192, 64)])
    stored.access("load", np.array([4096], dtype=np.uint64), 4, 1)
    assert stored.numbers == []
    stored.access("store", np.array([1024, 8192 + 60], dtype=np.uint64), 4, 2)
    stored.access("atomic", np.array([], dtype=np.uint64), 4, 2)
    assert stored.numbers == [0, 1]
    stored.access("store", np.array([16], dtype=np.uint64), 4, 1)
    assert stored.numbers == [0, 1]
