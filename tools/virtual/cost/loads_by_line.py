"""What the loads of each line of a kernel ask for, and how much of it a program has not asked for before."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kernelagent.tools.virtual.cost.residency import Masks, Pieces, count_sectors

Counted = Mapping[tuple[str, str], int]
"""What was counted, by kind and line."""


def asked_of(counted: Counted, scale: float) -> dict[str, int]:
    """Bytes of the whole grid, by line."""
    return {
        line: round(number * scale)
        for (kind, line), number in sorted(counted.items())
        if kind == "asked"
    }


def shares_of(counted: Counted, what: str) -> dict[str, float]:
    """Of all loads on a line."""
    return {
        line: counted.get((what, line), 0) / number
        for (kind, line), number in sorted(counted.items())
        if kind == "times" and number
    }


def is_followed(program: int) -> bool:
    """Whether the `program`-th that runs, counted from 1, is one whose loads are followed: 1, 2, 4, 8, …"""
    return program.bit_count() == 1


def followed_after(before: int, last: int) -> list[int]:
    """Which of those numbered 0 to `last`, that run after `before` others, are followed."""
    powers = (1 << bits for bits in range((before + last + 1).bit_length()))
    return [power - before - 1 for power in powers if power > before]


class SectorsOfOne:
    """The sectors that single programs load: all, and those that each of them had not loaded before.

    Which programs they are does not depend on how many run together (see `is_followed`).
    """

    def __init__(self) -> None:
        self._held: dict[int, np.uint64] = {}
        self._all = self._first = 0

    def begins(self) -> None:
        """Another program."""
        self._held = {}

    def add(self, pieces: Pieces, masks: Masks) -> None:
        """Some loads of the program under way."""
        self._all += count_sectors(masks)
        order = np.argsort(pieces, kind="stable")
        places, starts = np.unique(pieces[order], return_index=True)
        if not places.size:
            return
        together = np.bitwise_or.reduceat(masks[order], starts)
        for place, mask in zip(places.tolist(), together, strict=True):
            held = self._held.get(place, np.uint64(0))
            self._first += int(np.bitwise_count(mask & ~held))
            self._held[place] = held | mask

    @property
    def share_first(self) -> float:
        """Those that had not been loaded before, of all."""
        return self._first / self._all if self._all else 1.0
