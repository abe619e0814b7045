"""Operations on blocks as wholes: constants, shapes, products of matrices, gathers and histograms."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock

from kernelagent.tools.virtual.arithmetic.elementwise import make
from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.compiled_ir.elementwise import Pure
from kernelagent.tools.virtual.compiled_ir.held import builder, from_bits, to_bits, unsigned
from kernelagent.tools.virtual.compiled_ir.text import Operation, attribute, numbers
from kernelagent.tools.virtual.compiled_ir.types import Type, bits_of
from kernelagent.tools.virtual.compiled_ir.unknown import Unknown
from kernelagent.tools.virtual.operations.between_lanes import reordered

_PRECISION = stock._ir.INPUT_PRECISION
_PRECISIONS = {
    "tf32": _PRECISION.TF32,
    "tf32x3": _PRECISION.TF32x3,
    "ieee": _PRECISION.IEEE,
    "bf16x3": _PRECISION.BF16x3,
    "bf16x6": _PRECISION.BF16x6,
}


def constant(operation: Operation) -> Array:
    """`1 : i32`, `dense<0.5> : tensor<4xf32>`, `true`, `0x7F800000 : f32` and lists of these."""
    kind = operation.result_types[0]
    text = operation.body.partition(" : ")[0].strip()
    if text.startswith("dense"):
        inside = text[text.index("<") + 1 : text.rindex(">")].strip()
        if inside.startswith("["):
            flat = [_literal(part, kind) for part in re.findall(r"[^\[\],\s]+", inside)]
            return np.array(flat, kind.held).reshape(kind.shape)
        if inside.startswith('"'):
            raise Unknown("a constant in hexadecimal")
        return np.full(kind.held_shape, _literal(inside, kind), kind.held)
    return np.full(kind.held_shape, _literal(text, kind), kind.held)


def _literal(text: str, kind: Type) -> Any:
    if text in ("true", "false"):
        return text == "true"
    if not kind.is_float:
        value = int(text, 0)
        return value % 2 == 1 if kind.element == "i1" else value
    if not text.startswith("0x"):
        return float(text)
    bits = int(text, 16)
    match kind.element:
        case "f32":
            return struct.unpack("<f", struct.pack("<I", bits))[0]
        case "f64":
            return struct.unpack("<d", struct.pack("<Q", bits))[0]
    width = np.dtype(f"u{bits_of(kind.element) // 8}")
    held = np.array([bits], width)
    if kind.element == "f16":
        return held.view(np.float16)[0]
    return from_bits(held, kind.element)[0]


def _range(operation: Operation) -> Pure:
    start, end = (int(attribute(operation.attributes, name).split(":")[0]) for name in ("start", "end"))  # type: ignore[union-attr]  # fmt: skip
    values = np.arange(start, end, dtype=np.int32)
    return lambda: values


def _spread(operation: Operation) -> Pure:
    shape = operation.result_types[0].held_shape
    return lambda values: np.broadcast_to(values, shape)


def _expanded(operation: Operation) -> Pure:
    axis = int(attribute(operation.attributes, "axis").split(":")[0])  # type: ignore[union-attr]
    return lambda values: np.expand_dims(values, axis)


def _reshaped(operation: Operation) -> Pure:
    shape = operation.result_types[0].held_shape
    if "allow_reorder" in operation.body + operation.attributes and not operation.only_reduced:
        return lambda values: reordered(values.reshape(1, -1)).reshape(shape)
    return lambda values: values.reshape(shape)


def _turned(operation: Operation) -> Pure:
    order = numbers(attribute(operation.attributes, "order"))
    return lambda values: values.transpose(order)


def _by_turns(_: Operation) -> Pure:
    """As the interpreter has it: both blocks' elements take turns."""
    return lambda left, right: np.stack([left, right], axis=1).reshape(-1)


def _gathered(operation: Operation) -> Pure:
    axis = int(attribute(operation.attributes, "axis").split(":")[0])  # type: ignore[union-attr]

    def gathered(values: Array, indices: Array) -> Array:
        if indices.min() < 0 or indices.max() >= values.shape[axis]:
            raise Unknown("a gather that reaches out of its block")
        return np.take_along_axis(values, indices.astype(np.int64), axis)

    return gathered


def _counted(operation: Operation) -> Pure:
    made = operation.result_types[0]

    def counted(values: Array, mask: Array | None = None) -> Array:
        kept = values if mask is None else values[mask]
        if kept.size and (kept.min() < 0 or kept.max() >= made.shape[0]):
            raise Unknown("a histogram of numbers without a bin")
        bins: Array = np.bincount(kept, minlength=made.shape[0]).astype(made.held)
        return bins

    return counted


def _product(operation: Operation) -> Pure:
    left, right = operation.operand_types[:2]
    made = operation.result_types[0]
    name = re.search(r"inputPrecision = (\w+)", operation.body + operation.attributes)
    precision = _PRECISIONS.get(name[1].lower() if name else "ieee")

    def multiplied(a: Array, b: Array, total: Array) -> Array:
        if not left.is_float:
            return np.asarray(np.matmul(a, b, dtype=made.held) + total)
        handles = (
            make(to_bits(a, left.element), left.kind),
            make(to_bits(b, right.element), right.kind),
            make(to_bits(total, made.element), made.kind),
        )
        result = builder().create_dot(*handles, precision, 0).data
        return from_bits(result, made.element)

    return multiplied


_SCALED = re.compile(
    r"%\S+(?P<left> scale %\S+)?, %\S+(?P<right> scale %\S+)?, %\S+ lhs = (?P<one>\w+) rhs = (?P<other>\w+)"
)


def _scaled_product(operation: Operation) -> Pure:
    found = _SCALED.match(operation.body)
    if found is None:
        raise Unknown("the form of tt.dot_scaled")
    kinds, made = operation.operand_types, operation.result_types[0]
    formats = [
        getattr(stock._ir.ScaleDotElemTypeTY, found[name].upper()) for name in ("one", "other")
    ]
    packs = [f"{side}_k_pack = false" not in operation.attributes for side in ("lhs", "rhs")]
    fast = "fastMath = true" in operation.attributes

    def multiplied(*values: Array) -> Array:
        # The accumulator's type is that of the result, and follows no operand's.
        handles = [
            make(to_bits(item, kind.element), kind.kind)
            if kind.is_float
            else make(unsigned(np.ascontiguousarray(item)), tl.uint8)
            for item, kind in zip(values, (*kinds, made), strict=False)
        ]
        waiting = iter(handles)
        left, left_scale = next(waiting), next(waiting) if found["left"] else None
        right, right_scale = next(waiting), next(waiting) if found["right"] else None
        result = builder().create_dot_scaled(
            left,
            left_scale,
            formats[0],
            right,
            right_scale,
            formats[1],
            fast,
            *packs,
            next(waiting),
        )
        return from_bits(result.data, made.element)

    return multiplied


def _nothing(_: Operation) -> Pure:
    return lambda *values: ()


def _poison(operation: Operation) -> Pure:
    kind = operation.result_types[0]
    return lambda: np.zeros(kind.held_shape, kind.held)


PURE: dict[str, Callable[[Operation], Pure]] = {
    "tt.make_range": _range,
    "tt.splat": _spread,
    "tt.broadcast": _spread,
    "tt.expand_dims": _expanded,
    "tt.reshape": _reshaped,
    "tt.trans": _turned,
    "tt.cat": _by_turns,
    "tt.join": lambda _: lambda left, right: np.stack([left, right], axis=-1),
    "tt.split": lambda _: lambda values: (values[..., 0], values[..., 1]),
    "tt.unsplat": lambda _: lambda values: values.reshape(-1)[:1],
    "tt.gather": _gathered,
    "tt.histogram": _counted,
    "tt.dot": _product,
    "tt.dot_scaled": _scaled_product,
    "ub.poison": _poison,
    "tt.print": _nothing,
    "tt.assert": _nothing,
    "ttg.barrier": _nothing,
    "tt.grid_dependency_wait": _nothing,
    "tt.grid_dependency_launch_dependents": _nothing,
    "gpu.barrier": _nothing,
    "llvm.intr.assume": _nothing,
}
"""By name: what makes an operation's function."""
