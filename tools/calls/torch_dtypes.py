"""The rows of `dtypes` by `torch.dtype`."""

from __future__ import annotations

from typing import Any

import torch

from kernelagent.domain.tables.dtypes import FLOATS, product_kind
from kernelagent.tools.calls.float32_precision import convolutions_round, matmul_precision

FLOAT_TYPES = {getattr(torch, row.name): row for row in FLOATS}
HALVES: tuple[torch.dtype, ...] = tuple(t for t, row in FLOAT_TYPES.items() if row.bits == 16)
"""The types of 16 bits."""
RANGE_OF_FLOAT32: tuple[torch.dtype, ...] = tuple(
    t for t, row in FLOAT_TYPES.items() if row.range_of_float32
)


def widened(values: torch.Tensor) -> torch.Tensor:
    """Floats of eight bits in float32, as torch computes next to nothing with them; others as they are."""
    row = FLOAT_TYPES.get(values.dtype)
    return values.to(torch.float32) if row is not None and row.bits == 8 else values


def name_of(dtype: torch.dtype) -> str:
    """As torch spells it without the prefix: `bfloat16`."""
    return str(dtype).removeprefix("torch.")


def allowed_product(operation: str, dtype: torch.dtype) -> str:
    """How torch's settings let an operation compute its products: float32 may be rounded to tf32."""
    if dtype == torch.float32:
        rounded = (
            convolutions_round() if "convolution" in operation else matmul_precision() != "highest"
        )
        return "tf32" if rounded else "fp32"
    return product_kind(name_of(dtype))


def holds_integers(value: Any) -> bool:
    """Whether it is a tensor of whole numbers; truths are none."""
    return (
        isinstance(value, torch.Tensor)
        and value.dtype != torch.bool
        and not value.is_floating_point()
        and not value.is_complex()
    )
