"""Watches for programs of one launch that disturb each other: what a GPU runs at the same time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelagent.tools.virtual.launch import (
    AccessKind,
    Launch,
    MemoryFault,
    OperationKind,
    TensorArgument,
)

_NOBODY = -1


class RaceChecker:
    """Raises `MemoryFault("data_race")` when a program reads what another program stored in this launch.

    Stores of several programs to one place are not judged here: equal values are harmless, and a
    store after another program's load-and-store shows as a read.
    """

    def __init__(self) -> None:
        self._launch: Launch | None = None
        self._program = 0
        self._programs: list[tuple[int, int, int]] = []
        self._owners: list[tuple[int, int, NDArray[np.int32], TensorArgument]] = []

    def launch_begins(self, launch: Launch) -> None:
        self._launch = launch
        regions = {(t.storage_address, t.storage_bytes): t for t in launch.tensors}
        self._owners = [
            (low, low + size, np.full(-(-size // 1), _NOBODY, dtype=np.int32), tensor)
            for (low, size), tensor in regions.items()
        ]
        self._programs = []

    def program_begins(self, program: tuple[int, int, int]) -> None:
        self._programs.append(program)
        self._program = len(self._programs) - 1

    def access(
        self, kind: AccessKind, addresses: NDArray[np.uint64], item_bytes: int, lanes: int
    ) -> None:
        if kind == "atomic" or addresses.size == 0 or len(self._owners) == 0:
            return
        first = int(addresses[0])
        for low, high, owners, tensor in self._owners:
            if low <= first < high:
                inside = addresses[(addresses >= low) & (addresses < high)]
                places = (inside - np.uint64(low)).astype(np.int64)
                if kind == "store":
                    owners[places] = self._program
                else:
                    self._read(owners[places], tensor)
                return

    def operation(self, kind: OperationKind, count: int, dtype: str) -> None:
        """Arithmetic disturbs nobody."""

    def launch_ends(self, launch: Launch) -> None:
        self._owners = []

    def _read(self, owners: NDArray[np.int32], tensor: TensorArgument) -> None:
        others = owners[(owners != _NOBODY) & (owners != self._program)]
        if others.size == 0:
            return
        assert self._launch is not None
        writer, reader = self._programs[int(others[0])], self._programs[self._program]
        raise MemoryFault(
            "data_race",
            f"`{self._launch.kernel}`: program {reader} reads {others.size} elements of "
            f"`{tensor.name}` that program {writer} stored in the same launch; programs run in no "
            f"order: use atomics or a second launch",
            {"launch": self._launch.kernel, "argument": tensor.name, "programs": [writer, reader]},
        )
