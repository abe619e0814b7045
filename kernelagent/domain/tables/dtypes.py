"""The floating-point types: one row for each, which every place that treats them differently reads.

A further type is a further row. Nothing heavy is imported: prompts and reports read the table, too. The same
rows by `torch.dtype` are `tools/calls/torch_dtypes`; what a number format means bit by bit is `tools/virtual/arithmetic/numerics`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FloatType:
    """Facts of a floating-point type that `torch.finfo` lacks, and those of its facts that code without torch needs."""

    name: str
    """As torch spells it without the prefix: `bfloat16`."""
    triton: str | None
    """Its name in `triton.language`; None where Triton has no such type."""
    product: str
    """How its matrix products are named in tables of peak rates; `fp32` may be computed as `tf32`."""
    bits: int
    digits: int
    """Bits of its significand, the one that is not stored included."""
    numpy: bool = False
    """Whether numpy has it by the same name; otherwise its bits are held as integers."""
    range_of_float32: bool = False
    """Whether its exponent has the eight bits of float32's."""
    output_unit: float | None = None
    """The rounding error that every output may have, where it is not half an ulp at 1."""


FLOATS = (
    FloatType("float64", "float64", "fp64", 64, 53, numpy=True),
    FloatType("float32", "float32", "fp32", 32, 24, numpy=True, range_of_float32=True),
    FloatType("float16", "float16", "fp16", 16, 11, numpy=True),
    # The RMS of its rounding errors: a full half ulp would double error budgets that are wide
    # already, and let tail errors of a reduction through.
    FloatType("bfloat16", "bfloat16", "bf16", 16, 8, range_of_float32=True, output_unit=2.0**-9),
    FloatType("float8_e5m2", "float8e5", "fp8", 8, 3),
    FloatType("float8_e4m3fn", "float8e4nv", "fp8", 8, 4),
    FloatType("float8_e4m3fnuz", "float8e4b8", "fp8", 8, 4),
    FloatType("float8_e5m2fnuz", "float8e5b16", "fp8", 8, 3),
    FloatType("float8_e8m0fnu", None, "fp8", 8, 1),
)
_DIGITS = {row.name: row.digits for row in FLOATS}
_PRODUCTS = {row.name: row.product for row in FLOATS}


def product_kind(name: str) -> str:
    """How products of a type are named in tables of peak rates; other types by their own name."""
    return _PRODUCTS.get(name, name)


def half_ulp(name: str) -> float | None:
    """Half of the distance from 1 to the next larger number; None for what is no floating-point type."""
    digits = _DIGITS.get(name)
    return None if digits is None else 2.0**-digits
