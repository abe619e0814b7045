"""What an attention costs by estimate, as a kernel of ours and as torch's own does it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kernelagent.models.compiler.choices import Config, power_of_two
from kernelagent.models.compiler.templates.attention.attentions import Attention
from kernelagent.models.compiler.templates.matmul.pricing import (
    EXACT,
    KINDS,
    SIZES,
    Priced,
    fastest_first,
    launch_traffic,
)
from kernelagent.tools.estimates.library import library_for
from kernelagent.tools.estimates.operations import ATTENTION, Operand, Operation
from kernelagent.tools.estimates.terms import terms_of
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings
from kernelagent.tools.virtual.cost.cost import estimate_launch
from kernelagent.tools.virtual.cost.splitting import SPLITTING

_TILES = (
    (128, 128),
    (128, 64),
    (128, 32),
    (64, 64),
    (64, 32),
    (32, 64),
    (32, 32),
    (16, 32),
    (16, 16),
)
"""Queries and keys of a tile."""
_MOST_HELD = 128 * 128
"""Elements of the weighted values, and of the scores, that fit the registers of eight warps."""
SHARED_KEPT = 16 << 10
"""Bytes of a multiprocessor's shared memory that a launch leaves to the system and to reductions."""
_STEPS_OF_A_SCORE = 6
"""Scaled, masked, compared, subtracted, added up, cast."""


def ranked(attention: Attention, precision: str | None, gpu: DeviceCeilings) -> list[Priced]:
    """Configurations from the fastest by estimate on; of nearly equal ones the larger tile first."""
    priced = [
        Priced(config, kernel_us(attention, config, gpu))
        for config in _configurations(attention, precision, gpu)
    ]
    return fastest_first(priced)


def library_us(attention: Attention, gpu: DeviceCeilings) -> float:
    """Estimated microseconds of torch's own."""
    s, size = attention.full, SIZES[attention.query.dtype]
    numbers = (
        s.batch * s.heads * s.queries * s.dims,
        s.batch * s.shared_heads * s.keys * s.dims,
        s.batch * s.shared_heads * s.keys * s.value_dims,
    )
    out = s.batch * s.heads * s.queries * s.value_dims
    pairs = s.batch * s.heads * s.queries * s.keys // (2 if attention.call.causal else 1)
    facts = {
        "head": s.dims,
        "queries": s.queries,
        "keys": s.keys,
        "heads": s.batch * s.heads,
        "masked": float(attention.mask is not None),
        "causal": float(attention.call.causal),
    }
    operation = Operation(
        ATTENTION,
        "attention",
        attention.query.dtype.removeprefix("torch."),
        tuple(Operand(at, size * number, number) for at, number in enumerate(numbers)),
        (Operand(3, size * out, out),),
        2 * pairs * (s.dims + s.value_dims),
        facts,
    )
    return library_for(gpu).price("attention", operation, terms_of(operation, gpu)).us


def kernel_us(attention: Attention, config: Config, gpu: DeviceCeilings) -> float:
    """Estimated microseconds of our kernel."""
    s, size = attention.full, SIZES[attention.query.dtype]
    rows, cols, dims, value_dims = (
        config.blocks[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_D", "BLOCK_E")
    )
    heads, down = s.batch * s.heads, -(-s.queries // rows)
    turns = heads * sum(
        -(-min(s.keys, (at + 1) * rows if attention.call.causal else s.keys) // cols)
        for at in range(down)
    )
    query = size * heads * s.queries * s.dims
    others = size * s.batch * s.shared_heads * s.keys * (s.dims + s.value_dims)
    loads = query + size * turns * cols * (s.dims + s.value_dims)
    out = size * heads * s.queries * s.value_dims
    scores = turns * rows * cols
    kind = KINDS.get(attention.query.dtype) or {EXACT: "fp32"}.get(str(config.precision))
    splitting = SPLITTING.get(str(config.precision))
    slots = 0
    if splitting is not None:
        factors = rows * dims + cols * (dims + value_dims) + rows * cols
        slots = turns * splitting.slots(factors, rows * (cols + value_dims))
    facts = launch_traffic(
        programs=heads * down,
        requested=loads,
        sectors=loads,
        distinct=query + others,
        from_dram=query + others,
        stored=out,
        fp_operations=_STEPS_OF_A_SCORE * scores + 2 * turns * rows * value_dims,
        dot_flops={kind or str(config.precision): 2 * scores * (dims + value_dims)},
        split_slots=slots,
    )
    return estimate_launch(
        replace(facts, special_operations=scores), None, gpu, config.num_stages
    ).us


def _configurations(
    attention: Attention, precision: str | None, gpu: DeviceCeilings
) -> Iterator[Config]:
    s, size = attention.full, SIZES[attention.query.dtype]
    dims, value_dims = (max(16, power_of_two(d)) for d in (s.dims, s.value_dims))
    tall, wide = (max(16, power_of_two(n)) for n in (s.queries, s.keys))
    most = _MOST_HELD if size == 2 else _MOST_HELD // 2
    for rows, cols in _TILES:
        if rows > tall or cols > wide or rows * max(value_dims, cols) > most:
            continue
        for stages in (3, 2, 1):
            held = size * (rows * dims + stages * cols * (dims + value_dims))
            if held <= gpu.shared_bytes_per_sm - SHARED_KEPT:
                blocks = {"BLOCK_M": rows, "BLOCK_N": cols, "BLOCK_D": dims, "BLOCK_E": value_dims}
                warps = 8 if rows * max(cols, value_dims) > 64 * 64 else 4
                yield Config(blocks, warps, stages, precision)
                break
