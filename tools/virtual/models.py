"""Ceilings of the GPU that is really there, by the name torch has for it; all numbers are data sheets'.

One architecture names cards of very different speed. A card that is not listed gets the row of its
architecture, which is the fastest card of it: a bound that is too low refuses nobody.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from kernelagent.errors import UsageError
from kernelagent.tools.virtual.ceilings import MIB, DeviceCeilings, ceilings_for


@dataclass(frozen=True)
class Model:
    """What differs from the row of the architecture; 0 and None: nothing does."""

    words: tuple[str, ...]
    """All of these stand in the name, as words of their own."""
    target: str
    dram_bytes_per_s: float
    sms: int = 0
    l2_bytes: int = 0
    fp32_flops_per_s: float = 0.0
    dots: dict[str, float] | None = None
    """Dense, as in the row of the architecture."""


_MODELS = (
    Model(("A100", "80GB", "PCIe"), "sm_80", 1.935e12),
    Model(("A100", "80GB"), "sm_80", 2.039e12),
    Model(("A100", "40GB"), "sm_80", 1.555e12),
    Model(("A100",), "sm_80", 2.039e12),
    Model(("A30",), "sm_80", 0.933e12, 56, 24 * MIB, 10.3e12, {"fp16": 165e12, "bf16": 165e12}),
    Model(("A40",), "sm_86", 0.696e12, 84, 6 * MIB, 37.4e12),
    Model(("A10",), "sm_86", 0.600e12, 72, 6 * MIB, 31.2e12, {"fp16": 125e12, "bf16": 125e12}),
    Model(("A10G",), "sm_86", 0.600e12, 80, 6 * MIB, 31.5e12),
    Model(("RTX", "A6000"), "sm_86", 0.768e12, 84, 6 * MIB, 38.7e12),
    Model(("RTX", "3090", "Ti"), "sm_86", 1.008e12, 84, 6 * MIB, 40.0e12),
    Model(("RTX", "3090"), "sm_86", 0.936e12, 82, 6 * MIB, 35.6e12),
    Model(
        ("RTX", "4090"),
        "sm_89",
        1.008e12,
        128,
        72 * MIB,
        82.6e12,
        {"fp16": 330e12, "bf16": 165e12, "tf32": 82.6e12, "fp8": 661e12, "int8": 661e12},
    ),
    Model(("L40S",), "sm_89", 0.864e12, 142, 96 * MIB, 91.6e12),
    Model(("L40",), "sm_89", 0.864e12, 142, 96 * MIB, 90.5e12),
    Model(("L4",), "sm_89", 0.300e12, 58, 48 * MIB, 30.3e12, {"fp16": 121e12, "bf16": 121e12}),
    Model(("H200",), "sm_90", 4.8e12),
    Model(("GH200",), "sm_90", 4.9e12),
    Model(
        ("H100", "PCIe"),
        "sm_90",
        2.039e12,
        114,
        0,
        51.2e12,
        {"fp16": 756e12, "bf16": 756e12, "tf32": 378e12, "fp8": 1513e12, "int8": 1513e12},
    ),
    Model(("H100", "NVL"), "sm_90", 3.938e12),
    Model(("H100",), "sm_90", 3.352e12),
    Model(("H20",), "sm_90", 4.0e12, 78, 60 * MIB, 44e12, {"fp16": 148e12, "bf16": 148e12}),
    Model(("B200",), "sm_100", 8.0e12),
    Model(("RTX", "5090"), "sm_120", 1.792e12),
)
"""The first that fits counts."""


def ceilings_of(name: str, target: str) -> tuple[DeviceCeilings, bool]:
    """The ceilings of the card torch calls `name`, and whether the card itself is listed.

    Raises `UsageError` for an architecture older than every row.
    """
    row = row_near(target)
    words = {word.lower() for word in re.split(r"[\s\-_]+", name)}
    for model in _MODELS:
        if model.target == target and all(word.lower() in words for word in model.words):
            return _with(row, model, name), True
    return replace(row, name=f"{row.name}, the fastest of {row.target}"), False


def row_near(target: str) -> DeviceCeilings:
    """The row of an architecture, or of the newest one before it: sm_103 runs as sm_100 does."""
    known = (75, 80, 86, 89, 90, 100, 120)
    asked = int(re.sub(r"\D", "", target) or 0)
    for number in sorted(known, reverse=True):
        if number > asked:
            continue
        try:
            return ceilings_for(f"sm_{number}")
        except UsageError:
            continue
    return ceilings_for(target)


def _with(row: DeviceCeilings, model: Model, name: str) -> DeviceCeilings:
    dots = row.dot_flops_per_s if model.dots is None else row.dot_flops_per_s | model.dots
    return replace(
        row,
        name=name,
        dram_bytes_per_s=model.dram_bytes_per_s,
        sms=model.sms or row.sms,
        l2_bytes=model.l2_bytes or row.l2_bytes,
        fp32_flops_per_s=model.fp32_flops_per_s or row.fp32_flops_per_s,
        dot_flops_per_s=dots,
    )
