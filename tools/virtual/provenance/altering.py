"""What a launch stored, replaced by plausible wrong values, and where its operands came from.

A launch runs as it is, so that locks, counters and barriers work; afterwards every element that it
changed is exchanged. Two such calls on inputs that differ in their values alone tell copies of inputs
and of kernels' results from data that something else computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from kernelagent.tools.calls.tensors import dtype_of
from kernelagent.tools.virtual.device.storages.addresses import Pointee
from kernelagent.tools.virtual.executor.launch import Launch, TensorArgument
from kernelagent.tools.virtual.provenance.marking import FOREIGN_SHARE, MARKED, Marks, altered

_MOST_DISTINCT = 1 << 14
"""Different integers that are told of; where there are more, nothing is."""
_MOST_KEPT = 256 << 20
"""Bytes of operands that are kept from one call to compare the next with."""


@dataclass
class Altering:
    """One knock-out by values; `integers`: whether integers and booleans are exchanged as well."""

    marks: Marks
    integers: bool
    trace: bool = False
    """Integers are exchanged for others in their range, and where a launch's integers came from is asked."""
    _before: dict[int, torch.Tensor] = field(default_factory=dict)
    _kept: int = 0
    _first: list[dict[str, torch.Tensor]] = field(default_factory=list)
    _now: list[dict[str, torch.Tensor]] = field(default_factory=list)
    _stored: Counter[int] = field(default_factory=Counter)
    """Integers that kernels have stored, as they were exchanged, and how often."""

    def next_call(self) -> None:
        """The launches from here on belong to another call, to be compared with the first."""
        if not self._first:
            self._first = self._now
        self._now = []

    def launch_begins(self, launch: Launch, tensors: Sequence[torch.Tensor]) -> None:
        """Keep what the storages hold; `tensors`: the pointer arguments, as `launch.tensors` names them."""
        self._before = {}
        operands: dict[str, torch.Tensor] = {}
        for argument, storage in _storages(launch, tensors):
            self._before[argument.storage_address] = storage.clone()
            held = _typed(storage, argument)
            if held is not None and self._kept < _MOST_KEPT and not self._first:
                operands[argument.name] = held.clone()
                self._kept += held.nbytes
            elif held is not None and self._first:
                operands[argument.name] = held.clone()
        self._now.append(operands)

    def launch_ends(self, launch: Launch, tensors: Sequence[torch.Tensor]) -> dict[str, Any]:
        """Exchange what was stored; returns facts for the log."""
        generator = np.random.default_rng(self.marks.secret ^ launch.index)
        changed_bytes = 0
        for argument, storage in _storages(launch, tensors):
            held = _typed(storage, argument)
            before = _typed(self._before[argument.storage_address], argument)
            if held is None or before is None:
                continue
            same = (held == before) | ((held != held) & (before != before))
            changed = ~same
            count = int(changed.sum())
            if not count:
                continue
            if held.dtype in MARKED:
                held[changed] = self.marks.mark(altered(held[changed], generator))
            elif self.integers and held.is_floating_point():
                held[changed] = altered(held[changed].float(), generator).to(held.dtype)
            elif self.trace and held.dtype != torch.bool:
                held[changed] = others_in_range(held[changed], generator)
                self._stored.update(held[changed].tolist())
            elif self.integers:
                held[changed] = _other_integers(held[changed])
            else:
                continue
            changed_bytes += count * held.element_size()
        self._before = {}
        facts = {"altered_bytes": changed_bytes, "foreign": self._foreign(launch)}
        if self.trace and len(self._stored) <= _MOST_DISTINCT:
            facts["stored"] = [[int(v), n] for v, n in self._stored.items()]
        return facts

    def _foreign(self, launch: Launch) -> list[str]:
        """Operands of this launch that neither the caller nor a kernel made, by argument name."""
        at = len(self._now) - 1
        if at >= len(self._first) or self._first[at].keys() != self._now[at].keys():
            return []
        first, now = self._first[at], self._now[at]
        return [name for name in now if self._is_foreign(first[name], now[name], launch.pointees)]

    def _is_foreign(
        self, first: torch.Tensor, now: torch.Tensor, pointees: Sequence[Pointee]
    ) -> bool:
        if first.shape != now.shape or first.dtype != now.dtype:
            return False
        if first.dtype in MARKED:
            # While integers are asked about the inputs carry no marks.
            return not self.trace and self.marks.is_foreign(first, now)
        if not self.trace or now.is_floating_point() or now.dtype == torch.bool:
            return False
        changed = [
            value
            for value in now[now != first].tolist()
            if not any(item.low <= value < item.high for item in pointees)
        ]
        return is_from_elsewhere(changed, self._stored)


def is_from_elsewhere(values: Sequence[int], known: Mapping[int, int]) -> bool:
    """Whether integers that changed with the inputs are others than those `known`, counted."""
    missing = sum((Counter(values) - Counter(known)).values())
    return missing > FOREIGN_SHARE * len(values)


def others_in_range(values: torch.Tensor, generator: np.random.Generator) -> torch.Tensor:
    """Any integers between the smallest and the largest; where all are alike, another."""
    low, high = int(values.min()), int(values.max())
    if low == high:
        return values ^ 1
    drawn = generator.integers(low, high, size=tuple(values.shape), endpoint=True, dtype=np.int64)
    return torch.from_numpy(drawn).to(values.dtype)


def _other_integers(values: torch.Tensor) -> torch.Tensor:
    """The integers shifted by one place; where neighbours are equal, the lowest bit is flipped."""
    if values.dtype == torch.bool:
        return ~values
    rolled = values.roll(1)
    return torch.where(rolled == values, values ^ 1, rolled)


def _storages(
    launch: Launch, tensors: Sequence[torch.Tensor]
) -> Iterator[tuple[TensorArgument, torch.Tensor]]:
    """Each storage once, as bytes, with the argument whose type says what it holds."""
    seen: set[int] = set()
    for argument, tensor in zip(launch.tensors, tensors, strict=True):
        if argument.storage_address in seen or not argument.storage_bytes:
            continue
        seen.add(argument.storage_address)
        yield argument, tensor


def _typed(storage: torch.Tensor, argument: TensorArgument) -> torch.Tensor | None:
    """The storage's bytes as elements of the argument's type; None for what does not divide."""
    dtype = dtype_of(argument.dtype)
    start = (argument.address - argument.storage_address) % dtype.itemsize
    whole = (storage.numel() - start) // dtype.itemsize * dtype.itemsize
    if start or not whole or dtype.is_complex:
        return None
    return storage[:whole].view(dtype)
