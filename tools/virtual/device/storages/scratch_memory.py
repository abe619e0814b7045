"""Memory that a kernel writes to besides its arguments: the file's own allocator hands it out for each launch.

A kernel that makes a tensor descriptor puts it there (`triton.set_allocator`). The executor keeps descriptors
elsewhere, so what a GPU's kernel does to that memory is done here: after the launch, and before it, it holds
something else than it did.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from triton.runtime.jit import TensorWrapper
from triton.tools.tensor_descriptor import TensorDescriptor

from kernelagent.tools.virtual.device.storages.arena import ALIGNMENT, OF_A_CPU
from kernelagent.tools.virtual.device.storages.host_tensors import HOST_TENSORS

_ILLEGAL = (
    "an illegal memory access was encountered: the allocator given to triton.set_allocator returned"
)


class ScratchMemory:
    """What the allocator returned for one launch."""

    def __init__(self, buffer: torch.Tensor, size: int, alignment: int) -> None:
        """Raises `RuntimeError` for memory that a kernel could not use so on a GPU."""
        storage = buffer.untyped_storage()
        self._begins = buffer.storage_offset() * buffer.element_size()
        held = min(buffer.numel() * buffer.element_size(), storage.nbytes() - self._begins)
        if HOST_TENSORS.holds(buffer):
            raise _illegal(
                'memory of the host, where a GPU cannot write: make it with device="cuda"'
            )
        if held < size:
            raise _illegal(f"{held} bytes of {size}")
        if (_on_a_gpu(storage.data_ptr()) + self._begins) % max(alignment, 1):
            raise _illegal(
                f"memory whose address is no multiple of {alignment}, which it is asked for"
            )
        self._storage, self._size, self._device = storage, size, buffer.device

    def require_apart(self, arguments: Sequence[Any]) -> None:
        """Raises `RuntimeError` where an argument of the launch lies in it, whose values would be lost."""
        for tensor in _tensors_of(arguments):
            if tensor.untyped_storage()._cdata != self._storage._cdata or not tensor.numel():
                continue
            low = tensor.storage_offset()
            last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
            item = tensor.element_size()
            begins, ends = low * item, (low + last + 1) * item
            if begins < self._begins + self._size and self._begins < ends:
                raise RuntimeError(
                    f"the allocator given to triton.set_allocator returned memory in which an argument of shape "
                    f"{tuple(tensor.shape)} lies: the kernel writes its descriptors there; return new memory"
                )

    def overwrite(self) -> None:
        """Leave there what nobody can know, as a kernel's descriptors are; without a trace at the tensor itself."""
        if self._device.type == "meta" or not self._size:
            return
        whole = torch.empty(0, dtype=torch.uint8, device=self._device)
        whole.set_(self._storage, self._begins, (self._size,), (1,))
        whole.copy_(torch.frombuffer(bytearray(os.urandom(self._size)), dtype=torch.uint8))


def _on_a_gpu(address: int) -> int:
    """The rest by which memory of torch's misses the alignment that it has on a GPU."""
    return 0 if address % OF_A_CPU == 0 else address % ALIGNMENT


def _illegal(what: str) -> RuntimeError:
    return RuntimeError(f"{_ILLEGAL} {what}")


def _tensors_of(arguments: Sequence[Any]) -> Iterator[torch.Tensor]:
    for given in arguments:
        if isinstance(given, tuple):
            yield from _tensors_of(given)
            continue
        inner = given.base if isinstance(given, TensorWrapper | TensorDescriptor) else given
        if isinstance(inner, torch.Tensor):
            yield inner
