from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from kernelagent.tools.virtual.cost.cost import dram_bytes, estimate_launch
from kernelagent.tools.virtual.cost.own_reuse import OwnReuse, lost_between
from tests.tools.virtual.cost.test_cost import GOOD, H200, IDLE

FULL = np.uint64((1 << 64) - 1)
ROW = 256
"""Pieces of 2 KiB: half a megabyte."""


def passes(reuse: OwnReuse, first: int, times: int, tensor: int = 0) -> None:
    """One program that loads a row so many times."""
    for _ in range(times):
        for begin in range(first, first + ROW, 16):
            pieces = np.arange(begin, begin + 16)
            masks = np.full(16, FULL)
            reuse.add(pieces, masks, np.zeros(16, bool), np.full(16, tensor))
    reuse.program_ends()


def test_a_row_that_is_loaded_twice_is_told_with_what_lies_between() -> None:
    reuse = OwnReuse()
    for program in range(4):
        passes(reuse, program * ROW, 2)
    size = ROW * 2048
    (bits,) = {math.ceil(math.log2(size - 256))}
    assert reuse.by_distance([4 * ROW * 64], 4, 10.0) == {str(bits): 10 * 4 * size}


def test_what_all_programs_load_is_nobodys_own() -> None:
    reuse = OwnReuse()
    for _ in range(4):
        passes(reuse, 0, 2)
    assert reuse.by_distance([ROW * 64], 4, 10.0) == {}


def test_loads_in_small_parts_are_told_apart_and_stores_lie_between() -> None:
    reuse = OwnReuse()
    ones = [np.uint64(0xFF << (8 * part)) for part in range(8)]
    for write in (False, True, False):
        for part in ones:
            at = 7 if write else 3
            reuse.add(np.array([at]), np.array([part]), np.array([write]), np.array([int(write)]))
    reuse.program_ends()
    # From the first load to the second there is the rest of the piece, and all that was stored.
    assert reuse.by_distance([64, 64], 1, 1.0) == {"12": 2048}


@pytest.mark.parametrize(("at_once", "lost"), [(1, 0), (8, 0), (132, 1000)])
def test_it_is_lost_where_all_programs_together_move_more_than_the_cache_holds(
    at_once: int, lost: int
) -> None:
    assert lost_between({"21": 1000}, at_once, 50e6) == lost
    assert lost_between({"40": 1000}, at_once, 50e6) == 0, "counted where the cache is followed"


def test_a_second_pass_over_long_rows_costs_what_memory_takes() -> None:
    size = 1 << 30
    once = replace(
        IDLE,
        programs=4096,
        load_sector_bytes=2 * size,
        dram_load_bytes=size,
        own_again={"21": size},
    )
    assert dram_bytes(once, GOOD, H200) == 2 * size
    assert dram_bytes(replace(once, programs=8), GOOD, H200) == size
    short = replace(once, own_again={"12": size})
    assert dram_bytes(short, GOOD, H200) == size
    ratio = estimate_launch(once, GOOD, H200).us / estimate_launch(short, GOOD, H200).us
    assert 1.4 < ratio < 2.05
