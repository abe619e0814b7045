"""The ESTIMATE of a whole forward: launches and torch's own operations one after another, the host beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kernelagent.domain.estimated import Estimated
from kernelagent.tools.estimates.cached import cold_shares
from kernelagent.tools.estimates.library import Library, Priced, library_for
from kernelagent.tools.estimates.terms import terms_of
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings
from kernelagent.tools.virtual.cost.cost import Bound, LaunchEstimate, fp_seconds, longest
from kernelagent.tools.virtual.cost.eager import EagerRow

_PRICED: tuple[Literal["dot", "fp", "launch"], ...] = ("dot", "fp", "launch")
"""What the library has prices of its own for, beside memory."""


@dataclass(frozen=True)
class ForwardEstimate:
    """The predicted time of several launches one after another."""

    us: float = 0.0
    bound: Bound = "launch"
    """The bound in which most of the time is spent."""
    launches: tuple[LaunchEstimate, ...] = field(default=())
    interval: Estimated | None = None
    """80 %; None where nothing is known of how far off it is."""
    device_us: float = 0.0
    """What keeps the device busy."""
    host_us: float = 0.0
    """What the host does to launch it, beside the device and without what a forward costs once."""
    label: Literal["estimate"] = "estimate"

    @property
    def resource(self) -> Bound:
        """As `bound`, which has memory's caches and the units that the library does not price as `dram`, by name."""
        if self.bound != "dram":
            return self.bound
        spent: dict[Bound, float] = {}
        for launch in self.launches:
            if launch.bound not in _PRICED:
                spent[launch.bound] = spent.get(launch.bound, 0.0) + launch.us
        return max(spent, key=lambda name: spent[name], default=self.bound)


def estimate_eager(rows: Iterable[EagerRow], ceilings: DeviceCeilings) -> ForwardEstimate:
    """The predicted time of torch's own operations one after another, the host's share included.

    Operations without fitted constants, such as backwards, are priced at the device's peak rates.
    """
    result = tuple(rows)
    return whole_forward((), result, ceilings)


def whole_forward(
    launches: Sequence[LaunchEstimate], rows: Sequence[EagerRow], ceilings: DeviceCeilings
) -> ForwardEstimate:
    """Triton launches and torch operations of one forward: device and host work side by side."""
    library = library_for(ceilings)
    known = [row.operation for row in rows if row.operation is not None and _in_library(row)]
    shares = iter(cold_shares(known, ceilings.l2_bytes))
    parts = [_as_part(launch, ceilings, library) for launch in launches]
    costs = list(launches)
    for row in rows:
        if row.operation is not None and _in_library(row):
            terms = terms_of(row.operation, ceilings, next(shares))
            part = library.price(row.name, row.operation, terms)
            costs.append(LaunchEstimate(part.us, part.bound, {part.bound: part.us}))
        else:
            cost = _estimate_operation(row, ceilings)
            part = _as_part(cost, ceilings, library)
            costs.append(cost)
        parts.append(part)
    later = sum(row.operation is not None and row.operation.later for row in rows)
    # A launch by triton.jit costs the host less than torch's way to an operation.
    calls = len(launches) * library.triton_launch_us / library.host["eager_call_us"]
    calls += len(rows) - later + later * library.constants["later_share"]
    forward = library.whole(parts, calls)
    if not parts:
        return ForwardEstimate()
    return ForwardEstimate(
        forward.us.value,
        forward.bound,
        tuple(costs),
        forward.us,
        device_us=sum(part.us for part in parts),
        host_us=calls * library.host["eager_call_us"],
    )


def _in_library(row: EagerRow) -> bool:
    operation = row.operation
    return operation is not None and not (operation.flops and operation.kind == "pointwise")


def _as_part(cost: LaunchEstimate, ceilings: DeviceCeilings, library: Library) -> Priced:
    """A launch as the library counts it: the host's share of the overhead is not the device's."""
    us = cost.us - ceilings.launch_us + library.constants["kernel_us"]
    family = "matmul" if cost.bound == "dot" else "pointwise"
    bound: Literal["dram", "dot", "fp", "launch"] = "dram"
    if cost.bound in _PRICED:
        bound = cost.bound
    return Priced("launch", us, family, bound, 0, 0, 1)


def total(launches: Iterable[LaunchEstimate]) -> ForwardEstimate:
    """Launches one after another, as a single stream runs them."""
    result = tuple(launches)
    by_bound: dict[Bound, float] = {}
    for launch in result:
        by_bound[launch.bound] = by_bound.get(launch.bound, 0.0) + launch.us
    return ForwardEstimate(
        us=sum(launch.us for launch in result),
        bound=max(by_bound, key=lambda name: by_bound[name], default="launch"),
        launches=result,
    )


def _estimate_operation(row: EagerRow, ceilings: DeviceCeilings) -> LaunchEstimate:
    rate = ceilings.dot_flops_per_s.get(row.dot_type, ceilings.fp32_flops_per_s)
    return longest(
        {
            "dram": row.dram_bytes / (ceilings.dram_bytes_per_s * ceilings.dram_efficiency),
            "l2": (row.loaded_bytes + row.stored_bytes) / ceilings.l2_bytes_per_s,
            "dot": row.dot_flops / (rate * ceilings.library_dot_efficiency),
            "fp": fp_seconds(row.fp_operations, row.fp64_operations, ceilings),
            "special": row.special_operations / ceilings.special_per_s,
            "launch": ceilings.launch_us * 1e-6,
        },
        ceilings,
    )
