"""Faster versions of frequent interpreter operations: making tensors and types, comparing shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton
import triton.language as tl
from triton.language.semantic import TritonSemantic

from kernelagent.tools.virtual import triton_versions
from kernelagent.tools.virtual.executor.launch import Unsupported

_PLAIN = frozenset({int, float, bool, str, type(None), tl.tensor, tl.dtype, tl.block_type})
"""Types of which no value holds a constexpr."""
BINARY = frozenset(
    f"__{side}{name}__"
    for name in "add sub mul mod truediv floordiv gt ge lt le eq ne and or xor lshift rshift pow".split()
    for side in ("", "r")
)
"""The names of Python's operators of two values."""
_POINTER = np.dtype(np.uint64)


def memoised_dtype(slow: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`_get_np_dtype`, which builds a table of nineteen types on each call."""
    known: dict[str, Any] = {}

    def fast(kind: Any) -> Any:
        scalar = kind.element_ty if isinstance(kind, tl.block_type) else kind
        if isinstance(scalar, tl.pointer_type):
            return _POINTER
        result = known.get(scalar.name)
        if result is None:
            result = known[scalar.name] = slow(scalar)
        return result

    return fast


def block_type_init(slow: Callable[..., None]) -> Callable[..., None]:
    """`block_type.__init__`, which validates its shape and spells its name each time."""
    known: dict[Any, Any] = {}

    def fast(self: Any, element_ty: Any, shape: Any) -> None:
        key = element_ty.name, *[s.value if isinstance(s, tl.constexpr) else s for s in shape]
        result = known.get(key)
        if result is None:
            slow(self, element_ty, shape)
            known[key] = self.shape, self.numel, self.name
            return
        self.element_ty = element_ty
        self.shape, self.numel, self.name = result

    return fast


def tensor_init(slow: Callable[..., None]) -> Callable[..., None]:
    """`tensor.__init__`, which wraps every size of its shape anew."""
    known: dict[Any, Any] = {}

    def fast(self: Any, handle: Any, type: Any) -> None:  # noqa: A002 - Triton's name
        key = tuple(type.shape.values) if isinstance(type, tl.block_type) else ()
        result = known.get(key)
        if result is None:
            slow(self, handle, type)
            known[key] = self.shape, self.numel
            return
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape, self.numel = result

    return fast


def of_tensors(operator: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """An operator of a `tl.constexpr` whose result with a tensor is a tensor, as the compiler has it, and no constexpr."""

    def applied(self: Any, other: Any) -> Any:
        result = operator(self, other)
        return result.value if isinstance(other, tl.tensor) else result

    return applied


def as_method(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of Triton's library that a tensor has as an attribute: the compiler binds it, Python would not."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    return method


def unwrap_if_constexpr(slow: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`_unwrap_if_constexpr`, which asks each value whether it is one of four containers."""

    def fast(value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        return value.value if kind is tl.constexpr else slow(value)

    return fast


def tuple_eq(slow: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`tuple.__eq__`, which makes a copy of the other side, element by element."""

    def fast(self: Any, other: Any) -> Any:
        if type(other) is tl.tuple:
            return tl.constexpr(self.values == other.values)
        return slow(self, other)

    return fast


class QuickSemantic(TritonSemantic):  # type: ignore[misc]
    """Triton's rules of types and shapes; operands of one shape are seen to fit at once."""

    def dot_scaled(self, *given: Any, **named: Any) -> Any:
        if not triton_versions.SCALES:
            raise Unsupported(
                "tl.dot_scaled is executed on the virtual device from Triton 3.8 on, and "
                f"{triton.__version__} is installed; evaluate with --device cuda"
            )
        return super().dot_scaled(*given, **named)

    def to_tensor(self, x: Any, check_type: bool = True) -> Any:
        if not check_type and isinstance(x, tuple | tl.tuple):
            return self._of_tensors(x)
        return super().to_tensor(x, check_type)

    def _of_tensors(self, given: Any) -> Any:
        """What a name is bound to by an assignment of a tuple: compiled code makes tensors of the numbers in it."""
        parts = [None if part is None else self.to_tensor(part, False) for part in given]
        if not isinstance(given, tl.tuple):
            return type(given)(*parts) if hasattr(given, "_fields") else tuple(parts)
        held = [tl.constexpr(None) if part is None else part for part in parts]
        types = [getattr(part, "type", None) for part in held]
        return tl.tuple(held, tl.tuple_type(types, given.type.fields))

    def broadcast_impl_value(self, lhs: Any, rhs: Any) -> Any:
        left, right = lhs.type, rhs.type
        if left.is_block() and right.is_block() and left.shape.values == right.shape.values:
            return lhs, rhs
        return super().broadcast_impl_value(lhs, rhs)
