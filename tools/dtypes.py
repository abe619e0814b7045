"""The floating-point types: one row for each, which every place that treats them differently reads.

A further type is a further row. What a number format means bit by bit is `virtual/numerics`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class FloatType:
    """What is known of a floating-point type beside `torch.finfo`."""

    torch: torch.dtype
    triton: str | None
    """Its name in `triton.language`; None where Triton has no such type."""
    product: str
    """How its matrix products are named in tables of peak rates; `fp32` may be computed as `tf32`."""
    numpy: type[np.floating[Any]] | None = None
    """None: numpy has no such type, its bits are held as integers."""
    range_of_float32: bool = False
    """Whether its exponent has the eight bits of float32's."""
    output_unit: float | None = None
    """The rounding error that every output may have, where it is not half an ulp at 1."""


FLOATS = (
    FloatType(torch.float64, "float64", "fp64", np.float64),
    FloatType(torch.float32, "float32", "fp32", np.float32, range_of_float32=True),
    FloatType(torch.float16, "float16", "fp16", np.float16),
    # The RMS of its rounding errors: a full half ulp would double error budgets that are wide
    # already, and let tail errors of a reduction through.
    FloatType(torch.bfloat16, "bfloat16", "bf16", range_of_float32=True, output_unit=2.0**-9),
    FloatType(torch.float8_e5m2, "float8e5", "fp8"),
    FloatType(torch.float8_e4m3fn, "float8e4nv", "fp8"),
    FloatType(torch.float8_e4m3fnuz, "float8e4b8", "fp8"),
    FloatType(torch.float8_e5m2fnuz, "float8e5b16", "fp8"),
    FloatType(torch.float8_e8m0fnu, None, "fp8"),
)
HALVES = tuple(row.torch for row in FLOATS if row.torch.itemsize == 2)
"""The types of 16 bits."""
RANGE_OF_FLOAT32 = tuple(row.torch for row in FLOATS if row.range_of_float32)


def name_of(dtype: torch.dtype) -> str:
    """As torch spells it without the prefix: `bfloat16`."""
    return str(dtype).removeprefix("torch.")


@cache
def product_kind(name: str) -> str:
    """How products of a type are named in tables of peak rates; other types by their own name."""
    return next((row.product for row in FLOATS if name_of(row.torch) == name), name)
