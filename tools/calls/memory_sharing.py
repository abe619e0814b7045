"""Whether two tensors lie in each other's memory, what lies between the elements of one, and whether memory lives on.

Asked of the candidate in its own process and of the reference in the judge's, in the same lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch.multiprocessing.reductions import StorageWeakRef


def overlap(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether an element of one lies where an element of the other does."""
    storage = left.untyped_storage()
    if not left.numel() or not right.numel() or not storage.data_ptr():
        return False
    if storage.data_ptr() != right.untyped_storage().data_ptr():
        return False
    if left is right:
        return True
    (a, b), (c, d) = _range(left), _range(right)
    if b <= c or d <= a:
        return False
    if left.element_size() != right.element_size():
        return True
    # Columns of one buffer have ranges that overlap, and no element in common.
    taken = torch.zeros(storage.nbytes() // left.element_size(), dtype=torch.bool)
    taken.as_strided(left.shape, left.stride(), left.storage_offset()).fill_(True)
    return bool(taken.as_strided(right.shape, right.stride(), right.storage_offset()).any())


class Gaps:
    """The bytes between the elements of tensors that have gaps, to be asked later whether they are as they were.

    Bytes of another of these tensors are its own.
    """

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self._kept: dict[str, tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = {}
        for name, tensor in tensors.items():
            if not _has_gaps(tensor):
                continue
            memory = _bytes_of_storage(tensor)
            first, end = _range(tensor)
            between = torch.zeros(memory.numel(), dtype=torch.bool, device=tensor.device)
            between[first:end] = True
            for other in tensors.values():
                if _lies_in(other, tensor.untyped_storage()):
                    _elements(other, between).fill_(False)
            self._kept[name] = memory, between, memory[between]

    @property
    def written(self) -> tuple[str, ...]:
        """Names of those between whose elements something else stands now."""
        return tuple(
            name
            for name, (memory, between, before) in self._kept.items()
            if not torch.equal(memory[between], before)
        )


class Watched:
    """The memory of some tensors, to be asked later whether it lives on."""

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        self._marks = [
            StorageWeakRef(t.untyped_storage())  # type: ignore[no-untyped-call]
            for t in tensors
            if t.numel()
        ]

    @property
    def alive(self) -> bool:
        return any(not mark.expired() for mark in self._marks)  # type: ignore[no-untyped-call]


def _range(tensor: torch.Tensor) -> tuple[int, int]:
    """First byte and one past the last."""
    reach = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    size, first = tensor.element_size(), int(tensor.storage_offset())
    return first * size, (first + reach + 1) * size


def _has_gaps(tensor: torch.Tensor) -> bool:
    if tensor.layout != torch.strided or not tensor.numel() or tensor.device.type == "meta":
        return False
    first, end = _range(tensor)
    return end - first > tensor.numel() * tensor.element_size()


def _lies_in(tensor: torch.Tensor, storage: torch.UntypedStorage) -> bool:
    strided = tensor.layout == torch.strided and tensor.numel()
    return bool(strided) and tensor.untyped_storage().data_ptr() == storage.data_ptr()


def _bytes_of_storage(tensor: torch.Tensor) -> torch.Tensor:
    storage = tensor.untyped_storage()
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)


def _elements(tensor: torch.Tensor, of_bytes: torch.Tensor) -> torch.Tensor:
    """Of something that is kept for each byte of the tensor's memory, what belongs to its elements."""
    size = tensor.element_size()
    strides = (*(size * step for step in tensor.stride()), 1)
    return of_bytes.as_strided((*tensor.shape, size), strides, size * int(tensor.storage_offset()))
