"""What a candidate would cost on the device it was compiled for: an estimate, at the user's sizes.

Its launches, the torch operations beside them and the reference's are counted by what they move;
`real_work` says in which calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kernelagent.domain.evaluation import (
    NO_TIME_TO_ESTIMATE,
    Disclosure,
    Estimate,
    HeadroomFacts,
    KernelFacts,
)
from kernelagent.domain.serialization import from_data
from kernelagent.tools.estimates.least import Least, facts_of_least, least_of
from kernelagent.tools.estimates.library import library_for
from kernelagent.tools.estimates.ratios import ratio
from kernelagent.tools.judge.bounds.counted_calls import Launches
from kernelagent.tools.judge.bounds.headroom import most_left
from kernelagent.tools.judge.bounds.real_work import (
    NEEDS_VALUES,
    NotCounted,
    Start,
    counted_calls,
    reference_rows,
    reference_stops,
)
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.describe import written_out
from kernelagent.tools.judge.problem.steps.training import WITH_BACKWARD
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.verify.rejection import Rejected, beyond_means
from kernelagent.tools.virtual.compiled.sass import MachineFacts
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings
from kernelagent.tools.virtual.cost.cost import (
    LaunchEstimate,
    estimate_eager,
    estimate_launch,
    spills_us,
    too_few_stages_us,
    whole_forward,
)
from kernelagent.tools.virtual.cost.eager import EagerRow
from kernelagent.tools.virtual.cost.traffic import TrafficFacts

_REWRITTEN = 0.6
"""With less than this share of the reference's operations a candidate must have used algebra."""
_SLOWER = 1.1
"""Two counts of the same work differ by less."""
_SCRATCH = 4
_SCRATCH_BYTES = 1 << 18
"""A call is reported if it allocates more than `_SCRATCH` times the bytes that the reference reads and writes, plus
`_SCRATCH_BYTES`."""


@dataclass(frozen=True)
class Account:
    """Estimates by input set, and the kernels behind the slowest one."""

    kernels: tuple[KernelFacts, ...] = ()
    estimates: dict[str, Estimate] = field(default_factory=dict)
    coverage: float | None = None
    """Smallest share of the estimated device time in the candidate's own kernels."""
    torch_operations: tuple[str, ...] | None = None
    """What torch still computes; None where it could not be counted."""
    headroom: HeadroomFacts | None = None
    disclosures: tuple[Disclosure, ...] = ()

    def without_estimates(self, why: Disclosure) -> Account:
        """The same where no time can be promised; shares of what was counted stay."""
        kept = tuple(
            replace(kernel, estimate_us=None, spills_us=None, stages_us=None)
            for kernel in self.kernels
        )
        disclosures = (*self.disclosures, why)
        return replace(self, kernels=kept, estimates={}, headroom=None, disclosures=disclosures)

    @property
    def worst(self) -> Estimate | None:
        """The estimate of the input set that gains least."""
        return min(self.estimates.values(), key=lambda e: e.ratio, default=None)


def account(
    context: JudgeContext,
    start: Start,
    idle: Mapping[str, frozenset[int]],
    expected: Mapping[str, int],
) -> Account:
    """Estimate every input set; where what would be counted is not what runs, says so instead.

    `start`: a process of the candidate, nothing loaded. `idle`: launches by set that the knock-out
    found to change nothing; they earn no share. `expected`: how many launches each set had where the
    candidate was judged.
    """
    try:
        calls = counted_calls(context, start)
    except NotCounted as why:
        cause = why.__cause__
        no_time = isinstance(cause, Rejected) and beyond_means(cause)
        return _without_estimate(str(why), NO_TIME_TO_ESTIMATE if no_time else "not_estimated")
    except Rejected as refused:
        if not beyond_means(refused):
            raise
        # It was verified before; what is not known is only what it costs.
        return _without_estimate(
            f"counting its work had no time left: {refused}", NO_TIME_TO_ESTIMATE
        )
    counted: list[CountedCosts] = []
    contents: list[str] = []
    scratch: list[Disclosure] = []
    smaller: list[Disclosure] = []
    for source in context.sources:
        call = calls[source.name]
        if not call.launches and expected.get(source.name, 0):
            return _without_estimate(
                f"in the call that is counted (input set {source.name!r}) nothing is launched"
            )
        without_effect = idle.get(source.name, frozenset())
        try:
            reference = reference_rows(context, source)
        except NEEDS_VALUES as error:
            return _without_estimate(reference_stops(source.name, error))
        scratch += _scratch_memory(source.name, call.allocated_bytes, reference)
        rows = call.torch_rows, reference
        ceilings = context.judge_device.promised
        natural = costs_of(context, source, call.launches, rows, ceilings, without_effect)
        smaller += _slower_where_less(source.name, call.smaller, natural, ceilings)
        dearest = natural
        contents += _by_values(source.name, call.launches)
        for other in call.dearer:
            same = len(other.launches) == len(call.launches)
            idle_there = without_effect if same else frozenset[int]()
            costs = costs_of(context, source, other.launches, rows, ceilings, idle_there)
            contents.append(_by_contents(source.name, other.where, natural, costs))
            if costs.estimate.candidate_us > dearest.estimate.candidate_us:
                dearest = costs
        counted.append(dearest)
    return Account(
        kernels=min(counted, key=lambda c: c.estimate.ratio).kernels,
        estimates={c.name: c.estimate for c in counted},
        coverage=min(c.coverage for c in counted),
        torch_operations=tuple(dict.fromkeys(name for c in counted for name in c.torch_operations)),
        headroom=_headroom(context, counted, ceilings),
        disclosures=(
            *_costs_by_contents(contents),
            *scratch[:1],
            *smaller[:1],
            *_library_share(counted),
            *_idle_launches(counted),
            *_less_work(counted),
            *(WITH_BACKWARD if context.trains else ()),
        ),
    )


def _scratch_memory(
    name: str, allocated: int, reference: Sequence[EagerRow]
) -> tuple[Disclosure, ...]:
    """A disclosure if a call allocates far more memory than the reference reads and writes in all."""
    usual = sum(row.loaded_bytes + row.stored_bytes for row in reference)
    if allocated <= _SCRATCH * usual + _SCRATCH_BYTES:
        return ()
    return (
        Disclosure(
            "scratch_memory",
            f"a call makes {allocated / 1e6:,.1f} MB of memory where all that the reference reads and writes "
            f"is {usual / 1e6:,.1f} MB (input set {name!r})",
        ),
    )


def _slower_where_less(
    name: str, smaller: Mapping[str, Launches], step: CountedCosts, ceilings: DeviceCeilings
) -> tuple[Disclosure, ...]:
    """Told where a forward alone, as a trained module is used, or fewer gradients take longer than a whole step."""
    for what, launches in smaller.items():
        costs = [_launch_cost(row, ceilings)[2] for row in launches]
        us = whole_forward(costs, (), ceilings).us
        if us > _SLOWER * step.estimate.candidate_us:
            return (
                Disclosure(
                    "slower_without_gradients",
                    f"{what} launches {len(launches)} kernel(s), an estimate of {us:.3g} us, where a forward with "
                    f"its whole backward takes {step.estimate.candidate_us:.3g} us (input set {name!r}): the "
                    f"estimate is of the latter",
                ),
            )
    return ()


def _by_contents(name: str, where: str, natural: CountedCosts, other: CountedCosts) -> str:
    us, less = other.estimate.candidate_us, natural.estimate.candidate_us
    return f"{where}, an estimate of {us:.3g} us instead of {less:.3g} (input set {name!r})"


def _by_values(name: str, launches: Launches) -> list[str]:
    """In words, the kernels with a loop that goes on for as long as loaded values say, whatever was drawn for them."""
    kernels = [
        str(row["kernel"])
        for row in launches
        if from_data(row["traffic"], TrafficFacts).loops_by_values
    ]
    return [
        f"loaded values say how many rounds a loop of `{kernel}` has (input set {name!r})"
        for kernel in dict.fromkeys(kernels)
    ]


def _costs_by_contents(causes: Sequence[str]) -> tuple[Disclosure, ...]:
    if not causes:
        return ()
    return (
        Disclosure(
            "costs_by_contents",
            f"what the kernels do depends on values: {'; '.join(causes)}; the dearest that was tried is "
            f"estimated, and other values may cost more",
        ),
    )


def _headroom(
    context: JudgeContext, counted: Sequence[CountedCosts], ceilings: DeviceCeilings
) -> HeadroomFacts | None:
    library = library_for(ceilings)
    return most_left(
        facts_of_least(c.name, c.least, c.estimate.candidate_us, c.estimate.eager_us, library)
        for c in counted
        if c.name in context.headroom and c.estimate.candidate_us > 0
    )


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
    costs = [_launch_cost(row, ceilings) for row in launches]
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
            bound=whole.bound,
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


def _launch_cost(row: Mapping[str, Any], ceilings: DeviceCeilings) -> _Cost:
    traffic = from_data(row["traffic"], TrafficFacts)
    machine = from_data(row["machine"], MachineFacts)
    stages = row["options"]["num_stages"]
    return traffic, machine, estimate_launch(traffic, machine, ceilings, stages)


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
    launched = [(*costs[at][:2], launches[at]["options"]["num_stages"]) for at in places]
    spent = sum(costs[at][2].us for at in places)
    traffics = [costs[at][0] for at in places]
    x, y, z = row["grid"]
    threads = 32 * row["options"]["num_warps"]
    resident = round(machine.occupancy * ceilings.threads_per_sm / threads)
    return KernelFacts(
        name=str(row["kernel"]),
        launches=len(places),
        grid=(x, y, z),
        line=int(row["line"]),
        share_of_device_time=round(sum(useful[at] for at in places) / total_us, 4),
        num_warps=row["options"]["num_warps"],
        num_stages=row["options"]["num_stages"],
        registers=machine.registers,
        spills=machine.spills,
        shared_bytes=machine.shared_bytes,
        occupancy=machine.occupancy,
        occupancy_limiter=machine.occupancy_limiter,
        waves=round(x * y * z / (ceilings.sms * resident), 2) if resident else None,
        tensor_core=machine.tensor_core,
        load_widths={str(width): count for width, count in machine.load_widths.items()},
        loaded_bytes=sum(t.load_sector_bytes - t.l1_bytes for t in traffics),
        stored_bytes=sum(t.requested_store_bytes for t in traffics),
        fewest_loaded_bytes=sum(t.distinct_load_bytes for t in traffics),
        dram_bytes=sum(t.dram_bytes for t in traffics),
        flops=sum(t.flops for t in traffics) or None,
        argument_reads=traffics[places.index(heaviest)].argument_reads,
        estimate_us=round(spent, 2),
        bound=cost.bound,
        tier="compiler+counted",
        spills_us=round(sum(spills_us(t, m, ceilings, n) for t, m, n in launched), 2),
        stages_us=round(sum(too_few_stages_us(t, m, ceilings, n) for t, m, n in launched), 2),
        product_types=tuple(sorted({kind for t in traffics for kind in t.dot_flops})),
    )


def kernels_of(launches: Sequence[Mapping[str, Any]]) -> tuple[KernelFacts, ...]:
    """What the verified launches alone say, where nothing could be counted."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for row in launches:
        rows.setdefault(str(row["kernel"]), []).append(row)
    return tuple(
        KernelFacts(
            name=name,
            launches=len(result),
            line=int(result[0]["line"]),
            num_warps=result[0]["options"]["num_warps"],
            num_stages=result[0]["options"]["num_stages"],
            shared_bytes=result[0]["metadata"]["shared"],
        )
        for name, result in rows.items()
    )


def _without_estimate(why: str, code: str = "not_estimated") -> Account:
    return Account(disclosures=(Disclosure(code, f"no estimate: {why}"),))


def _work_share(
    traffics: Sequence[TrafficFacts], beside: Sequence[EagerRow], reference: Sequence[EagerRow]
) -> float | None:
    wanted = sum(row.dot_flops for row in reference)
    if not wanted:
        return None
    done = sum(sum(t.dot_flops.values()) + t.fp_operations for t in traffics)
    return (done + sum(row.dot_flops + row.fp_operations for row in beside)) / wanted


def _less_work(counted: Sequence[CountedCosts]) -> tuple[Disclosure, ...]:
    shares = [c.work_share for c in counted if c.work_share is not None]
    if not shares or min(shares) >= _REWRITTEN:
        return ()
    return (
        Disclosure(
            "algebraic_rewrite",
            f"it needs {min(shares):.0%} of the floating point operations of the reference's matrix "
            f"products: the speed comes from algebra, which torch could do as well",
        ),
    )


def _idle_launches(counted: Sequence[CountedCosts]) -> tuple[Disclosure, ...]:
    names = [name for c in counted for name in c.idle]
    if not names:
        return ()
    return (
        Disclosure(
            "idle_launches",
            f"{len(names)} launch(es) of {', '.join(dict.fromkeys(names))} change nothing in the "
            f"result and earn no share of the device time",
        ),
    )


def _library_share(counted: Sequence[CountedCosts]) -> tuple[Disclosure, ...]:
    names = tuple(dict.fromkeys(name for c in counted for name in c.torch_operations))
    if not names:
        return ()
    share = max(c.library_share for c in counted)
    return (
        Disclosure(
            "library_share",
            f"torch computes {', '.join(names)}: {share:.0%} of the estimated device time",
        ),
    )
