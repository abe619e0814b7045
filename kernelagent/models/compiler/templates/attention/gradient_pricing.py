"""What the kernels of an attention's backward cost by estimate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kernelagent.models.compiler.choices import Config, power_of_two
from kernelagent.models.compiler.templates.attention.attention_pricing import SHARED_KEPT
from kernelagent.models.compiler.templates.attention.attentions import Gradient
from kernelagent.models.compiler.templates.matmul.pricing import (
    EXACT,
    KINDS,
    SIZES,
    SPLIT,
    Priced,
    fastest_first,
    launch_traffic,
)
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings
from kernelagent.tools.virtual.cost.cost import estimate_launch
from kernelagent.tools.virtual.cost.splitting import SPLITTING

_TILES = (
    (128, 64),
    (64, 128),
    (64, 64),
    (64, 32),
    (32, 64),
    (32, 32),
    (16, 32),
    (32, 16),
    (16, 16),
)
"""Queries and keys of a tile."""
_MOST_HELD = 160 * 128
"""Elements of the sums and the weights that fit the registers of eight warps (compiled for sm_90)."""
_MOST_SPLIT = {True: 64, False: 32}
"""Rows of the moving tile whose factors can be split without spilling in the loop: of keys, of queries."""
_STEPS_OF_A_SCORE = 7
"""Scaled, masked, subtracted, divided, compared with delta, multiplied, cast."""


def ranked(gradient: Gradient, precision: str | None, gpu: DeviceCeilings) -> list[Priced]:
    """Configurations from the fastest by estimate on; of nearly equal ones the larger tile first."""
    priced = [
        Priced(config, kernel_us(gradient, config, gpu))
        for config in _configurations(gradient, precision, gpu)
    ]
    return fastest_first(priced)


def kernel_us(gradient: Gradient, config: Config, gpu: DeviceCeilings) -> float:
    """Estimated microseconds of our kernel."""
    attention, of_query = gradient.attention, gradient.call.of_query
    s, size = attention.full, SIZES[attention.query.dtype]
    rows, cols, dims, value_dims = (
        config.blocks[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_D", "BLOCK_E")
    )
    heads, turns = s.batch * s.heads, s.batch * s.heads * _turns(gradient, rows, cols)
    both = s.dims + s.value_dims
    of_queries = heads * s.queries * (size * both + 3 * 4)
    of_keys = size * s.batch * s.shared_heads * s.keys * both
    moving = cols * size * both if of_query else rows * (size * both + 3 * 4)
    loads = turns * moving + (of_queries if of_query else of_keys)
    stored = size * heads * s.queries * s.dims if of_query else of_keys
    scores = turns * rows * cols
    products = 2 * dims + value_dims if of_query else 2 * (dims + value_dims)
    kind = KINDS.get(attention.query.dtype) or {EXACT: "fp32"}.get(str(config.precision))
    splitting = SPLITTING.get(str(config.precision))
    slots = 0
    if splitting is not None:
        # Each product splits both of its factors, of which the weights and their slopes are two.
        factors = 2 * (rows * (dims + value_dims) + cols * (dims + value_dims)) + 2 * rows * cols
        slots = turns * splitting.slots(factors, 2 * rows * cols + cols * (dims + value_dims))
    down = -(-s.queries // rows) if of_query else -(-s.keys // cols)
    facts = launch_traffic(
        programs=down * (heads if of_query else s.batch * s.shared_heads),
        requested=loads,
        sectors=loads,
        distinct=of_queries + of_keys,
        from_dram=of_queries + of_keys,
        stored=stored,
        fp_operations=_STEPS_OF_A_SCORE * scores,
        dot_flops={kind or str(config.precision): 2 * scores * products},
        split_slots=slots,
    )
    return estimate_launch(
        replace(facts, special_operations=scores), None, gpu, config.num_stages
    ).us


def _turns(gradient: Gradient, rows: int, cols: int) -> int:
    """Tiles of scores of one head of queries that are computed."""
    s = gradient.attention.full
    down, across = -(-s.queries // rows), -(-s.keys // cols)
    if not gradient.attention.call.causal:
        return down * across
    return sum(min(across, -(-((at + 1) * rows) // cols)) for at in range(down))


def _configurations(
    gradient: Gradient, precision: str | None, gpu: DeviceCeilings
) -> Iterator[Config]:
    s, size = gradient.attention.full, SIZES[gradient.attention.query.dtype]
    dims, value_dims = (max(16, power_of_two(d)) for d in (s.dims, s.value_dims))
    tall, wide = (max(16, power_of_two(n)) for n in (s.queries, s.keys))
    of_query = gradient.call.of_query
    most = _MOST_HELD // 2 if precision == EXACT else _MOST_HELD
    for rows, cols in _TILES:
        sums = rows * dims if of_query else cols * (dims + value_dims)
        if rows > tall or cols > wide or sums + rows * cols > most:
            continue
        still, moving = (rows, cols) if of_query else (cols, rows)
        if precision == SPLIT and moving > _MOST_SPLIT[of_query]:
            continue
        for stages in (2, 1):
            held = size * ((still + stages * moving) * (dims + value_dims) + 2 * rows * cols)
            if held <= gpu.shared_bytes_per_sm - SHARED_KEPT:
                blocks = {"BLOCK_M": rows, "BLOCK_N": cols, "BLOCK_D": dims, "BLOCK_E": value_dims}
                warps = 8 if sums + 2 * rows * cols > 64 * 64 else 4
                yield Config(blocks, warps, stages, precision)
                break
