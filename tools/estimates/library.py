"""What library kernels take on a GPU: terms times fitted constants, host time, intervals.

Every constant stands in `library.toml`, written by `benchmarks/fit_estimates.py` from published
measurements; docs/how-estimates-work.md says what they are worth.
"""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kernelagent.domain import profile
from kernelagent.domain.estimated import Estimated
from kernelagent.tools.estimates.cached import cold_shares
from kernelagent.tools.estimates.fusing import Call, Group, compiled
from kernelagent.tools.estimates.operations import Operation
from kernelagent.tools.estimates.term import Term
from kernelagent.tools.estimates.terms import terms_of, terms_of_step
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings

Bound = Literal["dram", "dot", "fp", "launch"]
Way = Literal["eager", "compiled"]
_FILE = Path(__file__).parent / "library.toml"
_LAUNCHES = Path(__file__).with_name("launches.toml")
_SHARPNESS, _HOST_SHARPNESS = 3.0, 4.0
"""Exponents p of the p-norm that combines two overlapping times; the fit assumes the same values."""
_LEAST, _MOST = -3.0, 7.0
_SHARED = 0.5
"""Share of the variance that the errors of two families have in common: clock, machine, versions (assumption)."""


@dataclass(frozen=True)
class Priced:
    """The device time of one operation, or of one kernel of Inductor's."""

    name: str
    us: float
    family: str
    bound: Bound
    moved_bytes: int
    flops: int
    kernels: int


@dataclass(frozen=True)
class Forward:
    """One forward: its time with interval, what it is bound by, its parts."""

    us: Estimated
    bound: Bound
    parts: tuple[Priced, ...]


@dataclass(frozen=True)
class Library:
    """The constants for one GPU."""

    gpu: DeviceCeilings
    constants: Mapping[str, float]
    """Of eager operations."""
    inside: Mapping[str, float]
    """Of the same kernels and Inductor's own inside `torch.compile`."""
    host: Mapping[str, float]
    spreads: Mapping[str, float]
    like: str
    """The measured GPU whose constants it uses; intervals are wider where that is another one."""

    def term_us(self, term: Term, way: Way = "eager") -> float:
        """Device microseconds of one term."""
        moved = term.bytes_us * math.exp(self._offset(term, "bytes", way))
        computed = term.math_us * math.exp(self._offset(term, "math", way))
        longer: float = (moved**_SHARPNESS + computed**_SHARPNESS) ** (1 / _SHARPNESS)
        return (
            longer + term.kernels * self.constants["kernel_us"] + term.steps * self.host["step_us"]
        )

    def price(
        self, name: str, operation: Operation, terms: Sequence[Term], way: Way = "eager"
    ) -> Priced:
        """The device time of the terms of one operation, or of what became of several."""
        times = [self.term_us(term, way) for term in terms]
        longest = max(range(len(terms)), key=lambda at: times[at])
        term = terms[longest]
        return Priced(
            name=name,
            us=sum(times),
            family=term.family,
            bound=self._bound(term, way),
            moved_bytes=operation.bytes,
            flops=operation.flops,
            kernels=sum(t.kernels for t in terms),
        )

    def eager(self, operations: Sequence[Operation]) -> Forward:
        """The operations one after another, as torch launches them, L2 cold at the start."""
        shares = cold_shares(operations, self.gpu.l2_bytes)
        parts = [
            self.price(op.name, op, terms_of(op, self.gpu, share))
            for op, share in zip(operations, shares, strict=True)
        ]
        return self.whole(parts, launches_of(operations, self.constants["later_share"]))

    def compiled(self, operations: Sequence[Operation]) -> Forward:
        """The same operations after `torch.compile`, default mode."""
        steps = compiled(operations)
        parts = [self._step(step) for step in steps]
        return self.whole(parts, float(len(steps)), way="compiled")

    def whole(self, parts: Sequence[Priced], launches: float, way: Way = "eager") -> Forward:
        """Device and host work side by side; `launches`: what the host has to do, in operations."""
        device = sum(part.us for part in parts)
        host = launches * self.host[f"{way}_call_us"]
        both = self.side_by_side(device, host)
        total = self.host[f"{way}_base_us"] + both
        on_device = device**_HOST_SHARPNESS / both**_HOST_SHARPNESS if both else 0.0
        spread = self._spread(parts, device, on_device, way)
        value = max(total, 1e-3)
        return Forward(
            Estimated.within(value, math.exp(-spread), math.exp(spread)),
            "launch" if on_device < 0.5 else _dominant(parts),
            tuple(parts),
        )

    @staticmethod
    def side_by_side(device_us: float, host_us: float) -> float:
        """The time of both where the host runs ahead of the device."""
        total: float = (device_us**_HOST_SHARPNESS + host_us**_HOST_SHARPNESS) ** (
            1 / _HOST_SHARPNESS
        )
        return total

    @staticmethod
    def weights(device_us: float, host_us: float) -> tuple[float, float]:
        """What a microsecond more of either adds to `side_by_side`; weighted so, the parts of a sum add up to it."""
        both = Library.side_by_side(device_us, host_us)
        if not both:
            return 0.0, 0.0
        power = _HOST_SHARPNESS - 1
        return (device_us / both) ** power, (host_us / both) ** power

    @property
    def triton_launch_us(self) -> float:
        """The host's time for a candidate's launch: that of Inductor's kernels here, and triton.jit's own."""
        known = _launches()
        return self.host["compiled_call_us"] + known["jit_us"] - known["compiled_run_us"]

    def in_one_launch(self, device_us: float) -> float:
        """A forward of one Triton kernel that keeps the device busy for so long."""
        device = device_us + self.constants["kernel_us"]
        part = Priced("launch", device, "pointwise", "dram", 0, 0, 1)
        return self.whole([part], self.triton_launch_us / self.host["eager_call_us"]).us.value

    def spread_of(self, part: Priced, way: Way = "eager") -> float:
        """Half the width of a part's own interval, as a logarithm."""
        return self._family_spread(part.family, way) * self._widening(way)

    def _step(self, step: Group | Call) -> Priced:
        terms = terms_of_step(step, self.gpu)
        if isinstance(step, Call):
            return self.price(step.operation.name, step.operation, terms, "compiled")
        operation = Operation(
            "fused", "pointwise", "float32", tuple(step.reads.values()), tuple(step.writes.values())
        )
        return self.price(
            "fused reduction" if step.reduces else "fused", operation, terms, "compiled"
        )

    def _offset(self, term: Term, side: str, way: Way) -> float:
        known = self.constants if way == "eager" else self.inside
        features = term.bytes_by if side == "bytes" else term.math_by
        total = sum(known.get(name, 0.0) * value for name, value in features.items())
        prefix = f"gpu.{self.like}."
        if side == "bytes" or not waits(term):
            total += known.get(prefix + side, 0.0)
        total += known.get(prefix + root(term.family), 0.0)
        if side == "math" and on_tensor_cores(term):
            total += known.get(prefix + "tensor_cores", 0.0)
        return min(max(total, least_offset(term) if side == "math" else _LEAST), _MOST)

    def _bound(self, term: Term, way: Way) -> Bound:
        moved = term.bytes_us * math.exp(self._offset(term, "bytes", way))
        computed = term.math_us * math.exp(self._offset(term, "math", way))
        overhead = term.kernels * self.constants["kernel_us"] + term.steps * self.host["step_us"]
        if max(moved, computed) < overhead:
            return "launch"
        if moved >= computed or waits(term):
            return "dram"
        return "dot" if on_tensor_cores(term) else "fp"

    def _spread(self, parts: Sequence[Priced], device: float, on_device: float, way: Way) -> float:
        by_family: dict[str, float] = {}
        for part in parts:
            by_family[part.family] = by_family.get(part.family, 0.0) + part.us
        shares = {name: on_device * us / device for name, us in by_family.items()} if device else {}
        shares["host"] = 1.0 - sum(shares.values())
        widths = [share * self._family_spread(f, way) for f, share in shares.items()]
        return max(0.03, together(widths) * self._widening(way))

    def _family_spread(self, family: str, way: Way) -> float:
        return self.spreads.get(f"{way}.{family}", self.spreads[f"{way}.all"])

    def _widening(self, way: Way) -> float:
        known = self.spreads.get(f"{way}.gpu.{self.like}", self.spreads[f"{way}.gpu.other"])
        return known if self.like == self.gpu.key else max(known, self.spreads[f"{way}.gpu.other"])


def by_operation(parts: Sequence[Priced]) -> tuple[profile.Operation, ...]:
    """The parts of one forward that have one name as one row each, dearest first."""
    by_name: dict[str, list[Priced]] = {}
    for part in parts:
        by_name.setdefault(part.name, []).append(part)
    device = sum(part.us for part in parts) or 1.0
    rows = [
        profile.Operation(
            name=name,
            launches=sum(part.kernels for part in same),
            us=round(sum(part.us for part in same), 2),
            share=round(sum(part.us for part in same) / device, 4),
            moved_bytes=sum(part.moved_bytes for part in same),
            bound=max(same, key=lambda part: part.us).bound,
            flops=sum(part.flops for part in same),
        )
        for name, same in by_name.items()
    ]
    return tuple(sorted(rows, key=lambda row: -row.us))


def together(widths: Sequence[float]) -> float:
    """Half-width of a sum whose parts are this uncertain, each already weighed by its share."""
    apart = sum(width**2 for width in widths)
    return math.sqrt(_SHARED * sum(widths) ** 2 + (1 - _SHARED) * apart)


def root(family: str) -> str:
    """The part of a family's name that a GPU has a constant for."""
    return family.partition(".")[0]


def on_tensor_cores(term: Term) -> bool:
    """Whether the term's products run on tensor cores."""
    products = {"conv", "matmul", "attention", "recurrent"} & term.math_by.keys()
    return bool(products) and not {"conv.fp32", "matmul.fp32"} & term.math_by.keys()


def least_offset(term: Term) -> float:
    """A plain product is never faster than the peak; a convolution may be, by multiplying less."""
    return 0.0 if "matmul" in term.math_by else _LEAST


def waits(term: Term) -> bool:
    """Whether its second time is that of loads one after another, not of operations."""
    return "waits" in term.math_by


def launches_of(operations: Sequence[Operation], later_share: float) -> float:
    """Host work of the operations, in units of one call."""
    later = sum(operation.later for operation in operations)
    return len(operations) - later + later_share * later


def library_for(gpu: DeviceCeilings) -> Library:
    """The constants for a GPU; one that nobody measured uses those of the nearest that was."""
    raw = _raw()
    key = raw["like"].get(gpu.key, raw["like"][gpu.target])
    return Library(
        gpu,
        _flat(raw["constants"]),
        _flat(raw["compiled"]),
        raw["host"][key],
        _flat(raw["spreads"]),
        key,
    )


def _dominant(parts: Sequence[Priced]) -> Bound:
    by_bound: dict[Bound, float] = {}
    for part in parts:
        by_bound[part.bound] = by_bound.get(part.bound, 0.0) + part.us
    return max(by_bound, key=lambda name: by_bound[name], default="launch")


@functools.cache
def _launches() -> dict[str, float]:
    return _flat(tomllib.loads(_LAUNCHES.read_text(encoding="utf-8"))["host"])


@functools.cache
def _raw() -> dict[str, Any]:
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


def _flat(table: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in table.items()}
