"""What single programs load again, and how much they move in between: with many at once, L2 may have lost it by then.

Programs are interpreted one after another, so that the cache that is followed (`residency`) holds what one of them
moves. On the GPU as many as are resident move theirs at once, and each has its share of L2. That says nothing of
what others load as well, as all read a weight: for that the cache is followed as it is.
"""

from __future__ import annotations

from collections import Counter
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


@dataclass
class OwnReuse:
    """Of the programs that are followed; sectors by tensor."""

    programs: int = 0
    _distinct: Counter[int] = field(default_factory=Counter)
    _again: Counter[tuple[int, int]] = field(default_factory=Counter)
    """By tensor and bits of the distance in bytes."""
    _rows: list[tuple[Pieces, Masks, NDArray[np.bool_], NDArray[np.int64]]] = field(
        default_factory=list
    )

    def add(
        self,
        pieces: Pieces,
        masks: Masks,
        write: NDArray[np.bool_],
        tensors: NDArray[np.int64],
    ) -> None:
        """Accesses of the program under way, a row for each piece, in order."""
        self._rows.append((pieces, masks, write, tensors))

    def program_ends(self) -> None:
        """Takes in what it did; nothing where nothing was added."""
        if not self._rows:
            return
        pieces, masks, write, tensors = (
            np.concatenate(parts) for parts in zip(*self._rows, strict=True)
        )
        self._rows.clear()
        self.programs += 1
        parts = np.ascontiguousarray(masks).view(np.uint8).reshape(-1, _GROUPS)
        row, group = np.nonzero(parts)
        place = pieces[row] * _GROUPS + group
        sectors = np.bitwise_count(parts[row, group]).astype(np.int64)
        loads, tensor = ~write[row], tensors[row]
        until = np.cumsum(sectors)
        order = np.argsort(place, kind="stable")
        before, now = order[:-1], order[1:]
        again = (place[before] == place[now]) & loads[now]
        before, now = before[again], now[again]
        between = SECTOR_BYTES * (until[now] - sectors[now] - until[before])
        bits = np.ceil(np.log2(np.maximum(between, 1))).astype(np.int64)
        counted = np.minimum(sectors[now], sectors[before])
        keys, which = np.unique(np.stack([tensor[now], bits], 1), axis=0, return_inverse=True)
        for (at, distance), number in zip(
            keys.tolist(), np.bincount(which.reshape(-1), counted).tolist(), strict=True
        ):
            self._again[at, distance] += int(number)
        _, first = np.unique(place[loads], return_index=True)
        found = np.bincount(tensor[loads][first], sectors[loads][first])
        self._distinct.update({at: int(number) for at, number in enumerate(found) if number})

    def by_distance(self, distinct: list[int], programs: int, scale: float) -> dict[str, int]:
        """Bytes of the whole grid, by bits of the distance: of tensors that each program has to itself.

        `distinct`: sectors of each tensor that all `programs` loaded; `scale`: programs of the grid to one that is
        followed.
        """
        result: Counter[str] = Counter()
        for (tensor, bits), number in self._again.items():
            each = self._distinct[tensor] / max(1, self.programs)
            if distinct[tensor] >= _ALONE * each * programs:
                result[str(bits)] += round(SECTOR_BYTES * scale * number)
        return dict(sorted(result.items()))


def lost_between(by_distance: dict[str, int], at_once: int, cache_bytes: float) -> int:
    """Bytes that come from memory again: a cache that holds what one program moves in between does not hold that of all.

    What is too much for it alone was counted where the cache was followed.
    """
    lost = 0
    for bits, number in by_distance.items():
        between = _MEAN * 2 ** int(bits)
        lost += number if between <= cache_bytes < between * at_once else 0
    return lost
