"""Storages in shared memory: aligned as on a GPU, and nobody knows how far apart."""

from __future__ import annotations

from kernelagent.tools.virtual.device.storages.arena import ALIGNMENT, GAP, MOST_GAP, place


def test_each_storage_is_aligned_and_lies_a_gap_beyond_the_one_before() -> None:
    for end in (0, 100, 1 << 20):
        at = place(end, 4096)
        assert at % ALIGNMENT == 0
        assert end + GAP <= at < end + MOST_GAP + ALIGNMENT


def test_how_wide_the_gap_is_differs_from_launch_to_launch() -> None:
    assert len({place(512, 0) for _ in range(64)}) > 16


def test_the_gap_does_not_decide_which_part_of_a_page_a_storage_has() -> None:
    assert len({place(512, 0) % 4096 for _ in range(64)}) == 1


def test_what_is_not_torchs_own_is_no_better_aligned_than_here() -> None:
    assert place(0, 12) % ALIGNMENT == 12
