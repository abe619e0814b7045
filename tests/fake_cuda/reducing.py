"""Reductions and scans of the interpreter in pairs, as a GPU's lanes do them; Triton's own go one by one.

What is added up in pairs is as exact here as on a GPU; in Triton's interpreter a long sum is not, and
an honest kernel would be refused for it. Neighbours meet, so the order is kept, and whole slices are
combined at once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

Combine = Callable[[list[Any], list[Any]], list[Any]]


@functools.cache
def replacements() -> list[tuple[Any, str, Any]]:
    """What is put in the place of Triton's own while a kernel is interpreted."""
    import triton.language as tl
    from triton.runtime import interpreter

    class Reduced(interpreter.ReduceOps):
        def sum(self, given: Any) -> Any:
            return _reduced(self, (given,), _known(np.add, given))[0]

        def generic_reduce(self, given: Any) -> Any:
            try:
                return _reduced(self, given, _own(self, [one.dtype.scalar for one in given]))
            except _Decides:
                return super().generic_reduce(given)

    class Scanned(interpreter.ScanOps):
        def cumsum(self, given: Any) -> Any:
            return _scanned(self, (given,), _known(np.add, given))

        def cumprod(self, given: Any) -> Any:
            return _scanned(self, (given,), _known(np.multiply, given))

        def generic_scan(self, given: Any) -> Any:
            try:
                return _scanned(self, given, _own(self, [one.dtype.scalar for one in given]))
            except _Decides:
                return super().generic_scan(given)

    return [
        (interpreter, "ReduceOps", Reduced),
        (interpreter, "ScanOps", Scanned),
        # Scalars are arrays of one element, which NumPy no longer takes for a number.
        (tl.core.tensor, "__index__", lambda self: int(self.handle.data.item())),
        (tl.core.tensor, "__bool__", _truth),
    ]


def in_pairs(parts: list[Any], axis: int, combine: Combine) -> list[Any]:
    """`parts` with one element along `axis`."""
    while (length := parts[0].shape[axis]) > 1:
        even = length - length % 2
        merged = combine(
            [_every_other(part, axis, 0, even) for part in parts],
            [_every_other(part, axis, 1, even) for part in parts],
        )
        last = [_slice(part, axis, even, length, 1) for part in parts]
        parts = [np.concatenate(pair, axis) for pair in zip(merged, last, strict=True)]
    return parts


def running(parts: list[Any], axis: int, combine: Combine) -> list[Any]:
    """At each place along `axis` all up to there, in steps of 1, 2, 4 and so on."""
    length, step = parts[0].shape[axis], 1
    while step < length:
        merged = combine(
            [_slice(part, axis, 0, length - step, 1) for part in parts],
            [_slice(part, axis, step, length, 1) for part in parts],
        )
        first = [_slice(part, axis, 0, step, 1) for part in parts]
        parts = [np.concatenate(pair, axis) for pair in zip(first, merged, strict=True)]
        step *= 2
    return parts


def _reduced(operation: Any, given: Any, combine: Combine) -> list[Any]:
    parts, axis = [one.handle.data for one in given], operation.axis
    if axis is None:
        parts, axis = [part.reshape(-1) for part in parts], 0
    result = []
    for one, part in zip(given, in_pairs(parts, axis, combine), strict=True):
        if not operation.keep_dims:
            part = np.squeeze(part, axis)
        elif operation.axis is None:
            part = part.reshape((1,) * len(one.shape))
        result.append(operation.to_tensor(part if part.ndim else part.item(), one.dtype.scalar))
    return result


def _scanned(operation: Any, given: Any, combine: Combine) -> list[Any]:
    parts = running([one.handle.data for one in given], operation.axis, combine)
    return [
        operation.to_tensor(part, one.dtype.scalar) for one, part in zip(given, parts, strict=True)
    ]


def _known(operation: Callable[[Any, Any], Any], given: Any) -> Combine:
    if given.dtype.scalar.name != "bf16":
        return lambda left, right: [operation(left[0], right[0])]
    from fake_cuda_hook.bfloat import rounded, widened

    return lambda left, right: [rounded(operation(widened(left[0]), widened(right[0])))]


class _Decides(Exception):
    """The kernel's combine function branches on a value: then it takes single ones."""


class _Combining:
    depth = 0


def _truth(tensor: Any) -> bool:
    data = tensor.handle.data
    if data.size != 1:
        if _Combining.depth:
            raise _Decides
        return True
    return bool(data.item())


def _own(operation: Any, kinds: list[Any]) -> Combine:
    """The kernel's combine function."""

    def combine(left: list[Any], right: list[Any]) -> list[Any]:
        given = [
            operation.to_tensor(part, kind)
            for parts in (left, right)
            for part, kind in zip(parts, kinds, strict=True)
        ]
        _Combining.depth += 1
        try:
            made = operation.combine_fn.fn(*given)
        finally:
            _Combining.depth -= 1
        made = made if isinstance(made, tuple) else (made,)
        return [
            np.broadcast_to(getattr(getattr(one, "handle", None), "data", one), part.shape).astype(
                part.dtype
            )
            for one, part in zip(made, left, strict=True)
        ]

    return combine


def _every_other(part: Any, axis: int, first: int, end: int) -> Any:
    return _slice(part, axis, first, end, 2)


def _slice(part: Any, axis: int, first: int, end: int, step: int) -> Any:
    places = [slice(None)] * part.ndim
    places[axis] = slice(first, end, step)
    return part[tuple(places)]
