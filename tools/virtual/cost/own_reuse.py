"""What single programs load again, and how much they move in between: with many at once, L2 may have lost it by then.

Programs are interpreted one after another, so that the cache that is followed (`residency`) holds what one of them
moves. On the GPU as many as are resident move theirs at once, and each has its share of L2. What all of them load, as
a weight, is there once; whether it is lost the followed cache says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernelagent.tools.virtual.cost.ceilings import SECTOR_BYTES
from kernelagent.tools.virtual.cost.residency import Masks, Pieces

_GROUPS = 8
"""Of a piece: sectors are told apart by eights."""
_ALONE = 0.75
"""A tensor is each program's own if all together loaded this part of what each of them did, or more."""
_MEAN = 0.75
"""What lies between two powers of two, as a part of the larger."""
_MOST_ACCESSES = 1 << 17
"""A program of more is not followed: what it did would have to be kept."""


@dataclass
class OwnReuse:
    """Of the programs that are followed; sectors by tensor."""

    cache_bytes: int
    """What is loaded again behind more than this is lost to a program alone, which the followed cache knows."""
    programs: int = 0
    _distinct: Counter[int] = field(default_factory=Counter)
    """Of those that are loaded."""
    _moved: Counter[int] = field(default_factory=Counter)
    _again: Counter[tuple[int, int]] = field(default_factory=Counter)
    """By tensor and bits of the bytes in between."""
    _rows: list[tuple[Pieces, Masks, NDArray[np.bool_], NDArray[np.int64]]] = field(
        default_factory=list
    )
    _follows: bool = False

    def program_begins(self, *, follows: bool) -> None:
        """What the one before did is taken in."""
        self._take_in()
        self._follows = follows

    def add(
        self,
        pieces: Pieces,
        masks: Masks,
        write: bool | NDArray[np.bool_],
        tensor: int | NDArray[np.int64],
    ) -> None:
        """An access of the program under way, or several, a row for each piece, in order."""
        if not self._follows:
            return
        writes, tensors = (np.broadcast_to(value, pieces.shape) for value in (write, tensor))
        self._rows.append((pieces, masks, writes, tensors))
        if len(self._rows) > _MOST_ACCESSES:
            self._rows.clear()
            self._follows = False

    def by_distance(
        self, distinct: Sequence[int], run: int, in_the_grid: int
    ) -> tuple[dict[str, int], float]:
        """Bytes of the whole grid, by bits of what the program moved in between, of tensors that each program has to
        itself; and which part of all that it moves these make.

        `distinct`: sectors of each tensor that all those that were `run` loaded.
        """
        self._take_in()
        followed = max(1, self.programs)
        own = {
            tensor
            for tensor in self._moved
            if distinct[tensor] >= _ALONE * self._distinct[tensor] / followed * run
        }
        result: Counter[str] = Counter()
        for (tensor, bits), number in self._again.items():
            if tensor in own:
                result[str(bits)] += round(SECTOR_BYTES * in_the_grid / followed * number)
        moved = sum(self._moved.values())
        share = sum(self._moved[tensor] for tensor in own) / moved if moved else 1.0
        return dict(sorted(result.items())), share

    def _take_in(self) -> None:
        self.programs += self._follows
        self._follows = False
        if not self._rows:
            return
        pieces, masks, write, tensors = (
            np.concatenate(parts) for parts in zip(*self._rows, strict=True)
        )
        self._rows.clear()
        parts = np.ascontiguousarray(masks).view(np.uint8).reshape(-1, _GROUPS)
        row, group = np.nonzero(parts)
        place = pieces[row] * _GROUPS + group
        sectors = np.bitwise_count(parts[row, group]).astype(np.int64)
        loads, tensor = ~write[row], tensors[row]
        until = np.cumsum(sectors)
        order = np.argsort(place, kind="stable")
        before, now = order[:-1], order[1:]
        between = SECTOR_BYTES * (until[now] - sectors[now] - until[before])
        again = (place[before] == place[now]) & loads[now] & (between <= self.cache_bytes)
        before, now, between = before[again], now[again], between[again]
        bits = np.ceil(np.log2(np.maximum(between, 1))).astype(np.int64)
        counted = np.minimum(sectors[now], sectors[before])
        keys, which = np.unique(np.stack([tensor[now], bits], 1), axis=0, return_inverse=True)
        for (at, distance), number in zip(
            keys.tolist(), np.bincount(which.reshape(-1), counted).tolist(), strict=True
        ):
            self._again[at, distance] += int(number)
        _, first = np.unique(place[loads], return_index=True)
        _count(self._distinct, tensor[loads][first], sectors[loads][first])
        _count(self._moved, tensor, sectors)


def lost_between(
    by_distance: Mapping[str, int], own_share: float, at_once: int, cache_bytes: float
) -> int:
    """Bytes that come from memory again: a cache that holds what one program moves in between does not hold that of all.

    `own_share`: of what a program moves, what it has to itself; the rest is in the cache once for all.
    """
    lost = 0
    for bits, number in by_distance.items():
        between = _MEAN * 2 ** int(bits)
        held = between * (own_share * at_once + 1 - own_share)
        lost += number if held > cache_bytes else 0
    return lost


def _count(into: Counter[int], tensors: NDArray[np.int64], sectors: NDArray[np.int64]) -> None:
    for at, number in enumerate(np.bincount(tensors, sectors).tolist()):
        if number:
            into[at] += int(number)
