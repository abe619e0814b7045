"""`tl.reduce` and `tl.associative_scan` on numpy arrays, in trees, as a GPU forms them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock

from kernelagent.tools.virtual import triton_versions
from kernelagent.tools.virtual.arithmetic import numerics, trees
from kernelagent.tools.virtual.arithmetic.associativity import require_associative
from kernelagent.tools.virtual.arithmetic.nans import canonical
from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.arithmetic.orders import ORDER, Scanning

Tensor = Any
_NARROW = numerics.HALVES
_ANY_OF_EQUALS = (
    tl.standard._argmin_combine_tie_break_fast,
    tl.standard._argmax_combine_tie_break_fast,
)


_WITH_INDICES = (
    *_ANY_OF_EQUALS,
    tl.standard._argmin_combine_tie_break_left,
    tl.standard._argmax_combine_tie_break_left,
)


class _Held:
    """How tensors hold their data: here without an axis for programs, so that one is put in front."""

    uncounted: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    """In it nothing is counted that the kernel does."""

    def lifted(self, tensor: Tensor) -> Array:
        """The data as (programs, *shape)."""
        held: Array = tensor.handle.data[None]
        return held

    def lowered(self, data: Array, kind: Any) -> Tensor:
        """A tensor of `kind` from (programs, *shape)."""
        held = np.asarray(data[0]).astype(stock._get_np_dtype(kind), copy=False)
        if held.ndim == 0:
            return tl.core.tensor(stock.TensorHandle(held.reshape(1), kind.scalar), kind)
        block = tl.block_type(kind, list(held.shape))
        return tl.core.tensor(stock.TensorHandle(held, kind.scalar), block)

    def one_by_one(self, slow: Callable[[], Any]) -> Any:
        """For a combine function that decides on single values."""
        return slow()


class Reduction(_Held, triton_versions.ReduceOps):  # type: ignore[misc]
    """One `tl.reduce`; 16-bit floats are rounded after each step, as in the hardware's tree."""

    def __init__(
        self, axis: Any, combine: Any, keep_dims: bool, rewritten: Callable[..., Any]
    ) -> None:
        super().__init__(_plain(axis), combine, _plain(keep_dims))
        self._rewritten = rewritten

    def apply_impl(self, input: Any) -> Any:  # noqa: A002 - the name Triton's method has
        """Which index is beside a NaN depends on the order in which the machine compares: no comparison holds."""
        if self.combine_fn in _WITH_INDICES and _has_nan(input[0]):
            return tuple(self._in_a_tree(input))
        return super().apply_impl(input)

    def sum(self, input: Tensor) -> Tensor:  # noqa: A002 - the name Triton's method has
        kind = input.dtype.scalar
        held, axis = self._along(input)
        if kind not in _NARROW:
            values = trees.reduced(held, axis, trees.add, self._order(input, held, axis))
            values = canonical(values, kind)
            return self._packed(values, axis, input, input.dtype)

        def rounded(left: Array, right: Array) -> Array:
            return numerics.to_fp32(numerics.convert(left + right, tl.float32, kind), kind)

        wide = numerics.to_fp32(held, kind)
        values = trees.reduced(wide, axis, rounded, self._order(input, held, axis))
        narrow = numerics.convert(values, tl.float32, kind)
        return self._packed(narrow, axis, input, input.dtype)

    def min_max(self, input: Any, val_reduce_op: Any, idx_reduce_op: Any = None) -> Any:  # noqa: A002
        first = input[0] if isinstance(input, tuple) else input
        kind = first.dtype.scalar
        held, axis = self._along(first)
        wide = kind in (tl.bfloat16, *numerics.FP8)
        values = numerics.to_fp32(held, kind) if wide else held
        result = []
        if val_reduce_op:
            ufunc = np.fmax if val_reduce_op is np.nanmax else np.fmin
            best = canonical(ufunc.reduce(values, axis=axis, keepdims=True), kind)
            best = numerics.convert(best, tl.float32, kind) if wide else best
            result.append(self._packed(best, axis, first, first.dtype))
        if idx_reduce_op:
            place = self._place(values, idx_reduce_op, axis)
            result.append(self._packed(place, axis, first, tl.int32))
        return tuple(result) if len(result) > 1 else result[0]

    def _place(self, values: Array, first: Any, axis: int) -> Array:
        """Of equal values the first, or the last where the kernel takes any: a GPU's order is its own."""
        if self.combine_fn not in _ANY_OF_EQUALS:
            return np.asarray(first(values, axis=axis, keepdims=True))
        turned = first(np.flip(values, axis), axis=axis, keepdims=True)
        return np.asarray(values.shape[axis] - 1 - turned)

    def generic_reduce(self, input: tuple[Tensor, ...]) -> list[Tensor]:  # noqa: A002
        return self._in_a_tree(input, looked_at=True)

    def _in_a_tree(self, inputs: tuple[Tensor, ...], *, looked_at: bool = False) -> list[Tensor]:
        """By the combine function; `looked_at`: refused where that gives another result in another order."""
        axis = self._along(inputs[0])[1]
        kinds = [item.dtype for item in inputs]
        parts = _of_the_same_programs([self._along(item)[0] for item in inputs])

        def combine(left: list[Array], right: list[Array]) -> list[Array]:
            return _combined(self, kinds, left, right)

        if looked_at:
            with self.uncounted():
                require_associative(self.combine_fn, combine, parts, kinds, axis)
        order = self._order(inputs[0], parts[0], axis)
        parts = trees.reduced_together(parts, axis, combine, order)
        return [
            self._packed(part, axis, item, item.dtype)
            for part, item in zip(parts, inputs, strict=True)
        ]

    def _order(self, tensor: Tensor, held: Array, axis: int) -> tuple[int, ...]:
        shape = tuple(int(size) for size in tensor.shape)
        return ORDER.bits(shape, None if self.axis is None else axis - 1, held.shape[axis])

    def _along(self, tensor: Tensor) -> tuple[Array, int]:
        data = self.lifted(tensor)
        if self.axis is None:
            return data.reshape(data.shape[0], -1), 1
        return data, 1 + self.axis % (data.ndim - 1)

    def _packed(self, data: Array, axis: int, source: Tensor, kind: Any) -> Tensor:
        """`data` has length 1 along `axis`."""
        if not self.keep_dims:
            return self.lowered(np.squeeze(data, axis), kind)
        if self.axis is None:
            data = data.reshape((data.shape[0],) + (1,) * len(source.shape))
        return self.lowered(data, kind)


def _of_the_same_programs(parts: list[Array]) -> list[Array]:
    """What is the same for all programs, as places are, stands once until it is combined with what is not."""
    programs = max(len(item) for item in parts)
    return [
        item if len(item) == programs else np.broadcast_to(item, (programs, *item.shape[1:]))
        for item in parts
    ]


def _has_nan(tensor: Tensor) -> bool:
    kind = tensor.dtype.scalar
    if not kind.is_floating():
        return False
    held = tensor.handle.data
    wide = numerics.to_fp32(held, kind) if kind in (tl.bfloat16, *numerics.FP8) else held
    return bool(np.isnan(wide).any())


class Scan(_Held, triton_versions.ScanOps):  # type: ignore[misc]
    """One `tl.associative_scan`."""

    def __init__(
        self, axis: Any, combine: Any, reverse: bool, rewritten: Callable[..., Any]
    ) -> None:
        super().__init__(_plain(axis), combine, _plain(reverse))
        self._rewritten = rewritten

    def apply_impl(self, input: tuple[Tensor, ...]) -> list[Tensor]:  # noqa: A002
        kinds = [item.dtype for item in input]
        parts = _of_the_same_programs([self.lifted(item) for item in input])
        axis = 1 + self.axis % (parts[0].ndim - 1)
        known = _SCANS.get(self.combine_fn)
        if self.reverse:
            parts = [np.flip(item, axis) for item in parts]
        if known is not None:
            parts = [
                _accumulated(known, parts[0], kinds[0].scalar, axis, self._cut(parts[0], axis))
            ]
        else:
            parts = self._own(parts, kinds, axis)
        if self.reverse:
            parts = [np.ascontiguousarray(np.flip(item, axis)) for item in parts]
        return [self.lowered(item, kind) for item, kind in zip(parts, kinds, strict=True)]

    def _cut(self, held: Array, axis: int) -> Scanning | None:
        return ORDER.scanning(held.shape[1:], axis - 1, held.shape[axis])

    def _own(self, parts: list[Array], kinds: list[Any], axis: int) -> list[Array]:
        parts = [np.array(item) for item in parts]

        def combine(left: list[Array], right: list[Array]) -> list[Array]:
            return _combined(self, kinds, left, right)

        with self.uncounted():
            require_associative(self.combine_fn, combine, parts, kinds, axis)
        cut = self._cut(parts[0], axis)
        if cut is not None:
            return trees.scanned_by_threads(parts, axis, combine, cut)
        length, step = parts[0].shape[axis], 1
        while step < length:
            # Whole blocks, because Triton's blocks have powers of two for sizes.
            merged = combine([np.roll(item, step, axis) for item in parts], parts)
            parts = [
                np.concatenate(
                    [trees.part(old, axis, 0, step), trees.part(new, axis, step, length)], axis
                )
                for old, new in zip(parts, merged, strict=True)
            ]
            step *= 2
        return parts


_SCANS: dict[Any, trees.Combine] = {
    tl.standard._sum_combine: trees.add,
    tl.standard._prod_combine: np.multiply,
}


def _accumulated(
    combine: trees.Combine, data: Array, kind: Any, axis: int, cut: Scanning | None
) -> Array:
    """A running sum or product; 16-bit floats are carried in fp32, as Triton's scan of them is."""
    narrow = kind in _NARROW
    wide = numerics.to_fp32(data, kind) if narrow else data
    if cut is None:
        result = trees.scanned(wide, axis, combine)
    else:
        (result,) = trees.scanned_by_threads(
            [wide], axis, lambda left, right: [combine(left[0], right[0])], cut
        )
    return numerics.convert(result, tl.float32, kind) if narrow else canonical(result, kind)


def _combined(
    operation: Any, kinds: list[Any], left: list[Array], right: list[Array]
) -> list[Array]:
    """The kernel's own combine function, on whole slices at once unless it decides on single values."""
    try:
        with _undecided():
            return _at_once(operation, kinds, left, right)
    except _Decides:
        return operation.one_by_one(  # type: ignore[no-any-return]
            lambda: _element_by_element(operation, kinds, left, right)
        )


class _Decides(Exception):
    """The combine function branches on a value of a block."""


@contextlib.contextmanager
def _undecided() -> Iterator[None]:
    known = tl.tensor.__bool__

    def truth(self: Any) -> bool:
        if self.type.is_block():
            raise _Decides
        return bool(known(self))

    tl.tensor.__bool__ = truth
    try:
        yield
    finally:
        tl.tensor.__bool__ = known


def _at_once(
    operation: Any, kinds: list[Any], left: list[Array], right: list[Array]
) -> list[Array]:
    tensors = (
        operation.lowered(np.ascontiguousarray(part), kind)
        for part, kind in zip([*left, *right], kinds * 2, strict=True)
    )
    results = operation._rewritten(*tensors)
    results = results if isinstance(results, tuple | tl.tuple) else (results,)
    return [
        np.broadcast_to(operation.lifted(result).astype(part.dtype, copy=False), part.shape)
        for result, part in zip(results, left, strict=True)
    ]


def _element_by_element(
    operation: Any, kinds: list[Any], left: list[Array], right: list[Array]
) -> list[Array]:
    out = [np.empty_like(part) for part in left]
    for place in np.ndindex(left[0].shape):
        single = [[part[place].reshape(1) for part in side] for side in (left, right)]
        for part, value in zip(out, _at_once(operation, kinds, *single), strict=True):
            part[place] = value.reshape(-1)[0]
    return out


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, tl.constexpr) else value
