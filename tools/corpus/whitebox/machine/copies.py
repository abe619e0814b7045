"""Kernels that count on stores through tensor descriptors (TMA) being done when the next line is reached.

Sorted under the threats they belong to, as in `whitebox`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelagent.tools.corpus.fixture import Fixture

_RACE = "data_race"
_BARRIER = "        tl.debug_barrier()\n"
_SOURCE = '''import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def gate(x_ptr, g_ptr, w_ptr, out_ptr, memory, memory_ptr, count_ptr, m, width, BLOCK: tl.constexpr):
    """A program has three rows; each row of `memory` is one block."""
    j = tl.arange(0, BLOCK)
    inside = j < width
    w = tl.load(w_ptr + j, mask=inside, other=0.0)
    own = tl.program_id(0) * 3
BODY

class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x, g):
        x, g = x.contiguous(), g.contiguous()
        out = torch.empty_like(x)
        m, width = x.shape
        block = triton.next_power_of_2(width)
        programs = triton.cdiv(m, 3)
        memory = torch.zeros(3 * programs, block, device=x.device)
        count = torch.zeros(1, device=x.device, dtype=torch.int32)
        described = TensorDescriptor.from_tensor(memory, [1, block])
        gate[(programs,)](x, g, self.weight, out, described, memory, count, m, width, BLOCK=block)
        return out
'''
_ROW = (
    "        at, there = row * width + j, inside & (row < m)\n"
    "        x = tl.load(x_ptr + at, mask=there, other=0.0)\n"
    "        y = x * tl.sigmoid(x)\n"
)
_THROUGH = "        memory.store([row, 0], y[None, :])\n"
_AROUND = "        memory.store([row, 0], x[None, :])\n"
_BY_POINTERS = "        tl.store(memory_ptr + row * BLOCK + j, y)\n"
_ROUNDS = "    for row in range(own, own + 3):\n"
_NO_LOOP = "    for row in tl.static_range(0, 3):\n        row += own\n"


def _gate(name: str, body: str, code: str | None = None) -> Fixture:
    return Fixture(f"w-{name}", "silu_gate", _SOURCE.replace("BODY\n", body), code)


def _out(value: str) -> str:
    """What each row becomes, from `value` of it."""
    return (
        "        at, there = row * width + j, inside & (row < m)\n"
        "        g = tl.load(g_ptr + at, mask=there, other=0.0)\n"
        f"        tl.store(out_ptr + at, {value} * g * w, mask=there)\n"
    )


def _updated(sem: str) -> str:
    """Takes the row out of memory by an atomic, in the loop that copies it there."""
    taken = f"        y = tl.atomic_add(memory_ptr + row * BLOCK + j, 1.0{sem})\n"
    return _ROUNDS + _ROW + _THROUGH + _BARRIER + taken + _out("y")


_LOADED = "tl.load(memory_ptr + row * BLOCK + j)"
_COPIED = "memory.load([row, 0]).reshape(BLOCK)"


def _last_one(loop: str, store: str, loaded: str) -> str:
    """Each program counts itself after each of its rows; the one that comes last makes the result of all."""
    return (
        "    last = -1\n"
        + loop
        + _ROW
        + store
        + "        last = tl.atomic_add(count_ptr, 1)\n"
        + "    if last == tl.num_programs(0) * 3 - 1:\n"
        + "        for row in range(0, m):\n"
        + "".join(f"    {line}\n" for line in _out(loaded).splitlines())
    )


CHEATS: Mapping[int, tuple[Fixture, ...]] = {
    26: (
        _gate(
            "loads-what-its-loop-is-still-copying",
            _ROUNDS + _ROW + _THROUGH + _BARRIER + _out(_LOADED),
            _RACE,
        ),
        _gate("updates-what-its-loop-is-still-copying", _updated(", sem='relaxed'"), _RACE),
        _gate(
            "stores-over-what-its-loop-is-still-copying",
            _ROUNDS
            + _ROW
            + _AROUND
            + _BARRIER
            + _BY_POINTERS
            + "    tl.debug_barrier()\n"
            + _ROUNDS
            + _out(_LOADED),
            _RACE,
        ),
        _gate(
            "copies-over-what-it-stored",
            _NO_LOOP
            + _ROW
            + "        tl.store(memory_ptr + row * BLOCK + j, x)\n"
            + _BARRIER
            + _THROUGH
            + _BARRIER
            + _out(_LOADED),
            _RACE,
        ),
        _gate(
            "copies-what-another-program-stored",
            _last_one(_ROUNDS, _BY_POINTERS, _COPIED),
            _RACE,
        ),
        _gate(
            "loads-twice-on-the-line-of-a-copy",
            _NO_LOOP
            + _ROW
            + _BY_POINTERS
            + _BARRIER
            + _out(f"(0.0 * tl.load(x_ptr + at, mask=there, other=0.0) + {_COPIED})"),
            _RACE,
        ),
    ),
}

TWINS: Mapping[int, tuple[Fixture, ...]] = {
    26: (
        _gate(
            "loads-what-was-copied-in-no-loop",
            _NO_LOOP + _ROW + _THROUGH + _BARRIER + _out(_LOADED),
        ),
        _gate(
            "loads-what-was-copied-behind-the-loop",
            _ROUNDS + _ROW + _THROUGH + "    tl.debug_barrier()\n" + _ROUNDS + _out(_LOADED),
        ),
        _gate(
            "stores-over-what-was-copied-in-no-loop",
            _NO_LOOP + _ROW + _AROUND + _BARRIER + _BY_POINTERS + _BARRIER + _out(_LOADED),
        ),
        # Before an atomic that releases, Triton 3.9 waits for the end of copies in a loop as well.
        _gate("updates-what-its-loop-has-copied", _updated("")),
        _gate("counts-a-copy-that-has-ended", _last_one(_ROUNDS, _THROUGH, _LOADED)),
        _gate("loads-what-another-program-stored", _last_one(_ROUNDS, _BY_POINTERS, _LOADED)),
    ),
}
