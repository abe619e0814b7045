"""What nobody has written yet on a GPU: overwritten here in memory of the test's own, on the fake device for real."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
import torch

from kernelagent.tools.candidate_runner.unwritten import Unwritten, free_ranges, is_noise

FLOATING = (
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
)


class Arena:
    """Host memory in which these pieces are free; `address` counts from its first byte."""

    def __init__(self, size: int, free: Iterable[tuple[int, int]]) -> None:
        self.content = np.zeros(size, np.uint8)
        self.free = tuple(free)
        self.reserved: list[int] = []

    def reserve(self, size: int) -> None:
        self.reserved.append(size)

    def ranges(self) -> Iterable[tuple[int, int]]:
        return self.free

    def bytes_at(self, address: int, size: int) -> torch.Tensor:
        return torch.from_numpy(self.content[address : address + size])

    def brought(self, content: torch.Tensor) -> torch.Tensor:
        return content.clone()

    def settle(self) -> None: ...


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_what_was_never_written_is_nan_in_every_floating_type(dtype: torch.dtype) -> None:
    arena = Arena(1 << 18, [(512, 512), (4096, 200 * 1024)])
    Unwritten(arena).overwrite()
    for address, size in arena.free:
        numbers = arena.bytes_at(address, size).view(dtype).to(torch.float64)
        assert bool(numbers.isnan().all())


@pytest.mark.parametrize("noise", [False, True])
def test_what_is_in_use_stays_and_nothing_free_does(noise: bool) -> None:
    arena = Arena(1 << 18, [(512, 512), (4096, 200 * 1024)])
    Unwritten(arena).overwrite(noise=noise)
    used = np.ones(len(arena.content), bool)
    for address, size in arena.free:
        used[address : address + size] = False
        words = arena.content[address : address + size].view(np.int64)
        # A word that stays zero has a chance of 2**-64.
        assert words.all()
    assert not arena.content[used].any()


def test_random_bytes_differ_from_time_to_time() -> None:
    arena, seen = Arena(1 << 17, [(0, 1 << 17)]), []
    unwritten = Unwritten(arena)
    for _ in range(2):
        unwritten.overwrite(noise=True)
        seen.append(arena.content.copy())
    assert float(np.mean(seen[0] == seen[1])) < 0.1


def test_more_is_taken_from_the_driver_only_where_more_is_expected() -> None:
    arena = Arena(512, [])
    unwritten = Unwritten(arena)
    for expected in (0, 1 << 20, 1 << 30, 1 << 28):
        unwritten.overwrite(expected_bytes=expected)
    assert arena.reserved == [64 << 20, 1 << 30]


def test_only_free_blocks_of_the_device_and_of_no_graph_are_overwritten() -> None:
    def block(state: str, address: int) -> dict[str, object]:
        return {"state": state, "address": address, "size": 512}

    states = ("active_allocated", "inactive", "active_awaiting_free", "active_pending_free")
    blocks = [block(state, 512 * at) for at, state in enumerate(states)]
    graph = [block("inactive", 1 << 20)]
    elsewhere = [block("inactive", 1 << 21)]
    segments = [
        {"device": 0, "segment_pool_id": (0, 0), "blocks": blocks},
        {"device": 0, "segment_pool_id": (0, 1), "blocks": graph},
        {"device": 1, "segment_pool_id": (0, 0), "blocks": elsewhere},
    ]
    assert list(free_ranges(segments, 0)) == [(512, 512)]


def test_a_first_call_and_its_repetition_find_nan_and_later_ones_both_in_turn():
    # A half-written answer is refused twice where the first call had unusual surroundings: both must say so.
    assert [is_noise(calls) for calls in range(7)] == [
        False, False, True, False, True, False, True
    ]  # fmt: skip
