"""Atomics of one launch that have to wait for each other: at one address, and in one sector of L2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

WARP = 32
"""Up to this many lanes that update one address count as one atomic, as the lanes of a warp may be combined."""
_SECTOR_SHIFT = np.uint64(5)


@dataclass(frozen=True)
class Updates:
    """What the atomics of one access update, of one program or of several one after the other."""

    address: NDArray[np.uint64]
    """Of each program, in ascending order, each place once."""
    lanes: NDArray[np.int64]
    """How many of the program's lanes update it."""
    sector: NDArray[np.uint64]
    """Of each program, each once."""
    lanes_of_sector: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        address: NDArray[np.uint64],
        lanes: NDArray[np.int64],
        program: NDArray[np.int64] | int = 0,
    ) -> Updates:
        sectors = address >> _SECTOR_SHIFT
        changes = np.ones(address.size, dtype=np.bool_)
        changes[1:] = (sectors[1:] != sectors[:-1]) | (
            np.diff(program) != 0 if np.ndim(program) else False
        )
        first = np.flatnonzero(changes)
        return cls(address, lanes, sectors[first], np.add.reduceat(lanes, first))


@dataclass(frozen=True)
class Contention:
    """What a launch's atomics come to."""

    atomics: int = 0
    """Of warps."""
    hottest_atomics: int = 0
    """The most of these at one address."""
    hottest_updates: int = 0
    """The most lanes at one address."""
    hottest_requests: int = 0
    """The most atomics of 32 lanes at most in one sector."""

    def scaled(self, by: float) -> dict[str, int]:
        """As fields of `TrafficFacts`."""
        return {name: round(number * by) for name, number in asdict(self).items()}


def contention_of(updates: Sequence[Updates]) -> Contention:
    """Of all accesses of a launch."""
    if not updates:
        return Contention()
    lanes = np.concatenate([item.lanes for item in updates])
    places = np.concatenate([item.address for item in updates])
    sectors = np.concatenate([item.sector for item in updates])
    together = np.concatenate([item.lanes_of_sector for item in updates])
    by_warps = -(-lanes // WARP)
    return Contention(
        int(by_warps.sum()),
        _most(places, by_warps),
        _most(places, lanes),
        _most(sectors, -(-together // WARP)),
    )


def _most(places: NDArray[np.uint64], numbers: NDArray[np.int64]) -> int:
    """The largest sum of numbers of one place."""
    _, which = np.unique(places, return_inverse=True)
    return int(np.bincount(which, numbers).max())
