"""Which storages of a launch its kernel stores to, whatever they hold afterwards.

What a kernel writes and puts back is there in between for everybody who reads that memory at the time: another
stream, another thread, a layer with the same weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from kernelagent.tools.virtual.batched.accesses import Access
from kernelagent.tools.virtual.executor.launch import AccessKind, Launch, OperationKind


class StoredTo:
    """An observer of one launch."""

    ignores_operations = True

    def __init__(self, storages: Iterable[tuple[int, int, int]]) -> None:
        """`storages`: a number, the address and the size of each that holds anything."""
        rows = sorted(storages, key=lambda row: row[1])
        self._numbers = np.array([number for number, _, _ in rows], dtype=np.int64)
        self._lows = np.array([low for _, low, _ in rows], dtype=np.uint64)
        self._seen: set[int] = set()

    @property
    def numbers(self) -> list[int]:
        """Of the storages that were stored to."""
        return sorted(self._seen)

    def launch_begins(self, launch: Launch) -> None:
        """Nothing has been stored yet."""

    def program_begins(self, program: tuple[int, int, int]) -> None:
        """Which program it is makes no difference."""

    def access(
        self, kind: AccessKind, addresses: NDArray[np.uint64], item_bytes: int, lanes: int
    ) -> None:
        if kind != "load":
            self._note(addresses)

    def together(self, accesses: Sequence[Access]) -> None:
        """What programs that were run together did."""
        for item in accesses:
            if item.kind != "load":
                self._note(item.runs.start.astype(np.uint64))

    def operation(self, kind: OperationKind, count: int, dtype: str) -> None:
        """Arithmetic is no access."""

    def launch_ends(self, launch: Launch) -> None:
        """What was noted is kept."""

    def _note(self, addresses: NDArray[np.uint64]) -> None:
        if not addresses.size or len(self._seen) == self._numbers.size:
            return
        first, last = np.searchsorted(
            self._lows, (addresses.min(), addresses.max()), side="right"
        ).tolist()
        if first == last:
            found = {first}
        else:
            found = {*np.unique(np.searchsorted(self._lows, addresses, side="right")).tolist()}
        # Below all of them lies none.
        self._seen |= {int(self._numbers[at - 1]) for at in found if at}
