"""What a convolution costs by estimate, as a kernel of ours and as torch's library does it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kernelagent.models.compiler.choices import Config, power_of_two
from kernelagent.models.compiler.templates.convolution.convolutions import Convolution
from kernelagent.models.compiler.templates.matmul.pricing import (
    EXACT,
    KINDS,
    MOST_ACCUMULATED,
    NEARLY,
    SIZES,
    TILES,
    Priced,
    launch_traffic,
    split_slots,
)
from kernelagent.tools.estimates.library import library_for
from kernelagent.tools.estimates.operations import Operand, Operation
from kernelagent.tools.estimates.terms import terms_of
from kernelagent.tools.virtual.cost.ceilings import SECTOR_BYTES, DeviceCeilings
from kernelagent.tools.virtual.cost.cost import estimate_launch
from kernelagent.tools.virtual.cost.traffic_facts import TrafficFacts

_PLANES = (
    (1, 4096),
    (1, 2048),
    (1, 1024),
    (1, 512),
    (2, 512),
    (4, 256),
    (8, 128),
    (16, 64),
    (32, 32),
)
"""Tiles of a kernel that goes channel by channel: planes, and positions of each."""


def ranked(conv: Convolution, precision: str | None, gpu: DeviceCeilings) -> list[Priced]:
    """Configurations from the fastest by estimate on; of nearly equal ones the larger tile first."""
    priced = [Priced(c, kernel_us(conv, c, gpu)) for c in _configurations(conv, precision)]
    best = min(item.us for item in priced)
    return sorted(priced, key=lambda item: item.us if item.us > best * NEARLY else 0)


def kernel_us(conv: Convolution, config: Config, gpu: DeviceCeilings) -> float:
    """Estimated microseconds of our kernel."""
    facts = _by_channel(conv, config) if conv.depthwise else _as_product(conv, config)
    return estimate_launch(facts, None, gpu, config.num_stages).us


def library_us(conv: Convolution, gpu: DeviceCeilings) -> float:
    """Estimated microseconds of torch's own convolution and of the kernel that adds the bias."""
    s, call, size = conv.sizes, conv.call, SIZES[conv.x.dtype]
    x, weight, out = _elements(conv)
    sizes = [*conv.window] if len(conv.window) > 1 else [1, *conv.window]
    facts = {
        "dims": len(conv.window),
        "transposed": float(call.transposed),
        "groups": s.groups,
        "channels_in": s.channels_in,
        "channels_out": s.channels_out,
        "window": conv.taps,
        "longest": max(conv.window),
        "shortest": min(sizes),
        "stride": max(call.stride),
        "dilation": max(call.dilation),
        "padded": float(any(call.padding)),
        "batch": s.images,
        "places_in": math.prod(s.places_in),
        "places_out": math.prod(s.places_out),
        "width": s.places_out[-1],
        "bias": float(conv.bias is not None),
        "depthwise": float(s.groups > 1 and s.groups == s.channels_in and not call.transposed),
        "in_bytes": size * x,
        "out_bytes": size * out,
        "weight_bytes": size * weight,
    }
    operation = Operation(
        "convolution",
        "convolution",
        conv.x.dtype.removeprefix("torch."),
        (Operand(0, size * x, x), Operand(1, size * weight, weight)),
        (Operand(2, size * out, out),),
        _flops(conv),
        facts,
    )
    return library_for(gpu).price("convolution", operation, terms_of(operation, gpu)).us


def _elements(conv: Convolution) -> tuple[int, int, int]:
    """Of the input, the weight and the output."""
    s = conv.sizes
    channels = s.channels_in * s.channels_out // s.groups
    return (
        s.images * s.channels_in * math.prod(s.places_in),
        channels * conv.taps,
        s.images * s.channels_out * math.prod(s.places_out),
    )


def _flops(conv: Convolution) -> int:
    s = conv.sizes
    places = math.prod(s.places_in if conv.call.transposed else s.places_out)
    return 2 * s.images * s.channels_out * places * s.channels_in // s.groups * conv.taps


def _configurations(conv: Convolution, precision: str | None) -> Iterator[Config]:
    dims = conv.full
    if conv.depthwise:
        most = max(32, power_of_two(dims.cols))
        for planes, positions in _PLANES:
            if positions <= most:
                warps = 4 if planes * positions <= 2048 else 8
                yield Config({"BLOCK_M": planes, "BLOCK_N": positions}, warps, 1)
        return
    tall = max(16, power_of_two(dims.rows // conv.sizes.groups))
    wide = max(16, power_of_two(dims.batch * dims.cols))
    most = 16 if precision == EXACT else 32 if conv.x.dtype == "torch.float32" else 64
    inner = max(16, min(most, power_of_two(dims.inner)))
    for rows, cols in TILES:
        if rows * cols <= MOST_ACCUMULATED[precision] and rows <= tall and cols <= wide:
            warps = 8 if rows * cols >= 128 * 128 or precision == EXACT else 4
            blocks = {"BLOCK_M": rows, "BLOCK_N": cols, "BLOCK_K": inner}
            yield Config(blocks, warps, 3, precision)


def _as_product(conv: Convolution, config: Config) -> TrafficFacts:
    s, dims, blocks = conv.sizes, conv.full, config.blocks
    size = SIZES[conv.x.dtype]
    columns = dims.batch * dims.cols
    down = -(-(dims.rows // s.groups) // blocks["BLOCK_M"])
    across = -(-columns // blocks["BLOCK_N"])
    turns = -(-dims.inner // blocks["BLOCK_K"])
    patches = s.groups * down * dims.inner * columns
    if conv.call.transposed:
        # Of a window over the output, one element in so many meets an element of the input.
        patches //= math.prod(conv.call.stride)
        apart = 1
    else:
        apart = min(conv.call.stride[-1], SECTOR_BYTES // size)
    weights = across * dims.rows * dims.inner
    x, weight, out = (size * number for number in _elements(conv))
    computed = s.groups * down * blocks["BLOCK_M"] * across * blocks["BLOCK_N"]
    computed *= 2 * turns * blocks["BLOCK_K"]
    kind = KINDS.get(conv.x.dtype) or {EXACT: "fp32"}.get(str(config.precision))
    return launch_traffic(
        programs=s.groups * down * across,
        requested=size * (patches + weights),
        sectors=size * (patches * apart + weights),
        distinct=x + weight,
        from_dram=x + weight,
        stored=out,
        dot_flops={kind or str(config.precision): computed},
        split_slots=s.groups * down * across * turns * split_slots(config),
    )


def _by_channel(conv: Convolution, config: Config) -> TrafficFacts:
    dims, blocks = conv.full, config.blocks
    size = SIZES[conv.x.dtype]
    x, weight, out = (size * number for number in _elements(conv))
    planes = dims.batch * dims.rows
    programs = -(-planes // blocks["BLOCK_M"]) * -(-dims.cols // blocks["BLOCK_N"])
    apart = min(conv.call.stride[-1], SECTOR_BYTES // size)
    patches = out * conv.taps
    if conv.call.transposed:
        patches //= math.prod(conv.call.stride)
        apart = 1
    lanes = programs * blocks["BLOCK_M"] * blocks["BLOCK_N"]
    return launch_traffic(
        programs=programs,
        requested=patches,
        sectors=patches * apart,
        distinct=x + weight,
        from_dram=x + weight,
        stored=out,
        fp_operations=2 * conv.taps * lanes,
    )
