from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from kernelagent.tools.virtual.cost import own_reuse
from kernelagent.tools.virtual.cost.cost import dram_bytes, estimate_launch
from kernelagent.tools.virtual.cost.own_reuse import OwnReuse, lost_between
from tests.tools.virtual.cost.test_cost import GOOD, H200, IDLE

FULL = np.uint64((1 << 64) - 1)
ROW = 256
"""Pieces of 2 KiB: half a megabyte."""
CACHE = 50_000_000


def loads(reuse: OwnReuse, first: int, count: int, tensor: int = 0) -> None:
    for begin in range(first, first + count, 16):
        pieces = np.arange(begin, min(begin + 16, first + count))
        reuse.add(pieces, np.full(pieces.size, FULL), False, tensor)


def test_a_row_that_is_loaded_twice_is_told_with_what_lies_between() -> None:
    reuse = OwnReuse(CACHE)
    for program in range(4):
        reuse.program_begins(follows=True)
        loads(reuse, program * ROW, ROW)
        loads(reuse, program * ROW, ROW)
    size = ROW * 2048
    bits = math.ceil(math.log2(size - 256))
    assert reuse.by_distance([4 * ROW * 64], 4, 40) == ({str(bits): 40 * size}, 1.0)


def test_what_all_programs_load_is_nobodys_own_and_lies_in_the_cache_once() -> None:
    reuse = OwnReuse(CACHE)
    for program in range(4):
        reuse.program_begins(follows=True)
        # Rows of its own, again behind each part of what all of them load.
        for part in range(8):
            loads(reuse, program * 32, 32)
            loads(reuse, 1 << 20 | part * ROW, ROW, tensor=1)
    again, share = reuse.by_distance([4 * 32 * 64, 8 * ROW * 64], 4, 264)
    assert sum(again.values()) == 264 * 7 * 32 * 2048
    assert share == pytest.approx(32 / (32 + ROW))
    assert lost_between(again, share, 264, CACHE) == 0
    assert lost_between(again, 1.0, 264, CACHE) > 0, "were it all their own"


def test_loads_in_small_parts_are_told_apart_and_stores_lie_between() -> None:
    reuse = OwnReuse(CACHE)
    reuse.program_begins(follows=True)
    ones = [np.uint64(0xFF << (8 * part)) for part in range(8)]
    for write in (False, True, False):
        for part in ones:
            at = 7 if write else 3
            reuse.add(np.array([at]), np.array([part]), write, int(write))
    # From the first load to the second there is the rest of the piece, and all that was stored.
    assert reuse.by_distance([64, 0], 1, 1)[0] == {"12": 2048}


def test_a_program_of_very_many_accesses_and_one_that_is_not_followed_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(own_reuse, "_MOST_ACCESSES", 8)
    reuse = OwnReuse(CACHE)
    reuse.program_begins(follows=True)
    loads(reuse, 0, ROW)
    loads(reuse, 0, ROW)
    reuse.program_begins(follows=False)
    loads(reuse, 0, 16)
    loads(reuse, 0, 16)
    assert reuse.by_distance([ROW * 64], 2, 2) == ({}, 1.0)


@pytest.mark.parametrize(("at_once", "lost"), [(1, 0), (8, 0), (132, 1000)])
def test_it_is_lost_where_all_programs_together_move_more_than_the_cache_holds(
    at_once: int, lost: int
) -> None:
    assert lost_between({"21": 1000}, 1.0, at_once, CACHE) == lost


def test_what_lies_behind_more_than_the_cache_is_lost_to_one_program_already() -> None:
    reuse = OwnReuse(ROW * 1024)
    reuse.program_begins(follows=True)
    loads(reuse, 0, ROW)
    loads(reuse, 0, ROW)
    assert reuse.by_distance([ROW * 64], 1, 1)[0] == {}


def test_a_second_pass_over_long_rows_costs_what_memory_takes() -> None:
    size = 1 << 30
    once = replace(
        IDLE,
        programs=4096,
        load_sector_bytes=2 * size,
        distinct_load_bytes=size,
        dram_load_bytes=size,
        own_again={"21": size},
    )
    assert dram_bytes(once, GOOD, H200) == 2 * size
    assert dram_bytes(replace(once, programs=8), GOOD, H200) == size
    assert dram_bytes(replace(once, own_share=0.01), GOOD, H200) == size
    assert dram_bytes(replace(once, distinct_load_bytes=1 << 20), GOOD, H200) == size
    assert dram_bytes(replace(once, load_sector_bytes=size + 9), GOOD, H200) == size + 9
    short = replace(once, own_again={"12": size})
    assert dram_bytes(short, GOOD, H200) == size
    ratio = estimate_launch(once, GOOD, H200).us / estimate_launch(short, GOOD, H200).us
    assert 1.4 < ratio < 2.05
