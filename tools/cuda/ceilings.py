"""A device's ceilings, measured: the rate of a copy, and of a matrix product for each operand type.

Measured once per device, driver and torch, and kept in the user's cache folder. It runs on any torch
device; on a GPU it never ran so far.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from msgspec import ValidationError

from kernelagent.domain.evaluation import DeviceFacts
from kernelagent.domain.serialization import from_data, to_data
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings

_ROUNDS = 5
_ROUND_S = 0.02
_MOST_CALLS = 1 << 12
_KINDS = {
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "tf32": torch.float32,
    "fp32": torch.float32,
}


@dataclass(frozen=True)
class Sizes:
    """What is copied and multiplied; small ones are for tests."""

    copied_bytes: int = 1 << 30
    side: int = 8192
    fp32_side: int = 4096


@dataclass(frozen=True)
class MeasuredCeilings:
    """What this machine's device reached."""

    device: str
    driver: str | None
    torch: str
    copy_bytes_per_s: float
    """Bytes read and written."""
    flops_per_s: dict[str, float] = field(default_factory=dict)
    """Of a square matrix product by operand type; a multiply-add counts twice."""


def measure_ceilings(
    facts: DeviceFacts, device: str, sizes: Sizes | None = None
) -> MeasuredCeilings:
    """Measure on the torch device `device`; takes a second or two on a GPU."""
    sizes = sizes or Sizes()
    settle = _settling(device)
    rates = {
        kind: rate
        for kind, dtype in _KINDS.items()
        if (rate := _product_rate(kind, dtype, device, sizes, settle)) is not None
    }
    return MeasuredCeilings(
        facts.name, facts.driver, facts.torch, _copy_rate(device, sizes, settle), rates
    )


def known_ceilings(facts: DeviceFacts) -> MeasuredCeilings | None:
    """What was measured on this device under this driver and torch before; None if nothing was."""
    try:
        data = json.loads(_file(facts).read_text(encoding="utf-8"))
        return from_data(data, MeasuredCeilings)
    except (OSError, ValueError, ValidationError):
        return None


def keep_ceilings(facts: DeviceFacts, measured_ceilings: MeasuredCeilings) -> None:
    """Write them to the cache; a folder that cannot be written to costs the next run a second."""
    path = _file(facts)
    fresh = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(json.dumps(to_data(measured_ceilings)), encoding="utf-8")
        fresh.replace(path)
    except OSError:
        return


def known_or_measured(facts: DeviceFacts, device: str) -> MeasuredCeilings:
    """From the cache, else measured now and kept."""
    result = known_ceilings(facts)
    if result is None:
        try:
            result = measure_ceilings(facts, device)
        finally:
            # Gigabytes, which torch would keep for this process and candidates would lack.
            if device != "cpu":
                torch.cuda.empty_cache()
        keep_ceilings(facts, result)
    return result


def with_measured(row: DeviceCeilings, measured_ceilings: MeasuredCeilings) -> DeviceCeilings:
    """The data sheet's row with what was reached in place of what is promised."""
    rates = measured_ceilings.flops_per_s
    dots = {kind: rates.get(kind, peak) for kind, peak in row.dot_flops_per_s.items()}
    return replace(
        row,
        dram_bytes_per_s=measured_ceilings.copy_bytes_per_s,
        dot_flops_per_s=dots,
        fp32_flops_per_s=rates.get("fp32", row.fp32_flops_per_s),
    )


def _file(facts: DeviceFacts) -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    named = "\n".join((facts.name, facts.driver or "", facts.torch))
    return Path(
        root, "kernelagent", f"ceilings-{hashlib.sha256(named.encode()).hexdigest()[:16]}.json"
    )


def _copy_rate(device: str, sizes: Sizes, settle: Callable[[], None]) -> float:
    source = torch.ones(sizes.copied_bytes // 4, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / fastest(lambda: target.copy_(source), settle)


def _product_rate(
    kind: str, dtype: torch.dtype, device: str, sizes: Sizes, settle: Callable[[], None]
) -> float | None:
    """None where the device has no product of this type."""
    side = sizes.fp32_side if kind == "fp32" else sizes.side
    # Not zeros: they draw less power, so that the clock would be higher than under real data.
    left, right = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    out = torch.empty(side, side, dtype=dtype, device=device)
    with _float32_as("high" if kind == "tf32" else "highest"):
        try:
            seconds = fastest(lambda: torch.mm(left, right, out=out), settle)
        except torch.OutOfMemoryError:
            # Not a type that the device lacks: the whole measurement must wait.
            raise
        except RuntimeError:
            return None
    return 2 * side**3 / seconds


@contextmanager
def _float32_as(precision: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def fastest(call: Callable[[], object], settle: Callable[[], None]) -> float:
    """Seconds a call in the best round; rounds are long enough for the clock.

    A call before the clock starts: the first one loads libraries, however short the others are.
    """
    call()
    calls = 1
    while True:
        seconds = _round(call, calls, settle)
        if seconds >= _ROUND_S or calls >= _MOST_CALLS:
            break
        calls *= 2
    return min(_round(call, calls, settle) for _ in range(_ROUNDS)) / calls


def _round(call: Callable[[], object], calls: int, settle: Callable[[], None]) -> float:
    settle()
    began = time.perf_counter()
    for _ in range(calls):
        call()
    settle()
    return time.perf_counter() - began


def _settling(device: str) -> Callable[[], None]:
    if device == "cpu":
        return lambda: None
    return lambda: torch.cuda.synchronize(device)
