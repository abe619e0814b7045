"""What the counted calls of one input set cost, kernel by kernel and beside what torch computes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelagent.domain.evaluation import Estimate, KernelFacts
from kernelagent.domain.serialization import from_data
from kernelagent.tools.calls.tensors import dtype_of
from kernelagent.tools.estimates.least import Least, least_of
from kernelagent.tools.estimates.library import library_for
from kernelagent.tools.estimates.ratios import ratio
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.describe import written_out
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.virtual.compiled.sass import MachineFacts
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings
from kernelagent.tools.virtual.cost.cost import (
    LaunchEstimate,
    dram_bytes,
    estimate_launch,
    spills_us,
    too_few_stages_us,
)
from kernelagent.tools.virtual.cost.eager import EagerRow
from kernelagent.tools.virtual.cost.forward_cost import estimate_eager, whole_forward
from kernelagent.tools.virtual.cost.traffic_facts import TrafficFacts

_WIDEST_BYTES = 16
"""Of one load of one thread."""


@dataclass(frozen=True)
class CountedCosts:
    """One input set of a candidate, counted and priced."""

    name: str
    estimate: Estimate
    least: Least
    kernels: tuple[KernelFacts, ...]
    coverage: float
    library_share: float
    torch_operations: tuple[str, ...]
    idle: tuple[str, ...]
    """Kernels of launches that change nothing."""
    work_share: float | None
    """Floating point operations over the reference's; None where the reference multiplies no matrices."""


def costs_of(
    context: JudgeContext,
    source: InputSource,
    launches: Sequence[Mapping[str, Any]],
    rows: tuple[Sequence[EagerRow], Sequence[EagerRow]],
    ceilings: DeviceCeilings,
    idle: frozenset[int],
) -> CountedCosts:
    """What one counted call costs; `rows`: what torch computes in the candidate, and in the reference."""
    torch_rows, reference = rows
    costs = [launch_cost(row, ceilings) for row in launches]
    beside = estimate_eager(torch_rows, ceilings)
    eager = estimate_eager(reference, ceilings)
    whole = whole_forward([cost for _, _, cost in costs], torch_rows, ceilings)
    useful = [0.0 if at in idle else cost.us for at, (_, _, cost) in enumerate(costs)]
    total_us, eager_us = whole.us, eager.us
    of_parts = sum(cost.us for _, _, cost in costs) + sum(cost.us for cost in beside.launches)
    operations = tuple(row.operation for row in reference if row.operation is not None)
    compiled = library_for(ceilings).compiled(operations).us if not context.trains else None
    return CountedCosts(
        name=source.name,
        estimate=Estimate(
            candidate_us=round(total_us, 2),
            eager_us=round(eager_us, 2),
            bound=whole.resource,
            ratio=round(eager_us / total_us, 3) if total_us else 1.0,
            shapes=written_out(context.oracle.module, source.full),
            candidate=whole.interval,
            eager=eager.interval,
            compile=compiled,
            speedup=ratio(eager_us, total_us, eager.bound, whole.bound),
            speedup_compile=(
                None
                if compiled is None
                else ratio(compiled.value, total_us, eager.bound, whole.bound)
            ),
        ),
        least=least_of(operations, ceilings),
        kernels=_kernels(launches, costs, useful, of_parts, ceilings),
        coverage=sum(useful) / of_parts if of_parts else 0.0,
        library_share=sum(cost.us for cost in beside.launches) / of_parts if of_parts else 0.0,
        torch_operations=tuple(row.name for row in torch_rows),
        idle=tuple(str(row["kernel"]) for at, row in enumerate(launches) if at in idle),
        work_share=_work_share([traffic for traffic, _, _ in costs], torch_rows, reference),
    )


_Cost = tuple[TrafficFacts, MachineFacts, LaunchEstimate]


def launch_cost(row: Mapping[str, Any], ceilings: DeviceCeilings) -> _Cost:
    traffic = from_data(row["traffic"], TrafficFacts)
    machine = from_data(row["machine"], MachineFacts)
    return traffic, machine, estimate_launch(traffic, machine, ceilings, row["stages"])


def _kernels(
    launches: Sequence[Mapping[str, Any]],
    costs: Sequence[_Cost],
    useful: Sequence[float],
    total_us: float,
    ceilings: DeviceCeilings,
) -> tuple[KernelFacts, ...]:
    """One row per kernel; of several specialisations the costliest gives the facts."""
    by_name: dict[str, list[int]] = {}
    for at, row in enumerate(launches):
        by_name.setdefault(str(row["kernel"]), []).append(at)
    return tuple(
        _kernel(launches, costs, useful, places, total_us, ceilings) for places in by_name.values()
    )


def _kernel(
    launches: Sequence[Mapping[str, Any]],
    costs: Sequence[_Cost],
    useful: Sequence[float],
    places: Sequence[int],
    total_us: float,
    ceilings: DeviceCeilings,
) -> KernelFacts:
    heaviest = max(places, key=lambda at: costs[at][2].us)
    row, (_, machine, cost) = launches[heaviest], costs[heaviest]
    launched = [(*costs[at][:2], launches[at]["stages"]) for at in places]
    spent = sum(costs[at][2].us for at in places)
    traffics = [costs[at][0] for at in places]
    x, y, z = row["grid"]
    threads = 32 * row["options"]["num_warps"]
    blocks = x * y * z * machine.num_ctas
    resident = round(machine.occupancy * ceilings.threads_per_sm / threads)
    return KernelFacts(
        name=str(row["kernel"]),
        launches=len(places),
        grid=(x, y, z),
        line=int(row["line"]),
        share_of_device_time=round(sum(useful[at] for at in places) / total_us, 4),
        num_warps=row["options"]["num_warps"],
        num_stages=row["stages"],
        registers=machine.registers,
        spills=machine.spills,
        shared_bytes=machine.shared_bytes,
        occupancy=machine.occupancy,
        occupancy_limiter=machine.occupancy_limiter,
        waves=round(blocks / (ceilings.sms * resident), 2) if resident else None,
        tensor_core=machine.tensor_core,
        load_widths={str(width): count for width, count in machine.load_widths.items()},
        loaded_bytes=sum(t.load_sector_bytes - t.l1_bytes for t in traffics),
        stored_bytes=sum(t.requested_store_bytes for t in traffics),
        fewest_loaded_bytes=sum(t.distinct_load_bytes for t in traffics),
        dram_bytes=sum(dram_bytes(t, m, ceilings) for t, m, _ in launched),
        flops=sum(t.flops for t in traffics) or None,
        argument_reads=traffics[places.index(heaviest)].argument_reads,
        estimate_us=round(spent, 2),
        bound=cost.bound,
        tier="compiler+counted",
        spills_us=round(sum(spills_us(t, m, ceilings, n) for t, m, n in launched), 2),
        stages_us=round(sum(too_few_stages_us(t, m, ceilings, n) for t, m, n in launched), 2),
        rows_aligned=rows_aligned(row["tensors"]),
        product_types=tuple(sorted({kind for t in traffics for kind in t.dot_flops})),
        num_ctas=machine.num_ctas,
        spill_lines=machine.spill_lines,
    )


def rows_aligned(tensors: Sequence[Mapping[str, Any]]) -> bool | None:
    """Whether rows of any of them begin at multiples of 16 bytes; None where none has several, or most lies flat."""
    forms = [(tuple(t["shape"]), dtype_of(t["dtype"]).itemsize) for t in tensors]
    flat = [item * math.prod(shape) for shape, item in forms if len(shape) < 2]
    in_rows = [item * math.prod(shape) for shape, item in forms if len(shape) > 1]
    if max(flat, default=0) > max(in_rows, default=0):
        return None
    rows = [item * shape[-1] for shape, item in forms if len(shape) > 1 and shape[-1] > 1]
    return any(row % _WIDEST_BYTES == 0 for row in rows) if rows else None


def _work_share(
    traffics: Sequence[TrafficFacts], beside: Sequence[EagerRow], reference: Sequence[EagerRow]
) -> float | None:
    wanted = sum(row.dot_flops for row in reference)
    if not wanted:
        return None
    done = sum(sum(t.dot_flops.values()) + t.fp_operations for t in traffics)
    return (done + sum(row.dot_flops + row.fp_operations for row in beside)) / wanted
