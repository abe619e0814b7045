"""The storages of one launch on their way into the shared memory and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from triton.runtime.jit import TensorWrapper
from triton.tools.tensor_descriptor import TensorDescriptor

from kernelagent.tools.calls.torch_dtypes import name_of
from kernelagent.tools.virtual.device.codec import encode
from kernelagent.tools.virtual.device.storages.addresses import DATA_POINTERS
from kernelagent.tools.virtual.device.storages.arena import Arena, place
from kernelagent.tools.virtual.device.storages.fresh_memory import FRESH_MEMORY


class StorageTransfer:
    """The storages of one launch on their way into the shared memory and back."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._storages: dict[int, tuple[int, torch.Tensor, int]] = {}
        self.rows: list[dict[str, Any]] = []
        self.pointees: list[dict[str, Any]] = []
        """Storages that entries of integer tensors point at, with their addresses here."""
        self.size = 0

    def encode(self, value: Any) -> Any:
        """An argument as JSON; its storage is noted."""
        if isinstance(value, TensorWrapper):
            return {"tensor": self.tensor(value.base), "as": value.dtype.name}
        if isinstance(value, torch.Tensor):
            return {"tensor": self.tensor(value)}
        if isinstance(value, TensorDescriptor):
            return {
                "descriptor": {
                    "base": self.tensor(value.base),
                    "shape": [int(n) for n in value.shape],
                    "strides": [int(n) for n in value.strides],
                    "block_shape": [int(n) for n in value.block_shape],
                    "padding": value.padding,
                }
            }
        if type(value) is int:
            self._follow(DATA_POINTERS.pointed_at([value]))
        if isinstance(value, tuple):
            return {"items": [self.encode(item) for item in value]}
        return encode(value)

    def storages(self) -> list[torch.Tensor]:
        """What was noted, as bytes: holding it keeps the storages alive."""
        return [whole for _, whole, _ in self._storages.values()]

    def tensor(self, tensor: torch.Tensor) -> dict[str, Any]:
        """Where a tensor lies in the storages of this crate."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._storages:
            self._note(key, tensor, storage)
            self._follow(DATA_POINTERS.in_table(tensor))
        return {"storage": self._storages[key][0], **self.described(tensor)}

    @staticmethod
    def described(tensor: torch.Tensor) -> dict[str, Any]:
        """A tensor within its storage; `offset` in bytes."""
        return {
            "offset": tensor.storage_offset() * tensor.element_size(),
            "dtype": name_of(tensor.dtype),
            "shape": list(tensor.shape),
            "strides": list(tensor.stride()),
        }

    def _follow(self, pointees: Iterable[tuple[int, torch.Tensor]]) -> None:
        known = {row["address"] for row in self.pointees}
        for address, whole in pointees:
            if address not in known:
                self.pointees.append({"address": address, "tensor": self.tensor(whole)})

    def _note(self, key: int, tensor: torch.Tensor, storage: torch.UntypedStorage) -> None:
        empty = tensor.device.type == "meta"
        size = storage.nbytes()
        at = 0 if empty else place(self.size, storage.data_ptr())
        if not empty:
            self.size = at + size
        whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(
            storage, 0, (size,), (1,)
        )
        self._storages[key] = (len(self.rows), whole, at)
        fill = FRESH_MEMORY.of(storage)
        self.rows.append({"at": at, "bytes": size, "empty": empty, "identity": key, "fill": fill})

    def copy_in(self) -> None:
        self._arena.ensure(self.size)
        for shared, own in self._pairs():
            shared.copy_(own)

    def copy_out(self) -> None:
        for shared, own in self._pairs():
            if not torch.equal(own, shared):
                own.copy_(shared)

    def _pairs(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        return [
            (
                torch.frombuffer(
                    self._arena.memory, dtype=torch.uint8, count=own.numel(), offset=at
                ),
                own,
            )
            for _, own, at in self._storages.values()
            if own.device.type != "meta" and own.numel() > 0
        ]
