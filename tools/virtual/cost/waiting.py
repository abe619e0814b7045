"""The trips to memory that the programs of a launch have to wait for one after another, at least.

Machine code says how often each loop waits for how many loads (`compiled/load_waits.py`), the interpreter how many
bytes these loads ask for: what a program asks for over what it waits for together is how often it waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from kernelagent.tools.virtual.compiled.load_waits import LoadWaits
from kernelagent.tools.virtual.compiled.sass import MachineFacts
from kernelagent.tools.virtual.cost.ceilings import SECTOR_BYTES
from kernelagent.tools.virtual.cost.traffic_facts import TrafficFacts

L1_CLOCKS = 33
"""Of a load that L1 serves (assumption; 38 to 43 on an A100, an RTX 4090 and an H100, arXiv 2402.13499)."""
L2_CLOCKS = 200
"""Of a load that L2 serves, and of an atomic (A100 and H100: 200, table 3 of doi:10.1016/j.ultsonch.2023.106546)."""
DRAM_CLOCKS = 450
"""Of a load that comes from DRAM (assumption; 466 on an A100, 479 on an H100, arXiv 2402.13499)."""
_FETCHED_BYTES = 64
"""That L2 fetches from DRAM at a time, as the driver has it unless told otherwise (assumption; CUDA Runtime API,
`cudaLimitMaxL2FetchGranularity`: up to 128)."""
_THREADS = 32


def waiting_clocks(traffic: TrafficFacts, machine: MachineFacts | None) -> tuple[float, float]:
    """Clocks of all programs together, and of the line of one program that waits longest."""
    if machine is None or not machine.load_waits:
        return 0.0, 0.0
    of_all = _clocks(traffic.asked_bytes, traffic, machine, traffic.programs)
    of_one = _clocks(traffic.most_asked_bytes, traffic, machine, 1)
    return sum(of_all.values()), max(of_one.values(), default=0.0)


def _clocks(
    asked: Mapping[str, int], traffic: TrafficFacts, machine: MachineFacts, programs: int
) -> dict[str, float]:
    """By line, of lines that cannot be told apart by the first."""
    group_of = _groups(asked, machine)
    sizes, lanes_on = Counter[str](), Counter[str]()
    for line, size in asked.items():
        # A load of which all lanes are switched off is not waited for.
        sizes[group_of[line]] += round(size * traffic.share_met.get(line, 1.0))
        lanes_on[group_of[line]] += round(size * traffic.share_on.get(line, 1.0))
    loops = [_by_group(item, group_of) for item in machine.load_waits]
    # Copies that the compiler makes of a loop for its last rounds wait more often than the loop itself.
    ways = {
        group: min(
            (loop[group] for loop in loops if group in loop),
            key=lambda each: each.waits / each.bits,
        )
        for group in sizes
        if any(group in loop for loop in loops)
    }
    beyond_l1, from_dram = _shares(traffic)
    left = beyond_l1 * sum(lanes_on[group] for group in ways)
    left_in_dram = from_dram * left
    # Which loads leave L1 is not known: those of which most are waited for together have the fewest trips.
    result: dict[str, float] = {}
    for group, way in sorted(ways.items(), key=lambda item: -item[1].together):
        size = sizes[group]
        threads = machine.num_ctas * machine.num_warps * _THREADS
        waits = 8 * size * way.waits / way.bits / threads
        on = lanes_on[group]
        if not on:
            continue
        leaving, from_memory = min(on, left), min(on, left_in_dram)
        left, left_in_dram = left - leaving, left_in_dram - from_memory
        trips = waits * min(1.0, way.together * leaving / on)
        trips = min(trips, programs * _a_program(traffic, traffic.load_sector_bytes, SECTOR_BYTES))
        far = min(trips, waits * way.together * from_memory / on)
        far = min(far, programs * _a_program(traffic, traffic.dram_load_bytes, _FETCHED_BYTES))
        result[group] = far * DRAM_CLOCKS + (trips - far) * L2_CLOCKS + (waits - trips) * L1_CLOCKS
    return result


def _a_program(traffic: TrafficFacts, size: int, unit: int) -> float:
    return size / unit / max(1, traffic.programs)


@dataclass
class _Way:
    """The loads of one line in one loop, once round."""

    bits: int = 0
    loads: int = 0
    waits: int = 0

    @property
    def together(self) -> float:
        """How many loads are waited for at a time."""
        return self.loads / max(1, self.waits)


def _by_group(item: LoadWaits, group_of: Mapping[str, str]) -> dict[str, _Way]:
    result: dict[str, _Way] = {}
    for place, bits in item.bits.items():
        line = next((line for line in place.split(",") if line in group_of), None)
        if line is not None:
            way = result.setdefault(group_of[line], _Way())
            way.bits += bits
            way.loads += item.loads[place]
            way.waits += item.waits.get(place, 0)
    return result


def _groups(asked: Mapping[str, int], machine: MachineFacts) -> dict[str, str]:
    """Lines that the place of some load may both be belong together."""
    result = {line: line for line in asked}
    for item in machine.load_waits:
        for place in item.bits:
            met = {result[line] for line in place.split(",") if line in result}
            if len(met) > 1:
                first = min(met)
                result = {line: first if group in met else group for line, group in result.items()}
    return result


def _shares(traffic: TrafficFacts) -> tuple[float, float]:
    """The least share of loads that L1 does not serve, and of these the share that comes from DRAM."""
    sectors = traffic.load_sector_bytes
    # What a program loads again it may find in L1, whose size is not asked.
    again = (1 - traffic.share_first) * sectors
    beyond = min(sectors - max(traffic.l1_bytes, again), traffic.requested_load_bytes)
    if sectors <= 0 or beyond <= 0:
        return 0.0, 0.0
    return beyond / sectors, min(1.0, traffic.dram_load_bytes / beyond)
