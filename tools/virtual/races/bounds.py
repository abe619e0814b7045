"""Watches every access: it must lie inside the storage of one of the launch's arguments."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelagent.tools.virtual.executor.launch import (
    AccessKind,
    Launch,
    MemoryFault,
    OperationKind,
    TensorArgument,
)

_WRAPPED = "; an offset computed in 32 bits has overflowed: take it in 64, as `tl.program_id(0).to(tl.int64)`"


class BoundsChecker:
    """An observer that raises `MemoryFault("out_of_bounds")` with program, lane and argument."""

    ignores_operations = True

    def __init__(self) -> None:
        self._launch: Launch | None = None
        self._program = (0, 0, 0)
        self._low = np.empty(0, dtype=np.uint64)
        self._high = np.empty(0, dtype=np.uint64)

    def launch_begins(self, launch: Launch) -> None:
        self._launch = launch
        regions = sorted({(t.storage_address, t.storage_bytes) for t in launch.tensors})
        self._low = np.array([low for low, _ in regions], dtype=np.uint64)
        self._high = np.array([low + size for low, size in regions], dtype=np.uint64)

    def program_begins(self, program: tuple[int, int, int]) -> None:
        self._program = program

    def access(
        self, kind: AccessKind, addresses: NDArray[np.uint64], item_bytes: int, lanes: int
    ) -> None:
        if addresses.size == 0:
            return
        first, last = addresses.min(), addresses.max() + np.uint64(item_bytes)
        if bool(((self._low <= first) & (last <= self._high)).any()):
            return
        inside = np.zeros(addresses.shape, dtype=bool)
        for low, high in zip(self._low, self._high, strict=True):
            inside |= (addresses >= low) & (addresses + np.uint64(item_bytes) <= high)
        if not inside.all():
            self._raise(kind, addresses, inside, lanes)

    def operation(self, kind: OperationKind, count: int, dtype: str) -> None:
        """Arithmetic is no access."""

    def launch_ends(self, launch: Launch) -> None:
        self._launch = None

    def _raise(
        self, kind: str, addresses: NDArray[np.uint64], inside: NDArray[np.bool_], lanes: int
    ) -> None:
        assert self._launch is not None
        outside = np.flatnonzero(~inside)
        address = int(addresses[outside[0]])
        where = f"`{self._launch.kernel}`: {kind} out of bounds in program {self._program}"
        detail = {
            "launch": self._launch.kernel,
            "program": list(self._program),
            "lanes_outside": int(outside.size),
            "lanes": lanes,
        }
        near = _nearest(self._launch.tensors, address)
        if near is None:
            raise MemoryFault("out_of_bounds", f"{where}: the launch has no tensor", detail)
        element = (address - near.address) // near.item_bytes
        detail |= {"argument": near.name, "element": element, "shape": list(near.shape)}
        wrapped = _wrapped(self._launch.tensors, near, element)
        if wrapped:
            detail["wrapped"] = True
        raise MemoryFault(
            "out_of_bounds",
            f"{where}: {outside.size} of {lanes} lanes; the first is element {element} relative to "
            f"argument `{near.name}` of shape {list(near.shape)} ({near.dtype})"
            f"{_WRAPPED if wrapped else ''}",
            detail,
        )


def _wrapped(tensors: tuple[TensorArgument, ...], near: TensorArgument, element: int) -> bool:
    """Whether an offset computed in 32 bits has overflowed: 2**32 further on it would be inside, and no tensor of the
    launch holds integers that it could have come from."""
    after = near.storage_address + near.storage_bytes - near.address
    return (
        element < 0
        and 0 <= (element + (1 << 32)) * near.item_bytes < after
        and all(_holds_no_offsets(tensor.dtype) for tensor in tensors)
    )


def _holds_no_offsets(dtype: str) -> bool:
    return "int" not in dtype and dtype != "bool"


def _nearest(tensors: tuple[TensorArgument, ...], address: int) -> TensorArgument | None:
    def distance(tensor: TensorArgument) -> int:
        low, high = tensor.storage_address, tensor.storage_address + tensor.storage_bytes
        return max(low - address, address - high, 0)

    return min(tensors, key=distance, default=None)
