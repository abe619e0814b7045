"""Every constant of the estimate on `virtual`: a row for each GPU in `gpus.toml`, the rest here.

"Data sheet" marks what the maker publishes; "assumption" marks what nobody here has measured yet.
`benchmarks/calibrate.py` puts the assumptions next to measured times where there is a GPU.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelagent.domain.errors import UsageError
from kernelagent.domain.tables.dtypes import product_kind

MIB = 1 << 20
SECTOR_BYTES = 32
"""The unit in which L2 and DRAM move data (data sheet, all targets)."""


@dataclass(frozen=True)
class DeviceCeilings:
    """What one GPU can do at most, and what share of it a good kernel is assumed to reach."""

    target: str
    name: str
    """The GPU this row stands for."""

    sms: int
    """Streaming multiprocessors (data sheet)."""
    clock_hz: float
    """Boost clock in Hz (data sheet)."""
    dram_bytes_per_s: float
    """Peak DRAM bandwidth (data sheet)."""
    l2_bytes: int
    """Capacity of the L2 cache (data sheet)."""
    fp32_flops_per_s: float
    """Peak fp32 rate outside tensor cores, a fused multiply-add counted twice (data sheet)."""
    fp64_flops_per_s: float
    """Peak fp64 rate outside tensor cores, counted the same way (data sheet)."""
    dot_flops_per_s: dict[str, float]
    """Dense tensor core peak by operand type; a type not named runs on the fp32 units (data sheet)."""
    tensor_core: str
    """The family of matrix instructions that reaches that peak (data sheet)."""

    threads_per_sm: int
    """Resident threads (data sheet)."""
    blocks_per_sm: int
    """Resident blocks, that is Triton programs (data sheet)."""
    shared_bytes_per_sm: int
    """Shared memory of one multiprocessor (data sheet)."""
    registers_per_sm: int = 65536
    """32-bit registers of one multiprocessor (data sheet)."""
    register_unit: int = 256
    """Registers are given to a warp in multiples of this (data sheet)."""
    warp_unit: int = 4
    """Warps are given registers in multiples of this (data sheet)."""
    shared_unit: int = 128
    """Shared memory is given out in multiples of this many bytes (data sheet)."""
    shared_reserved_bytes: int = 1024
    """Shared memory the system keeps of every resident block (data sheet)."""
    special_per_clock: int = 16
    """Special functions (exp, log, rsqrt, ...) of one multiprocessor per clock (data sheet)."""

    key: str = field(default="", kw_only=True)
    """The short name that `--target` takes."""
    l2_bytes_per_s: float = field(kw_only=True)
    """L2 bandwidth of the whole device (assumption)."""
    sm_dram_bytes_per_s: float = 75e9
    """DRAM bandwidth one multiprocessor can use alone (assumption)."""
    sm_l2_bytes_per_s: float = 112e9
    """L2 bandwidth one multiprocessor can use alone (assumption)."""
    dram_efficiency: float = 0.90
    """Share of peak DRAM bandwidth a streaming kernel reaches (assumption)."""
    dot_efficiency: float = 0.70
    """Share of tensor core peak a good Triton kernel reaches (assumption)."""
    library_dot_efficiency: float = 0.75
    """Share of tensor core peak the vendor's libraries reach under eager (assumption)."""
    older_tensor_core: float = 0.60
    """Further factor when a kernel uses an older instruction family than the target's (assumption)."""
    cached_tensor_bytes: int = 64 << 10
    """A tensor up to this size, read again and again, is served by L1 (assumption)."""
    atomics_per_s: float = 1e12
    """Atomics on scattered addresses, whole device (assumption)."""
    same_address_atomics_per_s: float = 1e9
    """Atomics per second on one address (assumption)."""
    program_us: float = 0.7
    """Least time a wave of programs takes: one trip to memory and back, microseconds (assumption)."""
    launch_us: float = 4.0
    """Cost of a kernel launch, microseconds, the same for eager and Triton (assumption)."""

    @property
    def special_per_s(self) -> float:
        """Special functions per second of the whole device."""
        return self.sms * self.special_per_clock * self.clock_hz

    def dot_kind(self, dtype: str, *, rounds: bool) -> str:
        """How a product of this torch dtype is computed; `rounds`: fp32 may be rounded to tf32."""
        if dtype == "float32":
            return "tf32" if rounds and "tf32" in self.dot_flops_per_s else "fp32"
        return product_kind(dtype)

    def dot_rate(self, kind: str) -> float:
        """Peak rate of products of a kind, on the units that can do it at all."""
        if kind in self.dot_flops_per_s:
            return self.dot_flops_per_s[kind]
        if kind == "bf16" and "fp16" in self.dot_flops_per_s:
            return self.fp32_flops_per_s
        return self.fp64_flops_per_s if kind == "fp64" else self.fp32_flops_per_s

    def fastest_rate(self, kind: str) -> float:
        """Of the fastest way to a product of this type's accuracy: a lower bound has to count with it.

        fp32 may be made of three products of a narrower type (tf32x3, bf16x3). fp16 has as many bits of a number as tf32, and
        rows can be scaled into its range.
        """
        if kind == "fp64":
            return max(self.fp64_flops_per_s, self.dot_rate(kind))
        if kind == "fp32":
            narrow = (self.dot_flops_per_s.get(name, 0.0) for name in ("tf32", "bf16"))
            return max(self.fp32_flops_per_s, max(narrow) / _PRODUCTS_PER_FP32)
        ways = (kind, "fp16") if kind == "tf32" else (kind,)
        return max(self.fp32_flops_per_s, *map(self.dot_rate, ways))


_PRODUCTS_PER_FP32 = 3
_TABLE_FILE = Path(__file__).parent / "gpus.toml"
_SHARED_KIB = 1 << 10


@functools.cache
def gpus() -> Mapping[str, DeviceCeilings]:
    """Every GPU that has a row, by the short name that `--target` takes."""
    raw = _rows()
    limits = raw["architecture"]
    return {key: _read(key, row, limits) for key, row in raw.items() if key != "architecture"}


@functools.cache
def words_of() -> Mapping[str, tuple[str, ...]]:
    """What torch's name of each GPU holds, by short name."""
    return {key: tuple(row["words"]) for key, row in _rows().items() if key != "architecture"}


@functools.cache
def _rows() -> dict[str, Any]:
    return tomllib.loads(_TABLE_FILE.read_text(encoding="utf-8"))


def _read(key: str, row: Mapping[str, Any], limits: Mapping[str, Any]) -> DeviceCeilings:
    architecture = limits[row["target"]]
    return DeviceCeilings(
        target=row["target"],
        name=row["name"],
        sms=row["sms"],
        clock_hz=row["clock_hz"],
        dram_bytes_per_s=row["dram_bytes_per_s"],
        l2_bytes=row["l2_mib"] * MIB,
        fp32_flops_per_s=row["fp32"],
        fp64_flops_per_s=row["fp64"],
        dot_flops_per_s=dict(row["dots"]),
        tensor_core=architecture["tensor_core"],
        threads_per_sm=architecture["threads_per_sm"],
        blocks_per_sm=architecture["blocks_per_sm"],
        shared_bytes_per_sm=architecture["shared_kib_per_sm"] * _SHARED_KIB,
        key=key,
        **row["assumed"],
    )


@functools.cache
def _by_any_name() -> Mapping[str, DeviceCeilings]:
    result: dict[str, DeviceCeilings] = {}
    for key, row in gpus().items():
        raw = _rows()[key]
        names = [key, *raw.get("aliases", ())]
        if "first_of" in raw:
            names.append(raw["first_of"])
        for name in names:
            result[name] = row
    return result


def ceilings_for(target: str) -> DeviceCeilings:
    """The row of a GPU such as `h100`, or of the fastest one of an architecture such as `sm_90`.

    Raises `UsageError` for a name that has none.
    """
    asked = target.strip().lower().replace(" ", "-")
    try:
        return _by_any_name()[asked]
    except KeyError:
        known = ", ".join(_by_any_name())
        raise UsageError(
            f"there are no device constants for target {target!r}; use one of {known}"
        ) from None
