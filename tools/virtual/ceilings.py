"""Every constant of the estimate on `virtual`, one table row per target.

"Data sheet" marks what the maker publishes; "assumption" marks what nobody here has measured yet.
`benchmarks/calibrate.py` puts the assumptions next to measured times where there is a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelagent.errors import UsageError

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
    """Atomics on one and the same address (assumption)."""
    program_us: float = 0.7
    """Least time a wave of programs takes: one trip to memory and back, microseconds (assumption)."""
    launch_us: float = 4.0
    """Cost of a kernel launch, microseconds, the same for eager and Triton (assumption)."""

    @property
    def special_per_s(self) -> float:
        """Special functions per second of the whole device."""
        return self.sms * self.special_per_clock * self.clock_hz


_TABLE = (
    DeviceCeilings(
        target="sm_80",
        name="NVIDIA A100 SXM 80 GB",
        sms=108,
        clock_hz=1.41e9,
        dram_bytes_per_s=2.039e12,
        l2_bytes=40 * MIB,
        fp32_flops_per_s=19.5e12,
        fp64_flops_per_s=9.7e12,
        dot_flops_per_s={
            "fp16": 312e12,
            "bf16": 312e12,
            "tf32": 156e12,
            "int8": 624e12,
            "fp64": 19.5e12,
        },
        tensor_core="mma.sync",
        threads_per_sm=2048,
        blocks_per_sm=32,
        shared_bytes_per_sm=164 << 10,
        l2_bytes_per_s=4.0e12,
        sm_dram_bytes_per_s=45e9,
        sm_l2_bytes_per_s=80e9,
    ),
    DeviceCeilings(
        target="sm_86",
        name="NVIDIA GeForce RTX 3090 Ti",
        sms=84,
        clock_hz=1.86e9,
        dram_bytes_per_s=1.008e12,
        l2_bytes=6 * MIB,
        fp32_flops_per_s=40.0e12,
        fp64_flops_per_s=0.625e12,
        # Of the professional cards with this chip; the others halve it when they add up in fp32.
        dot_flops_per_s={"fp16": 155e12, "bf16": 155e12, "tf32": 77e12, "int8": 310e12},
        tensor_core="mma.sync",
        threads_per_sm=1536,
        blocks_per_sm=16,
        shared_bytes_per_sm=100 << 10,
        l2_bytes_per_s=2.5e12,
        sm_dram_bytes_per_s=25e9,
        sm_l2_bytes_per_s=60e9,
    ),
    DeviceCeilings(
        target="sm_89",
        name="NVIDIA GeForce RTX 4090",
        sms=128,
        clock_hz=2.52e9,
        dram_bytes_per_s=1.008e12,
        l2_bytes=72 * MIB,
        fp32_flops_per_s=91.6e12,
        fp64_flops_per_s=1.43e12,
        # Of the professional cards with this chip; the others halve it when they add up in fp32.
        dot_flops_per_s={
            "fp16": 362e12,
            "bf16": 362e12,
            "tf32": 183e12,
            "fp8": 733e12,
            "int8": 733e12,
        },
        tensor_core="mma.sync",
        threads_per_sm=1536,
        blocks_per_sm=24,
        shared_bytes_per_sm=100 << 10,
        l2_bytes_per_s=5.0e12,
        sm_dram_bytes_per_s=25e9,
        sm_l2_bytes_per_s=80e9,
    ),
    DeviceCeilings(
        target="sm_90",
        name="NVIDIA H200 SXM",
        sms=132,
        clock_hz=1.98e9,
        dram_bytes_per_s=4.8e12,
        l2_bytes=50 * MIB,
        fp32_flops_per_s=67e12,
        fp64_flops_per_s=34e12,
        dot_flops_per_s={
            "fp16": 989e12,
            "bf16": 989e12,
            "tf32": 494e12,
            "fp8": 1979e12,
            "int8": 1979e12,
            "fp64": 67e12,
        },
        tensor_core="wgmma",
        threads_per_sm=2048,
        blocks_per_sm=32,
        shared_bytes_per_sm=228 << 10,
        l2_bytes_per_s=6.5e12,
    ),
    DeviceCeilings(
        target="sm_100",
        name="NVIDIA B200",
        sms=148,
        clock_hz=1.965e9,
        dram_bytes_per_s=8.0e12,
        l2_bytes=126 * MIB,
        fp32_flops_per_s=75e12,
        fp64_flops_per_s=37e12,
        dot_flops_per_s={
            "fp16": 2250e12,
            "bf16": 2250e12,
            "tf32": 1125e12,
            "fp8": 4500e12,
            "int8": 4500e12,
            "fp64": 37e12,
        },
        tensor_core="tcgen05",
        threads_per_sm=2048,
        blocks_per_sm=32,
        shared_bytes_per_sm=228 << 10,
        l2_bytes_per_s=10e12,
        sm_dram_bytes_per_s=110e9,
        sm_l2_bytes_per_s=140e9,
    ),
    DeviceCeilings(
        target="sm_120",
        name="NVIDIA GeForce RTX 5090",
        sms=170,
        clock_hz=2.407e9,
        dram_bytes_per_s=1.792e12,
        l2_bytes=96 * MIB,
        fp32_flops_per_s=104.8e12,
        fp64_flops_per_s=1.64e12,
        dot_flops_per_s={
            "fp16": 209.5e12,
            "bf16": 209.5e12,
            "tf32": 104.8e12,
            "fp8": 419e12,
            "int8": 838e12,
        },
        tensor_core="mma.sync",
        threads_per_sm=1536,
        blocks_per_sm=24,
        shared_bytes_per_sm=100 << 10,
        l2_bytes_per_s=6.0e12,
        sm_dram_bytes_per_s=25e9,
        sm_l2_bytes_per_s=90e9,
    ),
)

_BY_TARGET = {row.target: row for row in _TABLE}


def ceilings_for(target: str) -> DeviceCeilings:
    """The row of a target such as `sm_90`; raises `UsageError` for one that has none."""
    try:
        return _BY_TARGET[target]
    except KeyError:
        known = ", ".join(_BY_TARGET)
        raise UsageError(
            f"there are no device constants for target {target!r}; use one of {known}"
        ) from None
