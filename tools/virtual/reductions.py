"""`tl.reduce` and `tl.associative_scan` on numpy arrays, in trees, as a GPU forms them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock

from kernelagent.tools.virtual import numerics
from kernelagent.tools.virtual.numerics import Array

Tensor = Any
Combine = Callable[..., Any]
_NARROW = (tl.bfloat16, tl.float16)
_BRANCHES = (ast.If, ast.IfExp, ast.While, ast.BoolOp)


class Reduction(stock.ReduceOps):  # type: ignore[misc]
    """One `tl.reduce`; sums of 16-bit floats round after each addition, as in the hardware's tree."""

    def __init__(self, axis: Any, combine: Any, keep_dims: bool, rewritten: Combine) -> None:
        super().__init__(_plain(axis), combine, _plain(keep_dims))
        self._rewritten = rewritten

    def sum(self, input: Tensor) -> Tensor:  # noqa: A002 - the name Triton's method has
        kind = input.dtype.scalar
        if kind not in _NARROW:
            return super().sum(input)
        held, axis = _along(input.handle.data, self.axis)
        values = numerics.to_fp32(held, kind)
        while values.shape[axis] > 1:
            left, right = _halves(values, axis)
            added = numerics.convert(left + right, tl.float32, kind)
            values = numerics.to_fp32(added, kind)
        return self._packed(numerics.convert(values, tl.float32, kind), axis, input)

    def min_max(self, input: Any, val_reduce_op: Any, idx_reduce_op: Any = None) -> Any:  # noqa: A002
        first = input[0] if isinstance(input, tuple) else input
        kind = first.dtype.scalar
        if kind not in (tl.bfloat16, *numerics.FP8):
            return super().min_max(first, val_reduce_op, idx_reduce_op)
        wide = self.to_tensor(numerics.to_fp32(first.handle.data, kind), tl.float32)
        found = super().min_max(wide, val_reduce_op, idx_reduce_op)
        if isinstance(found, tuple):
            return _narrowed(self, found[0], kind), found[1]
        return _narrowed(self, found, kind) if val_reduce_op else found

    def generic_reduce(self, input: tuple[Tensor, ...]) -> list[Tensor]:  # noqa: A002
        if _branches(self.combine_fn):
            return super().generic_reduce(input)  # type: ignore[no-any-return]
        _, axis = _along(input[0].handle.data, self.axis)
        parts = [_along(one.handle.data, self.axis)[0] for one in input]
        kinds = [one.dtype for one in input]
        while parts[0].shape[axis] > 1:
            pairs = [_halves(part, axis) for part in parts]
            parts = _combined(self, kinds, [p[0] for p in pairs], [p[1] for p in pairs])
        return [self._packed(part, axis, one) for part, one in zip(parts, input, strict=True)]

    def _packed(self, data: Array, axis: int, source: Tensor) -> Tensor:
        """`data` has length 1 along `axis`."""
        if self.keep_dims:
            shape = data.shape if self.axis is not None else (1,) * len(source.shape)
            return self.to_tensor(data.reshape(shape), source.dtype)
        data = np.squeeze(data, axis)
        return self.to_tensor(data if data.shape else data.item(), source.dtype)


class Scan(stock.ScanOps):  # type: ignore[misc]
    """One `tl.associative_scan`."""

    def __init__(self, axis: Any, combine: Any, reverse: bool, rewritten: Combine) -> None:
        super().__init__(_plain(axis), combine, _plain(reverse))
        self._rewritten = rewritten

    def cumsum(self, input: Tensor) -> list[Tensor]:  # noqa: A002
        return [self._accumulated(np.cumsum, input)]

    def cumprod(self, input: Tensor) -> list[Tensor]:  # noqa: A002
        return [self._accumulated(np.cumprod, input)]

    def _accumulated(self, op: Any, one: Tensor) -> Tensor:
        kind = one.dtype.scalar
        if kind not in _NARROW:
            return self.to_tensor(op(one.handle.data, axis=self.axis), one.dtype)
        values = op(numerics.to_fp32(one.handle.data, kind), axis=self.axis)
        return self.to_tensor(numerics.convert(values, tl.float32, kind), one.dtype)

    def generic_scan(self, input: tuple[Tensor, ...]) -> list[Tensor]:  # noqa: A002
        if _branches(self.combine_fn):
            return super().generic_scan(input)  # type: ignore[no-any-return]
        axis = self.axis % input[0].handle.data.ndim
        parts = [one.handle.data.copy() for one in input]
        kinds = [one.dtype for one in input]
        length, step = parts[0].shape[axis], 1
        while step < length:
            # Whole blocks, because Triton's blocks have powers of two for sizes.
            merged = _combined(self, kinds, [np.roll(p, step, axis) for p in parts], parts)
            parts = [
                np.concatenate([_slice(part, axis, 0, step), _slice(new, axis, step, length)], axis)
                for part, new in zip(parts, merged, strict=True)
            ]
            step *= 2
        return [self.to_tensor(part, kind) for part, kind in zip(parts, kinds, strict=True)]


def _combined(
    operation: Any, kinds: list[Any], left: list[Array], right: list[Array]
) -> list[Array]:
    """The kernel's own combine function on whole slices at once."""
    tensors = (
        operation.to_tensor(np.ascontiguousarray(part), kind)
        for part, kind in zip([*left, *right], kinds * 2, strict=True)
    )
    results = operation._rewritten(*tensors)
    results = results if isinstance(results, tuple | tl.tuple) else (results,)
    return [
        result.handle.data.astype(part.dtype, copy=False).reshape(part.shape)
        for result, part in zip(results, left, strict=True)
    ]


@lru_cache(maxsize=256)
def _branches(combine: Any) -> bool:
    """Whether the combine function decides on single values, so that it must see one at a time."""
    return any(isinstance(node, _BRANCHES) for node in ast.walk(combine.parse()))


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, tl.constexpr) else value


def _along(data: Array, axis: int | None) -> tuple[Array, int]:
    return (data.reshape(-1), 0) if axis is None else (data, axis % data.ndim)


def _slice(data: Array, axis: int, start: int, stop: int) -> Array:
    return data[(slice(None),) * axis + (slice(start, stop),)]


def _halves(data: Array, axis: int) -> tuple[Array, Array]:
    middle = data.shape[axis] // 2
    return _slice(data, axis, 0, middle), _slice(data, axis, middle, 2 * middle)


def _narrowed(operation: Any, wide: Tensor, kind: Any) -> Tensor:
    data = numerics.convert(wide.handle.data, tl.float32, kind)
    return operation.to_tensor(data if wide.shape else data.item(), kind)
