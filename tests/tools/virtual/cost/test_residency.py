from __future__ import annotations

import random

import numpy as np
import pytest

from kernelagent.tools.virtual.cost.residency import (
    PIECE_BYTES,
    SECTORS_PER_PIECE,
    AddressSpace,
    L2Cache,
    Stretch,
    count_sectors,
    stream,
)

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_MIB = 1 << 20


def touch(cache: L2Cache, piece: int, mask: np.uint64 = _ALL, write: bool = False) -> int:
    slots = cache.space.slots_of(np.array([piece]))
    return count_sectors(cache.touch(slots, np.array([mask]), write=write))


def cache_of(pieces: int) -> L2Cache:
    return L2Cache(AddressSpace(), pieces * PIECE_BYTES)


def test_what_was_loaded_costs_nothing_again():
    cache = cache_of(4)
    assert touch(cache, 1) == SECTORS_PER_PIECE
    assert touch(cache, 1) == 0


def test_touching_one_sector_does_not_bring_its_neighbours():
    cache = cache_of(4)
    assert touch(cache, 1, np.uint64(1)) == 1
    assert touch(cache, 1) == SECTORS_PER_PIECE - 1


def test_the_least_recently_touched_piece_leaves_first():
    cache = cache_of(2)
    touch(cache, 1)
    touch(cache, 2)
    touch(cache, 1)
    touch(cache, 3)
    assert touch(cache, 1) == 0
    assert touch(cache, 2) == SECTORS_PER_PIECE


def test_a_write_to_what_was_read_is_charged_once():
    cache = cache_of(4)
    touch(cache, 1)
    assert touch(cache, 1, write=True) == SECTORS_PER_PIECE
    assert touch(cache, 1, write=True) == 0


def test_reading_what_was_just_written_is_free():
    cache = cache_of(4)
    touch(cache, 1, write=True)
    assert touch(cache, 1) == 0


def test_a_piece_that_was_written_back_is_charged_when_written_again():
    cache = cache_of(1)
    touch(cache, 1, write=True)
    touch(cache, 2)
    assert touch(cache, 1, write=True) == SECTORS_PER_PIECE


def test_random_touches_agree_with_a_plain_ordered_dictionary():
    """The reference keeps whole pieces; the order of eviction must be the same."""
    draw = random.Random(0)
    cache, held, capacity = cache_of(16), dict[int, None](), 16
    for _ in range(5000):
        piece = int(draw.gauss(0, 12)) + 10**6
        expected = 0 if piece in held else SECTORS_PER_PIECE
        held.pop(piece, None)
        held[piece] = None
        if len(held) > capacity:
            del held[next(iter(held))]
        assert touch(cache, piece) == expected


def test_addresses_far_apart_keep_their_own_slots():
    space = AddressSpace()
    pieces = np.array([5, 10**6, 10**9, 10**9 + 1])
    slots = space.slots_of(pieces)
    assert len(set(slots.tolist())) == 4
    assert (space.slots_of(pieces[2:]) == slots[2:]).all()


def test_memory_that_exists_nowhere_gets_addresses_of_its_own():
    space = AddressSpace()
    first, second = space.reserve(10 * PIECE_BYTES), space.reserve(1)
    assert second >= first + 10 * PIECE_BYTES
    assert first % PIECE_BYTES == 0


def test_large_operands_side_by_side_all_come_from_dram():
    cache = L2Cache(AddressSpace(), 50 * _MIB)
    size = 64 * _MIB
    inputs = [Stretch(cache.space.reserve(size), size, size, write=False) for _ in range(2)]
    output = Stretch(cache.space.reserve(size), size, size, write=True)
    assert stream(cache, [*inputs, output]) == [size, size, size]
    # Were they streamed one after another, the output would now be resident in large part.
    reread = Stretch(output.address, size, size, write=False)
    assert stream(cache, [reread]) == pytest.approx([size], rel=0.25)


def test_operands_that_fit_stay():
    cache = L2Cache(AddressSpace(), 50 * _MIB)
    size = 8 * _MIB
    item = Stretch(cache.space.reserve(size), size, size, write=False)
    assert stream(cache, [item]) == [size]
    assert stream(cache, [item]) == [0]


def test_a_tensor_of_some_bytes_costs_a_sector_and_not_a_piece():
    cache = cache_of(8)
    tiny = Stretch(cache.space.reserve(4), 4, 4, write=False)
    assert stream(cache, [tiny]) == [32]


@pytest.mark.long
def test_a_small_working_set_touched_forever_keeps_a_short_queue():
    cache = cache_of(64)
    for turn in range(50_000):
        touch(cache, turn % 3)
    assert len(cache.queue) < 50_000
    assert touch(cache, 0) == 0


def test_a_cleared_cache_is_cold():
    cache = cache_of(4)
    touch(cache, 1, write=True)
    cache.clear()
    assert touch(cache, 1) == SECTORS_PER_PIECE


@pytest.mark.parametrize(("offset", "size"), [(0, 4096), (32, 64), (2016, 64), (96, 8192)])
def test_a_stretch_touches_exactly_the_sectors_it_lies_in(offset: int, size: int):
    cache = L2Cache(AddressSpace(), _MIB)
    base = cache.space.reserve(_MIB)
    assert stream(cache, [Stretch(base + offset, size, size, write=False)]) == [size]
    assert stream(cache, [Stretch(base + offset, size, size, write=False)]) == [0]
    assert stream(cache, [Stretch(base, 1 << 15, 1 << 15, write=False)]) == [(1 << 15) - size]


@pytest.mark.parametrize("times", [2, 40, 97.3])
@pytest.mark.parametrize("in_place", [False, True])
def test_what_is_many_times_the_cache_moves_once_and_leaves_its_end(
    times: float, in_place: bool
) -> None:
    capacity = 1 << 20
    cache = L2Cache(AddressSpace(), capacity)
    size = int(times * capacity) // 4096 * 4096
    start = 0 if in_place else 1 << 40
    read, write = Stretch(0, size, size, False), Stretch(start, size, size, True)
    assert stream(cache, [read, write]) == [size, size]
    # What was moved last is there still, what was moved first is not.
    last = Stretch(size - capacity // 4, capacity // 4, capacity // 4, False)
    first = Stretch(0, capacity // 4, capacity // 4, False)
    assert stream(cache, [last]) == [0]
    assert stream(cache, [first]) == [capacity // 4]
