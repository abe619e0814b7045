"""Which results of a call lie in each other's memory or in an input's, and how much memory they hold.

Asked of the candidate in its own process and of the reference in the judge's, in the same lines.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from kernelagent.tools.calls.tensors import tensors_of


@dataclass(frozen=True)
class Sharing:
    """Places count the tensors of a result in the order of its leaves."""

    outputs: tuple[tuple[int, int], ...] = ()
    """Pairs that have at least one element in common."""
    inputs: tuple[int, ...] = ()
    """Results that have an element in common with an argument."""
    memory: tuple[tuple[int, int], ...] = ()
    """Of each result: what it shows, and what is not freed as long as it lives."""
    state: tuple[int, ...] = ()
    """Results that have an element in common with the module's state: the next call may change them."""


def sharing_of(output: Any, arguments: Any, state: Iterable[torch.Tensor] = ()) -> Sharing:
    """Of one call's result; tensors without elements and without memory share nothing.

    `state`: of the module, where that is asked.
    """
    results, given, own = tensors_of(output), tensors_of(arguments), list(state)
    return Sharing(
        outputs=tuple(
            (first, second)
            for second in range(len(results))
            for first in range(second)
            if overlap(results[first], results[second])
        ),
        inputs=tuple(
            at for at, item in enumerate(results) if any(overlap(item, other) for other in given)
        ),
        state=tuple(
            at for at, item in enumerate(results) if any(overlap(item, other) for other in own)
        ),
        memory=tuple((t.numel() * t.element_size(), t.untyped_storage().nbytes()) for t in results),
    )


def held_longer(own: Sharing, usual: Sharing) -> tuple[int, ...]:
    """Results that hold more memory than they show, and than the reference's do; an argument's is the caller's."""
    return tuple(
        at
        for at, (shown, held) in enumerate(own.memory)
        if at not in own.inputs
        and held > max(shown, usual.memory[at][1] if at < len(usual.memory) else shown)
    )


def overlap(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether an element of one lies where an element of the other does."""
    storage = left.untyped_storage()
    if not left.numel() or not right.numel() or not storage.data_ptr():
        return False
    if storage.data_ptr() != right.untyped_storage().data_ptr():
        return False
    (a, b), (c, d) = _range(left), _range(right)
    if b <= c or d <= a:
        return False
    if left.element_size() != right.element_size():
        return True
    # Columns of one buffer have ranges that overlap, and no element in common.
    taken = torch.zeros(storage.nbytes() // left.element_size(), dtype=torch.bool)
    taken.as_strided(left.shape, left.stride(), left.storage_offset()).fill_(True)
    return bool(taken.as_strided(right.shape, right.stride(), right.storage_offset()).any())


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
