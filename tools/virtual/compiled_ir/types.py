"""The types of Triton IR, read from its text, and how numpy holds their values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import triton.language as tl

from kernelagent.tools.virtual.compiled_ir.unknown import Unknown

NARROW = {
    "bf16": tl.bfloat16,
    "f8E4M3FN": tl.float8e4nv,
    "f8E4M3FNUZ": tl.float8e4b8,
    "f8E5M2": tl.float8e5,
    "f8E5M2FNUZ": tl.float8e5b16,
    "f8E4M3B11FNUZ": tl.float8e4b15,
}
"""Formats that numpy lacks: their values are held in fp32, their bits in memory."""
FLOATS = {"f16": tl.float16, "f32": tl.float32, "f64": tl.float64, **NARROW}
_HELD: dict[str, Any] = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "index": np.int64,
    "ptr": np.int64,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
}
_SHAPED = re.compile(r"(?:tensor)?<((?:\d+x)*)(.+)>\Z")
_SIGNS = {"si": "i", "ui": "i"}


@dataclass(frozen=True)
class Type:
    """A number, a pointer, or a block of them."""

    element: str
    """As the text has it; `ptr` for every pointer."""
    shape: tuple[int, ...] = ()
    """Of a block; empty for one value, which is held as an array of length 1."""
    is_block: bool = False
    pointee: str = ""
    """What a pointer points at."""
    is_descriptor: bool = False

    @property
    def held_shape(self) -> tuple[int, ...]:
        return self.shape if self.is_block else (1,)

    @property
    def held(self) -> Any:
        """numpy's type of its values."""
        return held_as(self.element)

    @property
    def kind(self) -> Any:
        """Triton's type of a floating point number."""
        return FLOATS[self.element]

    @property
    def is_float(self) -> bool:
        return self.element in FLOATS

    def of(self, element: str) -> Type:
        """The same shape of other elements."""
        return Type(element, self.shape, self.is_block)


def held_as(element: str) -> Any:
    """numpy's type for values of an element type."""
    if element in NARROW:
        return np.float32
    if element not in _HELD:
        raise Unknown(f"the type {element}")
    return _HELD[element]


def bits_of(element: str) -> int:
    """Bits in memory of one element."""
    if element in FLOATS:
        return int(FLOATS[element].primitive_bitwidth)
    return 8 if element == "i1" else np.dtype(held_as(element)).itemsize * 8


@cache
def read_type(text: str) -> Type:
    """A type as the text spells it."""
    text = text.strip()
    if text.startswith("!tt.ptr<"):
        inside = text[len("!tt.ptr<") : -1]
        pointee = inside.partition(",")[0].strip()
        return Type("ptr", pointee="ptr" if pointee.startswith("!tt.ptr") else pointee)
    if text.startswith("!tt.tensordesc<"):
        block = read_type(text[len("!tt.tensordesc") :])
        return Type(block.element, block.shape, is_block=True, is_descriptor=True)
    shaped = _SHAPED.match(text)
    if shaped is None:
        return Type(text)
    inner = shaped[2]
    if inner.startswith("tensor<"):
        return read_type(inner)
    shape = tuple(int(size) for size in shaped[1].split("x") if size)
    if inner[:2] in _SIGNS:
        inner = _SIGNS[inner[:2]] + inner[2:]
    element = read_type(inner)
    return Type(element.element, shape, is_block=True, pointee=element.pointee)
