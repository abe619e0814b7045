"""How long the threads of a program take to combine their values to a sum or running sums, at least.

What each step is, is seen in the machine code that Triton 3.9 gives for `tl.sum` and `tl.cumsum` (sm_90): a shuffle and
an operation for each halving of the lanes, then a store to shared memory, a barrier and loads; of a sum the lanes of one
warp go on with what the warps had, of running sums each thread adds up what the warps before its own had.
"""

from __future__ import annotations

from typing import Literal

Combining = Literal["reduce", "scan"]
_DEPENDENT = 4
"""From an arithmetic instruction to one that needs its result (CUDA C++ Programming Guide, multiprocessor level)."""
_SHUFFLE = 20
"""Of a shuffle, which goes the way of shared memory (assumption; 22 to 24 on a V100 and a T4, arXiv 1804.06826 and
1903.07486)."""
THROUGH_SHARED = 3 * _DEPENDENT + 20
"""A store, a barrier, and a load from shared memory (table 3 of doi:10.1016/j.ultsonch.2023.106546: 20)."""


ACROSS_BLOCKS = 3 * 180
"""Two barriers of a cluster and a load of what another block has, as the PTX has them: each goes to another
multiprocessor and back (180 clocks on an H100, arXiv 2402.13499)."""


def combining_clocks(
    what: Combining, registers: int, lanes: int, warps: int, *, in_one: bool = False
) -> int:
    """Along an axis whose place has so many bits in a thread's registers, in lanes and in warps, in one block.

    `in_one`: the lanes of a warp are combined by one instruction, as integers may be (`redux.sync`).
    """
    step = _SHUFFLE + _DEPENDENT
    clocks = _DEPENDENT * registers + step * (min(1, lanes) if in_one else lanes)
    if not warps:
        return clocks
    if what == "scan":
        return clocks + THROUGH_SHARED + _DEPENDENT * ((1 << warps) - 1)
    return clocks + 2 * THROUGH_SHARED + step * (1 if in_one else warps)
