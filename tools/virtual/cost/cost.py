"""From counted traffic and machine code to an ESTIMATE of time; nothing here was ever measured.

A launch takes its overhead plus whichever of its resources is busiest. Good for ranking variants and
for catching gross waste; `tools/estimates/ratios.py` says which differences count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from kernelagent.tools.virtual.compiled.sass import MachineFacts
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings
from kernelagent.tools.virtual.cost.in_turn import WARP, steps_seconds, turns_of, waves_seconds
from kernelagent.tools.virtual.cost.own_reuse import lost_between
from kernelagent.tools.virtual.cost.placement import placed
from kernelagent.tools.virtual.cost.traffic_facts import TrafficFacts

Bound = Literal["dram", "l2", "shared", "dot", "fp", "special", "atomics", "launch"]
_SPILLED_BYTES = 4
_SPILL_SLOTS = 4.0
"""Issue slots that one spill takes, its wait included (assumption)."""
_INTEGER_SHARE = 0.5
"""Integer operations a clock, against floating point ones (data sheet: 64 and 128 on sm_80 to sm_90)."""
_ADDRESSING = 32
"""Integer operations per lane of an access that count as addresses, which the compiler mostly removes (assumption)."""
_EXPOSED = {1: 1.0, 2: 0.3}
"""Share of the load time that matrix products do not hide, by `num_stages`, with one program on each multiprocessor
(assumption)."""
ENOUGH_STAGES = max(_EXPOSED) + 1
"""From so many stages on the estimate charges no loads that products wait for."""
_PRODUCTS = {"tf32x3": ("tf32", 3), "bf16x3": ("bf16", 3), "bf16x6": ("bf16", 6)}
"""What an fp32 product is split into."""


@dataclass(frozen=True)
class LaunchEstimate:
    """The predicted time of one launch, or of one torch operation."""

    us: float
    bound: Bound
    """The resource that takes longest; `launch`: the overhead, or the rounds of many small programs."""
    parts_us: dict[Bound, float]
    """What each resource alone would take; they overlap, but for the overhead itself."""
    label: Literal["estimate"] = "estimate"


def estimate_launch(
    traffic: TrafficFacts,
    machine: MachineFacts | None,
    ceilings: DeviceCeilings,
    stages: int | None = None,
) -> LaunchEstimate:
    """The predicted time of one Triton launch; without `machine`, of one that compiled well.

    `stages`: its `num_stages`; None where nothing is known of how loads and products overlap.
    """
    places = placed(traffic, machine, ceilings)
    balance = places.balance
    # What the heaviest program moves, its multiprocessors move alone.
    most_bytes = traffic.most_bytes / places.blocks_each
    l2_bytes = (
        traffic.load_sector_bytes
        + traffic.store_sector_bytes
        - traffic.l1_bytes
        + spilled_bytes(traffic, machine)
    )
    dram_per_s = places.bytes_per_s(
        ceilings.dram_bytes_per_s * ceilings.dram_efficiency, ceilings.sm_dram_bytes_per_s
    )
    l2_per_s = places.bytes_per_s(ceilings.l2_bytes_per_s, ceilings.sm_l2_bytes_per_s)
    moved = traffic.load_sector_bytes + traffic.store_sector_bytes - traffic.l1_bytes
    from_memory = dram_bytes(traffic, machine, ceilings)
    from_dram = min(1.0, from_memory / max(1, moved))
    stalled = _stalled_by_spills(machine) / places.issuing
    in_turn = steps_seconds(traffic, machine, places, ceilings)
    estimate = longest(
        {
            "dram": max(
                from_memory / dram_per_s,
                most_bytes * from_dram / ceilings.sm_dram_bytes_per_s,
            ),
            "l2": max(l2_bytes / l2_per_s, most_bytes / ceilings.sm_l2_bytes_per_s),
            "dot": stalled * _dot_seconds(traffic, machine, ceilings) / balance,
            "fp": stalled
            * (
                fp_seconds(
                    max(traffic.fp_operations, traffic.issued_fp), traffic.fp64_operations, ceilings
                )
                + _int_seconds(traffic, ceilings)
            )
            / balance,
            "shared": traffic.shared_clocks / (ceilings.sms * ceilings.clock_hz) / balance,
            "special": stalled
            * max(traffic.special_operations + traffic.special_slots, traffic.issued_special)
            / ceilings.special_per_s
            / balance,
            "atomics": max(
                traffic.atomics / ceilings.atomics_per_s,
                _hottest(traffic, machine) / ceilings.same_address_atomics_per_s,
            ),
            "launch": max(
                ceilings.launch_us * 1e-6,
                waves_seconds(traffic, machine, places, ceilings, stages),
                in_turn,
            ),
        },
        ceilings,
        # One trip to memory and what is done with it is in the cost of a launch.
        in_turn=max(0.0, in_turn - 1e-6 * ceilings.program_us),
    )
    return replace(estimate, us=estimate.us + _not_hidden(estimate, machine, stages))


def _not_hidden(
    estimate: LaunchEstimate, machine: MachineFacts | None, stages: int | None
) -> float:
    """Microseconds of loads that products wait for, because too few stages are loaded ahead.

    Programs that share a multiprocessor hide each other's loads.
    """
    parts = estimate.parts_us
    if stages is None or not parts["dot"]:
        return 0.0
    exposed = _EXPOSED.get(max(1, stages), 0.0)
    resident = 1 if machine is None else max(1, machine.resident_programs)
    return exposed * min(parts["dot"], max(parts["dram"], parts["l2"])) / resident


def spills_us(
    traffic: TrafficFacts, machine: MachineFacts, ceilings: DeviceCeilings, stages: int | None
) -> float:
    """Microseconds of a launch's estimate that it would not have if nothing were spilled."""
    if not machine.spills:
        return 0.0
    kept = replace(machine, spills=0, looped_spills=0)
    with_them, without = (
        estimate_launch(traffic, facts, ceilings, stages).us for facts in (machine, kept)
    )
    return with_them - without


def too_few_stages_us(
    traffic: TrafficFacts, machine: MachineFacts, ceilings: DeviceCeilings, stages: int
) -> float:
    """Microseconds of a launch's estimate that it would not have if loads were issued far enough ahead."""
    if stages >= ENOUGH_STAGES:
        return 0.0
    now, ahead = (
        estimate_launch(traffic, machine, ceilings, number).us for number in (stages, ENOUGH_STAGES)
    )
    return now - ahead


def _stalled_by_spills(machine: MachineFacts | None) -> float:
    """How much longer arithmetic takes when spills take its issue slots."""
    if machine is None or not machine.instructions:
        return 1.0
    return 1.0 + _SPILL_SLOTS * machine.spills / machine.instructions


def spilled_bytes(traffic: TrafficFacts, machine: MachineFacts | None) -> float:
    """What spilled registers move between the multiprocessors and L2, whole grid, in bytes.

    A spill inside a loop runs as often as the loop; how often that is follows from the bytes that
    were requested and the bytes that all load instructions together would load once.
    """
    if machine is None or machine.spills == 0:
        return 0.0
    lanes = traffic.programs * machine.num_ctas * machine.num_warps * WARP
    turns = turns_of(traffic, machine)
    executed = machine.spills - machine.looped_spills + machine.looped_spills * turns
    return executed * lanes * _SPILLED_BYTES


def longest(
    seconds: dict[Bound, float], ceilings: DeviceCeilings, in_turn: float = 0.0
) -> LaunchEstimate:
    """`in_turn`: seconds of what a program does one after another, beside what other resources take."""
    parts: dict[Bound, float] = {name: 1e6 * part for name, part in seconds.items()}
    bound = max(parts, key=lambda name: parts[name])
    # Rounds of programs run beside the rest; the overhead comes before it.
    beside = [part for name, part in parts.items() if name != "launch"]
    beside.append(1e6 * in_turn)
    if parts["launch"] > ceilings.launch_us:
        beside.append(parts["launch"])
    return LaunchEstimate(us=ceilings.launch_us + max(beside), bound=bound, parts_us=parts)


def dram_bytes(
    traffic: TrafficFacts, machine: MachineFacts | None, ceilings: DeviceCeilings
) -> int:
    """What crosses to and from memory, with as many programs at once as the device holds."""
    if traffic.distinct_load_bytes + traffic.distinct_store_bytes <= ceilings.l2_bytes:
        return traffic.dram_bytes
    places = placed(traffic, machine, ceilings)
    at_once = max(1, places.at_once // places.blocks_each)
    lost = lost_between(
        traffic.own_again,
        traffic.own_share,
        min(at_once, traffic.programs),
        ceilings.l2_bytes,
    )
    rest = traffic.load_sector_bytes - traffic.l1_bytes - traffic.dram_load_bytes
    return traffic.dram_bytes + min(lost, max(0, rest))


def _hottest(traffic: TrafficFacts, machine: MachineFacts | None) -> int:
    """Atomics that the busiest place does one after another.

    Those of a warp at one address are serialised (CUDA C++ Programming Guide, "SIMT Architecture") unless the compiler
    made one of them, and a slice of L2 takes the requests to one sector in turn (assumption).
    """
    combined = machine is None or machine.combined_atomics >= machine.atomics
    lanes = traffic.hottest_atomics if combined else traffic.hottest_updates
    return max(traffic.hottest_atomics, traffic.hottest_requests, lanes)


def _int_seconds(traffic: TrafficFacts, ceilings: DeviceCeilings) -> float:
    """Of integer operations beyond what addresses take."""
    operations = max(traffic.int_operations, traffic.issued_int)
    beyond = max(0, operations - _ADDRESSING * traffic.lanes)
    return 2 * beyond / (_INTEGER_SHARE * ceilings.fp32_flops_per_s)


def fp_seconds(operations: int, fp64_operations: int, ceilings: DeviceCeilings) -> float:
    # Peaks count a fused multiply-add twice; plain operations reach half of them.
    return (
        2 * operations / ceilings.fp32_flops_per_s + 2 * fp64_operations / ceilings.fp64_flops_per_s
    )


def _dot_seconds(
    traffic: TrafficFacts, machine: MachineFacts | None, ceilings: DeviceCeilings
) -> float:
    family = ceilings.tensor_core if machine is None else machine.tensor_core
    efficiency = ceilings.dot_efficiency
    if family != ceilings.tensor_core:
        efficiency *= ceilings.older_tensor_core
    # What splits factors is issued before the products that need it: the two do not overlap in one program.
    seconds = 2 * traffic.split_slots / ceilings.fp32_flops_per_s
    for spelled, counted in traffic.dot_flops.items():
        dtype, times = _PRODUCTS.get(spelled, (spelled, 1))
        flops = counted * times
        on_tensor_cores = family is not None and dtype in ceilings.dot_flops_per_s
        if on_tensor_cores:
            seconds += flops / (ceilings.dot_flops_per_s[dtype] * efficiency)
        else:
            peak = ceilings.fp64_flops_per_s if dtype == "fp64" else ceilings.fp32_flops_per_s
            seconds += flops / (peak * ceilings.dot_efficiency)
    return seconds
