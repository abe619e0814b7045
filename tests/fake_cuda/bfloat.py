"""bfloat16 for the interpreter, which stores it as 16-bit integers and would compute with those.

As on a GPU: operations widen to float32, whose results are rounded to the nearest, ties to even.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np


def widened(bits: Any) -> Any:
    """bfloat16, as it is stored, to float32."""
    return (np.asarray(bits).astype(np.uint32) << 16).view(np.float32)


def rounded(values: Any) -> Any:
    """float32 to bfloat16, as it is stored."""
    values = np.asarray(values, dtype=np.float32)
    bits = values.view(np.uint32)
    nearest = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(values), np.uint32(0x7FC0), nearest).astype(np.uint16)


@functools.cache
def replacements() -> list[tuple[Any, str, Any]]:
    """What is put in the place of the interpreter's own methods while a kernel is interpreted."""
    import triton.language as tl
    from triton.runtime import interpreter

    own, handle_of = interpreter.InterpreterBuilder, interpreter.TensorHandle

    def is_bf16(one: Any) -> bool:
        return bool(one.dtype.scalar == tl.bfloat16)

    def in_float32(one: Any) -> Any:
        return handle_of(widened(one.data), tl.float32) if is_bf16(one) else one

    def narrowed(made: Any) -> Any:
        # Comparisons are kept as they come out.
        data = made.data if made.data.dtype == np.bool_ else rounded(made.data)
        return handle_of(data, tl.bfloat16)

    def computed(name: str) -> Any:
        known = getattr(own, name)

        def method(self: Any, *given: Any) -> Any:
            if not any(isinstance(one, handle_of) and is_bf16(one) for one in given):
                return known(self, *given)
            wide = (in_float32(one) if isinstance(one, handle_of) else one for one in given)
            return narrowed(known(self, *wide))

        return method

    def cast(name: str) -> Any:
        known = getattr(own, name)

        def method(self: Any, src: Any, kind: Any, *rest: Any) -> Any:
            if is_bf16(src):
                src = in_float32(src)
                if kind.scalar == tl.float32:
                    return src
            if kind.scalar != tl.bfloat16:
                return known(self, src, kind, *rest)
            return handle_of(rounded(src.data.astype(np.float32)), tl.bfloat16)

        return method

    product, select = own.create_dot, own.ternary_op

    def dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        return product(self, in_float32(a), in_float32(b), *rest)

    def ternary(self: Any, first: Any, second: Any, third: Any, op: Any) -> Any:
        if op is not np.clip or not is_bf16(first):
            return select(self, first, second, third, op)
        wide = (in_float32(one) for one in (first, second, third))
        return narrowed(select(self, *wide, op))

    def constant(self: Any, value: float) -> Any:
        return handle_of(rounded(np.array([value])), tl.bfloat16)

    return [
        *((own, name, computed(name)) for name in ("binary_op", "create_fma")),
        *((own, name, cast(name)) for name in ("cast_impl", "create_fp_to_fp")),
        (own, "create_dot", dot),
        (own, "ternary_op", ternary),
        (own, "get_bf16", constant),
    ]
