"""Cheaper constructors for Triton's tensors and types, which the interpreter makes by the thousand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl

_POINTER = np.dtype(np.uint64)


def memoised_dtype(slow: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`_get_np_dtype`, which builds a table of nineteen types on each call."""
    known: dict[str, Any] = {}

    def fast(kind: Any) -> Any:
        scalar = kind.element_ty if isinstance(kind, tl.block_type) else kind
        if isinstance(scalar, tl.pointer_type):
            return _POINTER
        found = known.get(scalar.name)
        if found is None:
            found = known[scalar.name] = slow(scalar)
        return found

    return fast


def block_type_init(slow: Callable[..., None]) -> Callable[..., None]:
    """`block_type.__init__`, which validates its shape and spells its name each time."""
    known: dict[Any, Any] = {}

    def fast(self: Any, element_ty: Any, shape: Any) -> None:
        key = element_ty.name, *[s.value if isinstance(s, tl.constexpr) else s for s in shape]
        found = known.get(key)
        if found is None:
            slow(self, element_ty, shape)
            known[key] = self.shape, self.numel, self.name
            return
        self.element_ty = element_ty
        self.shape, self.numel, self.name = found

    return fast


def tensor_init(slow: Callable[..., None]) -> Callable[..., None]:
    """`tensor.__init__`, which wraps every size of its shape anew."""
    known: dict[Any, Any] = {}

    def fast(self: Any, handle: Any, type: Any) -> None:  # noqa: A002 - Triton's name
        key = tuple(type.shape.values) if isinstance(type, tl.block_type) else ()
        found = known.get(key)
        if found is None:
            slow(self, handle, type)
            known[key] = self.shape, self.numel
            return
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape, self.numel = found

    return fast
