"""What a launch does one after another, however little it moves: rounds of programs, turns of their loops, chains of steps."""

from __future__ import annotations

from kernelagent.tools.virtual.compiled.sass import MachineFacts
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings
from kernelagent.tools.virtual.cost.dataflow import DEPENDENT_CLOCKS, EXCHANGE_CLOCKS
from kernelagent.tools.virtual.cost.placement import Placement
from kernelagent.tools.virtual.cost.traffic_facts import TrafficFacts
from kernelagent.tools.virtual.cost.waiting import waiting_clocks

WARP = 32
_UNROLLED = 16
"""Rounds of a loop whose loads are waited for together, at most: what the compiler unrolls (assumption; ptxas mostly 4)."""


def waves_seconds(
    traffic: TrafficFacts,
    machine: MachineFacts | None,
    places: Placement,
    ceilings: DeviceCeilings,
    stages: int | None,
) -> float:
    """Seconds that the rounds of programs need at least, however little each of them does.

    A program waits for memory once in each turn of its loops. Loads for products are issued
    `stages` turns ahead, and so are bulk copies, whatever they are for; one kind does not hide the other.
    """
    turns = heaviest = 1.0
    if machine is not None:
        pipelined = max(1, stages or 1)
        ahead = pipelined if traffic.dot_flops else 1
        programs = max(1, traffic.programs)

        def waits(loads: float, copies: float) -> float:
            # A load of one number for the whole program asks for few bytes and takes as long.
            texts = max(1, sum(machine.load_widths.values()))
            copies = copies if machine.bulk_copies else 0
            copied = copies / max(1, machine.bulk_copies)
            return max((loads - copies) / texts / ahead, copied / pipelined)

        mean = waits(traffic.loads / programs, traffic.copies / programs)
        # Of loops that load, however many other loads stand in the kernel's text.
        together = pipelined * min(_UNROLLED, max(1, sum(machine.load_widths.values())))
        turns = max(
            1.0,
            turns_of(traffic, machine) / ahead,
            mean,
            traffic.loading_rounds / programs / together,
        )
        heaviest = max(
            waits(traffic.most_loads, traffic.most_copies), traffic.most_loading_rounds / together
        )
    return max(places.rounds * turns, heaviest) * ceilings.program_us * 1e-6


def steps_seconds(
    traffic: TrafficFacts,
    machine: MachineFacts | None,
    places: Placement,
    ceilings: DeviceCeilings,
) -> float:
    """Seconds of what each program does step by step: rounds of its loops, exchanges between its threads, and the
    longest chain of operations that each need the one before."""
    each = places.blocks_each
    per_round = DEPENDENT_CLOCKS if machine is None or machine.loops else 0
    clocks = (
        EXCHANGE_CLOCKS * traffic.exchanges
        + per_round * traffic.rounds
        + traffic.shared_clocks / each
        + traffic.combining_clocks
    )
    waiting, longest_waiting = waiting_clocks(traffic, machine)
    mean = max(clocks, traffic.chain_clocks, waiting) / max(1, traffic.programs)
    heaviest = max(
        EXCHANGE_CLOCKS * traffic.most_exchanges
        + per_round * traffic.most_rounds
        + traffic.most_shared_clocks / each
        + traffic.most_combining_clocks,
        traffic.longest_chain_clocks,
        longest_waiting,
        _work_of_one(traffic, places),
    )
    return max(places.rounds * mean, heaviest) / ceilings.clock_hz


def _work_of_one(traffic: TrafficFacts, places: Placement) -> float:
    """Clocks that the arithmetic of the heaviest program takes, with its multiprocessors to itself."""
    return traffic.most_work / (WARP * places.schedulers * places.blocks_each)


def turns_of(traffic: TrafficFacts, machine: MachineFacts) -> float:
    """How often a program goes through its load instructions, on average.

    It follows from the bytes that were requested and those that all of them together load once.
    """
    lanes = traffic.programs * machine.num_ctas * machine.num_warps * WARP
    width = sum(int(bits) // 8 * count for bits, count in machine.load_widths.items())
    copied = traffic.copied_bytes if machine.bulk_copies else 0
    return max(1.0, (traffic.requested_load_bytes - copied) / (width * lanes)) if width else 1.0
