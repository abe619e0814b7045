"""What differs between the versions of Triton that the virtual device stands on, in one place.

Up to 3.8 Triton's interpreter calls its builder otherwise and computes some operations otherwise than
the GPU; `InterpreterBuilder`, `ReduceOps` and `ScanOps` here are those of 3.9, or the older ones with
these operations put right. Chained comparisons (`a < b < c`) compile from 3.9 on only, so that an
older Triton never gets to interpret one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton
import triton.language as tl
from triton.runtime import interpreter as stock

Handle = Any
TRIED = ((3, 6), (3, 7), (3, 8), (3, 9))
"""Minor versions under which the examples and the tests of the virtual device were run."""


def version(text: str = triton.__version__) -> tuple[int, int]:
    """Major and minor version; raises ValueError for a text that does not begin with two numbers."""
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def why_not(version: tuple[int, int], text: str = triton.__version__) -> str | None:
    """Why the virtual device does not work with this version of Triton; None when it does."""
    if version in TRIED:
        return None
    spelled = ", ".join(f"{major}.{minor}" for major, minor in TRIED)
    return f"it needs triton {spelled}, and {text} is installed"


_OLD = version() < (3, 9)
NEGATES = version() >= (3, 8)
"""Whether the builder has an operation for a minus sign: before, it was a difference from zero."""
SCALES = version() >= (3, 8)
"""Whether Triton's interpreter executes products of scaled numbers (`tl.dot_scaled`)."""


def place_of(kernel: Any) -> tuple[str, int]:
    """The file of a jit function and the line of its `def`."""
    if hasattr(kernel, "def_file_line_number"):
        return str(kernel.file_name), int(kernel.def_file_line_number)
    from triton.runtime.jit import get_jit_fn_file_line

    file, line = get_jit_fn_file_line(kernel)
    return str(file), int(line)


def names_in_rewritten_code(semantic: Any) -> dict[str, Any]:
    """What the code made by Triton's rewriting of a kernel refers to."""
    names = {"interpreter_semantic": semantic}
    if hasattr(stock, "_InterpreterComparison"):
        names["_InterpreterComparison"] = stock._InterpreterComparison
    return names


def patch_tensor(tensor: Any, scope: Any) -> None:
    """Triton's patches of `tensor`; older ones make an index of an array with one element, not of a number."""
    stock._patch_lang_tensor(tensor, scope)
    if _OLD:
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.squeeze()))


def converted(value: Any) -> Any:
    """A launch argument as the kernel sees it; older versions make a 32-bit integer of a boolean."""
    if isinstance(value, bool):
        return tl.tensor(stock.TensorHandle(np.array([value], np.bool_), tl.int1), tl.int1)
    return stock._implicit_cvt(value)


def called_with_cache_policy(builder: type[Any]) -> type[Any]:
    """A builder written for 3.9, whose loads and stores older versions call with two words for one.

    They give the cache modifier and the eviction policy apart, and masks of block pointers as arrays. Only the
    methods that this class has itself are changed.
    """
    for name, adapted in _OLDER_CALLS.items() if _OLD else ():
        if name in vars(builder):
            setattr(builder, name, adapted(vars(builder)[name]))
    return builder


def _older_load(load: Callable[..., Handle]) -> Callable[..., Handle]:
    def create_load(
        self: Any, ptr: Handle, cache_modifier: Any, eviction_policy: Any, is_volatile: Any
    ) -> Handle:
        return load(self, ptr, None, is_volatile)

    return create_load


def _older_store(store: Callable[..., None]) -> Callable[..., None]:
    def create_store(
        self: Any, ptr: Handle, value: Handle, cache_modifier: Any, eviction_policy: Any
    ) -> None:
        store(self, ptr, value, None)

    return create_store


def _older_masked_load(load: Callable[..., Handle]) -> Callable[..., Handle]:
    def create_masked_load(
        self: Any, ptrs: Handle, mask: Any, other: Any,
        cache_modifier: Any, eviction_policy: Any, is_volatile: Any,
    ) -> Handle:  # fmt: skip
        return load(self, ptrs, _mask(mask), other, None, is_volatile)

    return create_masked_load


def _older_masked_store(store: Callable[..., None]) -> Callable[..., None]:
    def create_masked_store(
        self: Any, ptrs: Handle, value: Handle, mask: Any, cache_modifier: Any, eviction_policy: Any
    ) -> None:
        store(self, ptrs, value, _mask(mask), None)

    return create_masked_store


_OLDER_CALLS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "create_load": _older_load,
    "create_store": _older_store,
    "create_masked_load": _older_masked_load,
    "create_masked_store": _older_masked_store,
}


def _mask(mask: Any) -> Handle:
    return stock.TensorHandle(mask, tl.int1) if isinstance(mask, np.ndarray) else mask


class RightBuilder(stock.InterpreterBuilder):  # type: ignore[misc]
    """An older builder with the operations put right that it computes otherwise than the GPU."""

    def get_bf16(self, value: Any) -> Handle:
        return self.create_fp_trunc(self.get_fp32(value), tl.bfloat16)

    def get_all_ones_value(self, type: Any) -> Handle:  # noqa: A002 - Triton's name
        kind = np.dtype(stock._get_np_dtype(type))
        if kind.kind not in "iu":
            return super().get_all_ones_value(type)
        ones = np.zeros(1, dtype=kind)
        return stock.TensorHandle(np.invert(ones), type.scalar)

    def create_ashr(self, lhs: Handle, rhs: Handle) -> Handle:
        # The older one changes its operands' own type.
        sides = [
            stock.TensorHandle(
                side.data.astype(stock._get_signed_np_dtype(side.data.dtype)), side.dtype
            )
            for side in (lhs, rhs)
        ]
        return self.binary_op(*sides, np.right_shift)

    def create_minnumf(self, lhs: Handle, rhs: Handle) -> Handle:
        return self.binary_op(lhs, rhs, np.fmin)

    def create_maxnumf(self, lhs: Handle, rhs: Handle) -> Handle:
        return self.binary_op(lhs, rhs, np.fmax)

    def create_clampf(self, arg: Handle, low: Handle, high: Handle, propagate_nans: Any) -> Handle:
        if propagate_nans == stock._ir.PROPAGATE_NAN.NONE:
            return self.create_minnumf(self.create_maxnumf(arg, low), high)
        return self.ternary_op(arg, low, high, np.clip)

    def create_fma(self, x: Handle, y: Handle, z: Handle) -> Handle:
        # The product of two fp32 numbers is exact in fp64; only the sum is rounded twice.
        kind = z.data.dtype
        if kind == np.float64:
            return stock.TensorHandle(x.data * y.data + z.data, z.dtype.scalar)
        product = np.multiply(x.data, y.data, dtype=np.float64)
        total = np.add(product, z.data, dtype=np.float64).astype(kind)
        return stock.TensorHandle(total, z.dtype.scalar)

    def create_fp_to_fp(self, src: Handle, dst_type: Any, rounding_mode: Any) -> Handle:
        if {src.dtype.scalar, dst_type.scalar} == {tl.bfloat16, tl.float16}:
            return self.cast_impl(self.cast_impl(src, tl.float32), dst_type)
        return super().create_fp_to_fp(src, dst_type, rounding_mode)

    def create_histogram(self, data: Handle, bins: int, mask: Handle | None) -> Handle:
        # What lies beyond the last bin counts nowhere; the older one counts it in the last.
        wanted = data.data < bins
        if mask is not None:
            wanted = wanted & mask.data
        counts = np.bincount(data.data[wanted].astype(np.int64), minlength=bins)
        return stock.TensorHandle(counts.astype(np.int32), tl.int32)

    def create_umulhi(self, lhs: Handle, rhs: Handle) -> Handle:
        kind = lhs.data.dtype
        unsigned = np.dtype(f"u{kind.itemsize}")
        left, right = (side.data.astype(kind).view(unsigned) for side in (lhs, rhs))
        if kind.itemsize == 8:
            wide = left.astype(object) * right.astype(object)
            high = np.asarray(wide // (1 << 64)).astype(unsigned)
        else:
            double = np.dtype(f"u{2 * kind.itemsize}")
            product = np.multiply(left.astype(double), right.astype(double))
            high = (product >> (8 * kind.itemsize)).astype(unsigned)
        return stock.TensorHandle(high.view(kind), lhs.dtype.scalar)


class _RightReduceOps(stock.ReduceOps):  # type: ignore[misc]
    """An older reduction that neither lets a NaN win nor refuses an integer that has to wrap."""

    def to_tensor(self, ret: Any, dtype: Any) -> Any:
        return super().to_tensor(narrowed(ret, dtype), dtype)

    def apply_impl(self, input: Any) -> Any:  # noqa: A002 - the name Triton's method has
        standard = tl.standard
        least = (standard._argmin_combine_tie_break_left, standard._argmin_combine_tie_break_fast)
        most = (standard._argmax_combine_tie_break_left, standard._argmax_combine_tie_break_fast)
        if any(self.combine_fn is item for item in least):
            return self.min_max(input[0], val_reduce_op=np.nanmin, idx_reduce_op=np.nanargmin)
        if any(self.combine_fn is item for item in most):
            return self.min_max(input[0], val_reduce_op=np.nanmax, idx_reduce_op=np.nanargmax)
        return super().apply_impl(input)


class _RightScanOps(stock.ScanOps):  # type: ignore[misc]
    """An older scan whose reversed results lie in memory as others do."""

    def to_tensor(self, ret: Any, dtype: Any) -> Any:
        flat = np.ascontiguousarray(ret) if getattr(ret, "shape", ()) else narrowed(ret, dtype)
        return super().to_tensor(flat, dtype)

    def apply_impl(self, input: Any) -> Any:  # noqa: A002 - the name Triton's method has
        results = super().apply_impl(input)
        for result in results:
            result.handle.data = np.ascontiguousarray(result.handle.data)
        return results


def narrowed(value: Any, dtype: Any) -> Any:
    """A single integer as the type that it will have, wrapped as on the GPU; the rest as it is."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return np.array([value]).astype(stock._get_np_dtype(dtype))[0]
    return value


InterpreterBuilder: Any = RightBuilder if _OLD else stock.InterpreterBuilder
ReduceOps: Any = _RightReduceOps if _OLD else stock.ReduceOps
ScanOps: Any = _RightScanOps if _OLD else stock.ScanOps
