"""What a recurrence costs by estimate: as launches of our kernel in a configuration, and as torch's library does it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kernelagent.models.compiler.choices import Config, power_of_two
from kernelagent.models.compiler.templates.matmul.pricing import (
    EXACT,
    KINDS,
    NEARLY,
    SIZES,
    Priced,
    launch_traffic,
)
from kernelagent.tools.estimates.library import library_for
from kernelagent.tools.estimates.operations import Operand, Operation
from kernelagent.tools.estimates.recurrent import GATES
from kernelagent.tools.estimates.terms import terms_of
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings
from kernelagent.tools.virtual.cost.cost import estimate_launch
from kernelagent.tools.virtual.cost.splitting import SPLITTING

_ROWS = (16, 32, 64)
_UNITS = (16, 32, 64)
_INNER = (64, 32, 16)
"""Longer turns spill: what three products of a factor need stays in registers."""
_STAGES = 2
_SHARED_KEPT = 16 << 10
"""Bytes of a multiprocessor's shared memory that a launch leaves to the system."""
_STEPS_OF_A_UNIT = 10
"""Sums of the gates' parts, and what is made of them."""


@dataclass(frozen=True)
class Dims:
    """Numbers of one recurrence."""

    kind: str
    steps: int
    rows: int
    units: int
    chains: int
    both_ways: bool
    dtype: str

    @property
    def stacked(self) -> bool:
        return self.chains > 1 and not self.both_ways

    @property
    def launches(self) -> int:
        """The last layer begins when the others have done a step each."""
        return self.steps + (self.chains - 1 if self.stacked else 0)

    @property
    def products(self) -> int:
        """Of a row's states with all gates' weights, in one launch."""
        return 2 * self.chains - 1 if self.stacked else self.chains


def ranked(dims: Dims, precision: str | None, gpu: DeviceCeilings) -> list[Priced]:
    """Configurations from the fastest by estimate on; of nearly equal ones that with the longer turn first."""
    priced = [
        Priced(config, kernel_us(dims, config, gpu))
        for config in _configurations(dims, precision, gpu)
    ]
    best = min((item.us for item in priced), default=0.0)
    return sorted(priced, key=lambda item: item.us if item.us > best * NEARLY else 0)


def kernel_us(dims: Dims, config: Config, gpu: DeviceCeilings) -> float:
    """Estimated microseconds of all launches; after the first, weights are read from L2 where they fit."""
    size, gates = SIZES[dims.dtype], GATES[dims.kind]
    rows, cols, inner = (config.blocks[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K"))
    down, across = -(-dims.rows // rows), -(-dims.units // cols)
    weights = size * dims.products * gates * dims.units * dims.units
    states = size * dims.products * dims.rows * dims.units
    loads = weights * down + states * across
    stored = size * dims.chains * dims.rows * dims.units
    computed = 2 * dims.products * gates * down * rows * across * cols * dims.units
    kind = KINDS.get(dims.dtype) or {EXACT: "fp32"}.get(str(config.precision))
    splitting, slots = SPLITTING.get(str(config.precision)), 0
    if splitting is not None:
        turns = dims.products * down * across * -(-dims.units // inner)
        slots = turns * gates * splitting.slots((rows + cols) * inner, rows * cols)
    facts = launch_traffic(
        programs=dims.chains * down * across,
        requested=loads,
        sectors=loads,
        distinct=weights + states,
        from_dram=0 if weights < gpu.l2_bytes / 2 else weights,
        stored=stored,
        fp_operations=_STEPS_OF_A_UNIT * gates * dims.chains * dims.rows * dims.units,
        dot_flops={kind or str(config.precision): computed},
        split_slots=slots,
    )
    special = (gates + 1) * dims.chains * dims.rows * dims.units
    facts = replace(facts, special_operations=special, dram_store_bytes=0)
    return dims.launches * estimate_launch(facts, None, gpu, config.num_stages).us


def library_us(dims: Dims, gpu: DeviceCeilings) -> float:
    """Estimated microseconds of torch's own, without the products with its inputs."""
    size, gates = SIZES[dims.dtype], GATES[dims.kind]
    weights = dims.products * gates * dims.units * dims.units
    states = dims.chains * dims.steps * dims.rows * dims.units
    operation = Operation(
        dims.kind,
        "recurrent",
        dims.dtype.removeprefix("torch."),
        (Operand(0, size * weights, weights),),
        (Operand(1, size * states, states),),
        2 * weights * dims.rows * dims.steps,
        {
            "steps": dims.steps,
            "batch": dims.rows,
            "hidden": dims.units,
            "layers": 1 if dims.both_ways else dims.chains,
            "directions": 2 if dims.both_ways else 1,
            "gates": gates,
        },
    )
    return library_for(gpu).price("recurrent", operation, terms_of(operation, gpu)).us


def _configurations(dims: Dims, precision: str | None, gpu: DeviceCeilings) -> Iterator[Config]:
    size, gates = SIZES[dims.dtype], GATES[dims.kind]
    tall, wide = (max(16, power_of_two(n)) for n in (dims.rows, dims.units))
    for rows in _ROWS:
        for cols in _UNITS:
            for inner in _INNER:
                held = size * _STAGES * inner * (rows + gates * cols) * (2 if dims.stacked else 1)
                fits = held <= gpu.shared_bytes_per_sm - _SHARED_KEPT
                if fits and rows <= tall and cols <= wide and inner <= wide:
                    blocks = {"BLOCK_M": rows, "BLOCK_N": cols, "BLOCK_K": inner}
                    yield Config(blocks, 4, _STAGES, precision)
