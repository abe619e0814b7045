"""What the machine code of a compiled kernel says: registers, spills, occupancy, instruction mix.

Read from the cubin with the disassemblers that ship inside triton's wheel; needs no GPU.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kernelagent.domain.errors import EnvironmentFault
from kernelagent.tools.virtual.compiled.disassembling import printed_of
from kernelagent.tools.virtual.compiled.leading_lanes import atomics_of_leaders
from kernelagent.tools.virtual.compiled.load_waits import (
    LoadWaits,
    Places,
    Step,
    load_waits,
    places_of_loads,
)
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings, ceilings_for

_RESOURCES = re.compile(r"\bREG:(\d+)\s+STACK:(\d+)")
_LABEL = re.compile(r"^(\.L\w+):")
_INSTRUCTION = re.compile(
    r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(?:@(!?U?P\w+)\s+)?([A-Z][A-Z0-9_.]*)"
)
_LINE = re.compile(r'^\s*//## File "([^"]*)", line (\d+)')
_LIBRARY = "/triton/language/"
"""Functions of Triton's own, such as sums, are inlined with lines of their own files."""
_TARGET = re.compile(r"`\((\.L\w+)\)")
_WIDTH = re.compile(r"\.[US]?(8|16|64|128|256)(?=\.|$)")

_GLOBAL_LOADS = frozenset({"LDG", "LDGSTS"})
_GLOBAL_STORES = frozenset({"STG"})
_BULK_COPIES = frozenset({"UTMALDG", "UTMASTG", "UBLKCP"})
_ATOMICS = frozenset({"ATOM", "ATOMG", "RED", "REDG", "UTMAREDG"})
_SPILLS = frozenset({"STL", "LDL"})
_SPILL_LINES = 3
_TENSOR_CORES = {
    "tcgen05": ("UTC",),
    "wgmma": ("HGMMA", "QGMMA", "IGMMA", "BGMMA"),
    "mma.sync": ("HMMA", "IMMA", "QMMA", "DMMA", "OMMA"),
}


@dataclass(frozen=True)
class MachineFacts:
    """One compiled kernel, as its machine code and the target's limits describe it."""

    target: str
    registers: int
    """32-bit registers per thread. Few, together with many spills, means that ptxas gave up."""
    spills: int
    """Instructions that store to or load from spilled registers."""
    looped_spills: int
    """Those of them that stand inside a loop."""
    stack_bytes: int
    """Local memory per thread."""
    shared_bytes: int
    num_warps: int
    resident_programs: int
    """Programs one multiprocessor holds at a time."""
    occupancy: float
    """Share of the resident threads these programs fill, 0 to 1."""
    occupancy_limiter: str
    """`registers`, `shared memory`, `threads` or `blocks`."""
    tensor_core: str | None
    """`wgmma`, `tcgen05`, `mma.sync`; None when there are no matrix instructions."""
    load_widths: dict[str, int] = field(default_factory=dict)
    """Global loads, asynchronous copies included, by bits per thread."""
    store_widths: dict[str, int] = field(default_factory=dict)
    """Global stores by bits per thread."""
    bulk_copies: int = 0
    """Tensor-descriptor (TMA) and bulk copies: these have no width per thread."""
    barriers: int = 0
    atomics: int = 0
    combined_atomics: int = 0
    """Atomics of which one lane does what the whole warp wants, as ptxas has it for integers at one address."""
    special_functions: int = 0
    loops: int = 0
    """Branches back, of loops that were not unrolled or removed."""
    instructions: int = 0
    """All but the padding."""
    load_waits: tuple[LoadWaits, ...] = ()
    """How often each of its loops waits for what it loads, and what stands in none."""
    num_ctas: int = 1
    """Blocks of a program, each on a multiprocessor of its own; what stands above is of one of them."""
    spill_lines: tuple[int, ...] = ()
    """The fewest lines of the source that have more than half of the spills; none where these are many."""


def facts_of_cubin(
    cubin: bytes, metadata: Mapping[str, int], target: str, ptx: str = ""
) -> MachineFacts:
    """Facts of the first kernel in `cubin`; disassembled once per process and content.

    `ptx`: what it was assembled from, without which some loads are taken for those of a later line. `metadata` holds `num_warps`, `shared` (bytes, dynamic) and `num_ctas` as triton reports them. Raises
    `UsageError` for a target without constants, `EnvironmentFault` when a disassembler is missing.
    """
    ceilings = ceilings_for(target)
    code = _read_code(cubin, ptx)
    num_warps, shared = int(metadata["num_warps"]), int(metadata["shared"])
    resident, limiter = resident_programs(code.registers, shared, num_warps, ceilings)
    return MachineFacts(
        target=target,
        registers=code.registers,
        spills=code.count(_SPILLS),
        looped_spills=code.looped_spills,
        stack_bytes=code.stack_bytes,
        shared_bytes=shared,
        num_warps=num_warps,
        resident_programs=resident,
        occupancy=resident * num_warps * 32 / ceilings.threads_per_sm,
        occupancy_limiter=limiter,
        tensor_core=code.tensor_core(),
        load_widths=code.widths(_GLOBAL_LOADS),
        store_widths=code.widths(_GLOBAL_STORES),
        bulk_copies=code.count(_BULK_COPIES),
        barriers=code.count({"BAR"}),
        atomics=code.count(_ATOMICS),
        combined_atomics=code.combined_atomics,
        special_functions=code.count({"MUFU"}),
        loops=code.loops,
        instructions=sum(code.mnemonics.values()) - code.count({"NOP"}),
        load_waits=code.waits,
        num_ctas=int(metadata["num_ctas"]),
        spill_lines=code.spill_lines,
    )


def resident_programs(
    registers: int, shared_bytes: int, num_warps: int, ceilings: DeviceCeilings
) -> tuple[int, str]:
    """How many programs one multiprocessor holds at a time, and which limit is reached first."""
    per_warp = max(1, _round_up(registers * 32, ceilings.register_unit))
    warps_with_registers = _round_down(ceilings.registers_per_sm // per_warp, ceilings.warp_unit)
    shared = _round_up(shared_bytes + ceilings.shared_reserved_bytes, ceilings.shared_unit)
    limits = {
        "threads": ceilings.threads_per_sm // (num_warps * 32),
        "blocks": ceilings.blocks_per_sm,
        "shared memory": ceilings.shared_bytes_per_sm // shared,
        "registers": warps_with_registers // num_warps,
    }
    limiter = min(limits, key=lambda name: limits[name])
    return limits[limiter], limiter


@dataclass(frozen=True)
class _Code:
    """The part of a cubin that depends on nothing but the cubin."""

    registers: int
    stack_bytes: int
    mnemonics: Mapping[str, int]
    looped_spills: int
    spill_lines: tuple[int, ...]
    loops: int
    waits: tuple[LoadWaits, ...]
    combined_atomics: int

    def count(self, operations: Iterable[str]) -> int:
        wanted = frozenset(operations)
        return sum(n for name, n in self.mnemonics.items() if _operation(name) in wanted)

    def widths(self, operations: Iterable[str]) -> dict[str, int]:
        wanted = frozenset(operations)
        result: Counter[str] = Counter()
        for name, count in self.mnemonics.items():
            if _operation(name) in wanted:
                width = _WIDTH.search(name)
                result[width[1] if width else "32"] += count
        return dict(sorted(result.items(), key=lambda entry: int(entry[0])))

    def tensor_core(self) -> str | None:
        operations = {_operation(name) for name in self.mnemonics}
        for family, prefixes in _TENSOR_CORES.items():
            if any(o.startswith(prefixes) and "MMA" in o for o in operations):
                return family
        return None


_known: dict[str, _Code] = {}


def _read_code(cubin: bytes, ptx: str) -> _Code:
    key = hashlib.sha256(cubin).hexdigest()
    if key not in _known:
        printed = printed_of(cubin)
        _known[key] = _parse(printed.resources, printed.listing, places_of_loads(ptx))
    return _known[key]


def _parse(resources: str, listing: str, places: Places) -> _Code:
    usage = _RESOURCES.search(resources)
    if usage is None:
        raise EnvironmentFault(
            f"cuobjdump named no registers for a compiled kernel (it said {resources[:200]!r}); "
            f"this triton version is not supported, see `kernelagent doctor`"
        )
    mnemonics: Counter[str] = Counter()
    labels: dict[str, int] = {}
    spills: list[int] = []
    spilling: Counter[int] = Counter()
    loops: list[tuple[int, int]] = []
    steps: list[Step] = []
    listed: list[Step | str] = []
    source: int | None = None
    own = False
    position = 0
    for line in listing.splitlines():
        label, instruction = _LABEL.match(line), _INSTRUCTION.match(line)
        if label is not None:
            labels[label[1]] = position
            listed.append(label[1])
        if instruction is None:
            place = _LINE.match(line)
            if place:
                source, own = int(place[2]), _LIBRARY not in place[1]
            continue
        step = Step(instruction[2], line[instruction.end() :], source, instruction[1] or "")
        steps.append(step)
        listed.append(step)
        mnemonics[instruction[2]] += 1
        if _operation(instruction[2]) in _SPILLS:
            spills.append(position)
            if own and source is not None:
                spilling[source] += 1
        target = _TARGET.search(line)
        if target is not None and target[1] in labels and _operation(instruction[2]) == "BRA":
            loops.append((labels[target[1]], position))
        position += 1
    # A kernel ends in a branch to itself, which the padding follows: a loop of one, holding nothing.
    looped = sum(any(first <= spill < last for first, last in loops) for spill in spills)
    counted = sum(first < last for first, last in loops)
    return _Code(
        registers=int(usage[1]),
        stack_bytes=int(usage[2]),
        mnemonics=dict(mnemonics),
        looped_spills=looped,
        spill_lines=_most_of(spilling, len(spills)),
        loops=counted,
        waits=load_waits(steps, loops, places),
        combined_atomics=atomics_of_leaders(listed, _ATOMICS),
    )


def _most_of(spilling: Counter[int], count: int) -> tuple[int, ...]:
    """The fewest lines that have more than half of all spills; none where more than a few would be needed."""
    lines: list[int] = []
    held = 0
    for line, number in spilling.most_common(_SPILL_LINES):
        lines.append(line)
        held += number
        if 2 * held > count:
            return tuple(lines)
    return ()


def _operation(mnemonic: str) -> str:
    return mnemonic.partition(".")[0]


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _round_down(value: int, unit: int) -> int:
    return value // unit * unit
