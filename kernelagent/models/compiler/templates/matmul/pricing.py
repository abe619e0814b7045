"""What a product costs by estimate: as a kernel of ours in a configuration, and as torch's library does it.

Both are priced by what the judge prices them with: `tools/virtual/cost` and `tools/estimates`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from kernelagent.domain.tables.dtypes import FLOATS
from kernelagent.models.compiler.choices import Alternative, Config, power_of_two
from kernelagent.models.compiler.templates.matmul.products import (
    ROLES,
    Dims,
    Operand,
    Product,
    Role,
    Tiled,
)
from kernelagent.models.compiler.templates.matmul.tile_streams import (
    PROGRAMS,
    is_streamed,
    whole_tiles,
)
from kernelagent.tools.estimates.library import library_for
from kernelagent.tools.estimates.operations import Operand as Moved
from kernelagent.tools.estimates.operations import Operation
from kernelagent.tools.estimates.terms import terms_of
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings
from kernelagent.tools.virtual.cost.cost import estimate_launch
from kernelagent.tools.virtual.cost.splitting import SPLITTING
from kernelagent.tools.virtual.cost.traffic_facts import TrafficFacts

EXACT, SPLIT, ROUNDED = "ieee", "tf32x3", "tf32"
"""How fp32 factors are multiplied: on the fp32 units; as three tf32 products; rounded to tf32."""
_IN_WORDS = {
    EXACT: "on the fp32 units",
    SPLIT: "as three tf32 products on tensor cores, which keeps fp32's accuracy",
}
KINDS = {f"torch.{row.name}": row.product for row in FLOATS if row.bits == 16}
"""Types whose products are formed in one way only, and how tables of peak rates name them."""
SIZES = {f"torch.{row.name}": row.bits // 8 for row in FLOATS}
"""Bytes of an element."""
TILES = (
    (128, 256),
    (256, 128),
    (128, 128),
    (128, 64),
    (64, 128),
    (64, 64),
    (64, 32),
    (32, 64),
    (32, 32),
    (16, 64),
    (64, 16),
    (16, 32),
    (32, 16),
    (16, 16),
)
_SPLITS = (1, 2, 4, 8, 16, 32, 64)
_THREADS = 2048
"""Of a multiprocessor (data sheets, sm_80 and sm_90)."""
_TURN_CLOCKS = 1000
"""Of a turn of a product by a vector: about two trips to DRAM, as the judge counts them in its machine code (sm_90)."""
_MOST_ROUNDS = 16
"""Rounds of tiles over the whole GPU from which on what the last one leaves idle is too little to share out."""
_LEAST_TURNS = 4
"""Turns of the loop that a part of a split product keeps at least."""
MOST_ACCUMULATED = {EXACT: 128 * 64, SPLIT: 128 * 128, ROUNDED: 128 * 256, None: 128 * 256}
"""Elements of a tile that fit eight warps' registers beside the operands: more spill (compiled for sm_90)."""
_MOST_ALTERNATIVES = 6
_SLOWER = 1.5
"""Configurations estimated slower than the best by this factor are not offered."""
NEARLY = 1.02
"""A configuration must be estimated so much faster to be preferred to a simpler one."""
STREAM_GAIN = 1.1
"""And where programs share out tiles, which takes a second kernel and longer to judge."""


@dataclass(frozen=True)
class Priced:
    """A configuration and its estimated microseconds."""

    config: Config
    us: float


def offered(
    priced: Sequence[Priced], first: Priced, config: Config, name: str
) -> list[Alternative]:
    """The configurations beside `config` that are worth a turn, the most promising first."""
    result = []
    by_precision: dict[str | None, int] = {}
    for item in sorted(priced, key=lambda item: item.us):
        number = by_precision.get(item.config.precision, 0)
        first_of_its_kind = number == 0 and item.config.precision != first.config.precision
        if item.config == config or (item.us > _SLOWER * first.us and not first_of_its_kind):
            continue
        if number < _MOST_ALTERNATIVES:
            by_precision[item.config.precision] = number + 1
            result.append(Alternative(item.config, _words(name, item)))
    return result


def _words(name: str, item: Priced) -> str:
    blocks = item.config.blocks
    sizes = [blocks[block] for block in ("BLOCK_M", "BLOCK_N", "BLOCK_K") if block in blocks]
    tile = " × ".join(map(str, sizes))
    splits = blocks.get("SPLIT_K", 1)
    parts = "" if splits == 1 else f", the inner dimension in {splits} parts"
    if is_streamed(item.config):
        parts = f", shared out in equal parts to {blocks[PROGRAMS]} programs"
    precision = item.config.precision
    how = f", products {precision}" if precision is not None else ""
    return (
        f"`{name}` in tiles of {tile}{parts}{how}, {item.config.num_warps} warps: "
        f"{item.us:.0f} µs by estimate."
    )


def precisions(dtype: str, asked: str) -> tuple[str | None, ...]:
    """How products of this type may be formed; `asked`: torch's float32_matmul_precision."""
    if dtype != "torch.float32":
        return (None,)
    # "high" and "medium" are permissions to round, and cuBLAS rounds to tf32 under both.
    return (SPLIT, EXACT) if asked == "highest" else (ROUNDED, SPLIT, EXACT)


def how_multiplied(precision: str | None, why_rounded: str) -> str:
    """In words for a user; `why_rounded`: by what leave factors are rounded to tf32, where they are."""
    if precision == ROUNDED:
        return f"rounded to tf32, {why_rounded}"
    return _IN_WORDS.get(str(precision), "on tensor cores")


def ranked(
    product: Product, precision: str | None, held: int | None, gpu: DeviceCeilings
) -> list[Priced]:
    """Configurations from the fastest by estimate on; of nearly equal ones the larger tile first."""
    priced = [
        Priced(config, template_us(product, config, gpu))
        for config in _configurations(product, precision, held, gpu)
    ]
    return fastest_first(priced)


def fastest_first(priced: Sequence[Priced]) -> list[Priced]:
    """By estimate; those that are nearly as fast as the best stay in their order, before all others."""
    best = min((item.us for item in priced), default=0.0)
    return sorted(priced, key=lambda item: item.us if item.us > best * NEARLY else 0)


def template_us(product: Product, config: Config, gpu: DeviceCeilings) -> float:
    """Estimated microseconds of our kernel, and of the one that adds up its parts."""
    traffic = _traffic(product, config, gpu)
    us = estimate_launch(traffic, None, gpu, config.num_stages).us
    if _is_plain(config):
        us = max(us, gpu.launch_us + _waiting_us(product, config, gpu))
    size = _part_bytes(product, config)
    if not size:
        return us
    # The parts are read while L2 still has them, where they fit at all.
    rate = gpu.l2_bytes_per_s if size < gpu.l2_bytes / 2 else gpu.dram_bytes_per_s
    return us + gpu.launch_us + 1e6 * size / rate


def _part_bytes(product: Product, config: Config) -> int:
    """What is written of sums that a second kernel adds up."""
    dims, splits = product.full, config.blocks["SPLIT_K"]
    if is_streamed(config):
        # Each end of a share within a tile leaves two parts.
        return 2 * 4 * config.blocks[PROGRAMS] * config.blocks["BLOCK_M"] * config.blocks["BLOCK_N"]
    return 4 * splits * _elements(dims) if splits > 1 else 0


def together_us(products: Sequence[Product], config: Config, gpu: DeviceCeilings) -> float:
    """Estimated microseconds of one launch whose programs do the tiles of all these products."""
    each = [_traffic(product, config, gpu) for product in products]
    values = [{field.name: getattr(facts, field.name) for field in fields(facts)} for facts in each]
    counted = [name for name, value in values[0].items() if isinstance(value, int)]
    total = {name: sum(row[name] for row in values) for name in counted}
    flops: dict[str, int] = {}
    for facts in each:
        for kind, number in facts.dot_flops.items():
            flops[kind] = flops.get(kind, 0) + number
    return estimate_launch(TrafficFacts(**total, dot_flops=flops), None, gpu, config.num_stages).us


def _is_plain(config: Config) -> bool:
    """Whether it multiplies by a vector, without tensor cores."""
    return 1 in (config.blocks["BLOCK_M"], config.blocks["BLOCK_N"])


def _waiting_us(product: Product, config: Config, gpu: DeviceCeilings) -> float:
    """What programs wait for memory, turn after turn: Triton loads ahead only what `tl.dot` takes."""
    dims, blocks = product.full, config.blocks
    turns = -(-dims.inner // (blocks["BLOCK_K"] * blocks["SPLIT_K"]))
    at_once = gpu.sms * (_THREADS // (32 * config.num_warps))
    rounds = -(-_programs(product, config) // at_once)
    return 1e6 * rounds * turns * _TURN_CLOCKS / gpu.clock_hz


def library_us(product: Product, gpu: DeviceCeilings, rounds: bool) -> float:
    """Estimated microseconds of torch's own product; `rounds`: fp32 may become tf32."""
    dims = product.full
    size = SIZES[product.left.dtype]
    reads = dims.batch * (dims.rows * dims.inner + dims.inner * dims.cols)
    operation = Operation(
        "bmm" if product.batch is not None else "mm",
        "matmul",
        product.left.dtype.removeprefix("torch."),
        (Moved(0, size * reads, reads),),
        (Moved(1, size * _elements(dims), _elements(dims)),),
        dims.flops,
        {"m": dims.rows, "n": dims.cols, "k": dims.inner, "batch": dims.batch},
    )
    library = library_for(gpu)
    us = library.price("product", operation, terms_of(operation, gpu)).us
    faster = gpu.dot_rate("tf32") / gpu.dot_rate("fp32")
    return us / faster if rounds and product.left.dtype == "torch.float32" else us


def round_trip_us(product: Tiled, gpu: DeviceCeilings) -> float:
    """What writing the product and reading it back in a kernel of its own would take."""
    size = 2 * SIZES[product.out.dtype] * _elements(product.full)
    in_cache = size < gpu.l2_bytes / 2
    rate = gpu.l2_bytes_per_s if in_cache else gpu.dram_bytes_per_s * gpu.dram_efficiency
    return gpu.launch_us + 1e6 * size / rate


def _elements(dims: Dims) -> int:
    return dims.batch * dims.rows * dims.cols


def _configurations(
    product: Product, precision: str | None, held: int | None, gpu: DeviceCeilings
) -> Iterator[Config]:
    dims = product.full
    for rows, cols in _shapes(dims, held, precision):
        inner = _inner(product, rows, cols, precision)
        warps = 8 if rows * cols >= 128 * 128 or precision == EXACT else 4
        warps = 8 if 1 in (rows, cols) else warps
        for splits in _SPLITS:
            if splits > 1 and -(-dims.inner // inner) < splits * _LEAST_TURNS:
                break
            blocks = {"BLOCK_M": rows, "BLOCK_N": cols, "BLOCK_K": inner, "GROUP_M": 8}
            config = Config({**blocks, "SPLIT_K": splits}, warps, 3, precision)
            yield config
            if splits == 1 and _leaves_a_part_idle(product, config, gpu):
                yield replace(config, blocks={**config.blocks, PROGRAMS: gpu.sms})


def _leaves_a_part_idle(product: Product, config: Config, gpu: DeviceCeilings) -> bool:
    """Whether the last round of tiles does, and shares of equal length are long enough for a loop."""
    programs, turns = _programs(product, config), -(-product.full.inner // config.blocks["BLOCK_K"])
    shared = programs - whole_tiles(programs, gpu.sms)
    return (
        not _is_plain(config)
        and programs <= _MOST_ROUNDS * gpu.sms
        and programs % gpu.sms > 0
        and shared * turns >= _LEAST_TURNS * gpu.sms
    )


def _shapes(dims: Dims, held: int | None, precision: str | None) -> Sequence[tuple[int, int]]:
    if dims.cols == 1:
        return [(rows, 1) for rows in (64, 32, 16, 8, 4, 2, 1) if rows <= power_of_two(dims.rows)]
    if dims.rows == 1:
        widths = [held] if held else [128, 64, 32, 16]
        return [(1, cols) for cols in widths if held or cols <= max(16, power_of_two(dims.cols))]
    most = MOST_ACCUMULATED[precision]
    tall, wide = (max(16, power_of_two(size)) for size in (dims.rows, dims.cols))
    if held is not None:
        return [(rows, held) for rows in (128, 64, 32, 16) if rows * held <= most and rows <= tall]
    return [(r, c) for r, c in TILES if r * c <= most and r <= tall and c <= wide]


def _inner(product: Product, rows: int, cols: int, precision: str | None) -> int:
    """Elements of the inner dimension that a turn takes: what fits shared memory three times."""
    if 1 in (rows, cols):
        return max(16, min(4096 // (rows * cols), power_of_two(product.full.inner)))
    most = 16 if precision == EXACT else 32 if product.left.dtype == "torch.float32" else 64
    return max(16, min(most, power_of_two(product.full.inner)))


def _tiles(product: Product, config: Config) -> tuple[int, int]:
    """How many stand below one another, and side by side."""
    dims, blocks = product.full, config.blocks
    return -(-dims.rows // blocks["BLOCK_M"]), -(-dims.cols // blocks["BLOCK_N"])


def _programs(product: Product, config: Config) -> int:
    down, across = _tiles(product, config)
    tiles = product.full.batch * down * across
    if is_streamed(config):
        return config.blocks[PROGRAMS] + whole_tiles(tiles, config.blocks[PROGRAMS])
    return tiles * config.blocks["SPLIT_K"]


def _traffic(product: Product, config: Config, gpu: DeviceCeilings) -> TrafficFacts:
    """What the launch moves and computes, edges of tiles included."""
    dims, blocks = product.full, config.blocks
    down, across = _tiles(product, config)
    left, right = (_loaded(product, role) for role in ROLES)
    loads = dims.batch * dims.inner * (left * dims.rows * across + right * dims.cols * down)
    stores = _part_bytes(product, config)
    if blocks["SPLIT_K"] == 1:
        stores += _elements(dims) * SIZES[product.out.dtype]
    distinct = dims.batch * dims.inner * (left * dims.rows + right * dims.cols)
    # Programs of a group share rows; the other operand is read again by each group that does not find it in L2.
    panel = right * dims.inner * dims.cols * dims.batch
    groups = 1 if panel < gpu.l2_bytes / 2 else max(1, down // blocks["GROUP_M"])
    from_dram = min(loads, distinct + panel * (groups - 1))
    computed = dims.flops
    plain = _is_plain(config)
    if not plain:
        padded = dims.batch * down * blocks["BLOCK_M"] * across * blocks["BLOCK_N"]
        computed = 2 * padded * dims.inner
    kind = KINDS.get(product.left.dtype) or {EXACT: "fp32"}.get(str(config.precision))
    dot = {kind or str(config.precision): computed}
    tiles = dims.batch * down * across * -(-dims.inner // blocks["BLOCK_K"])
    taken = {"left": dims.rows * across, "right": dims.cols * down}
    filled = [
        (dims.batch * dims.inner * taken[role], filling)
        for role, filling in product.fillings.items()
    ]
    operations = sum(times * filling.operations for times, filling in filled)
    return launch_traffic(
        programs=_programs(product, config),
        requested=loads,
        sectors=loads,
        distinct=distinct,
        from_dram=from_dram,
        stored=stores,
        fp_operations=operations + (computed if plain else 0),
        special_operations=sum(times * filling.special for times, filling in filled),
        dot_flops={} if plain else dot,
        split_slots=0 if plain else tiles * split_slots(config),
    )


def _loaded(product: Product, role: Role) -> int:
    """Bytes that are read for each element of a factor."""
    filling = product.fillings.get(role)
    return SIZES[product.left.dtype] if filling is None else filling.loaded


def stored_us(operand: Operand, product: Product, gpu: DeviceCeilings) -> float:
    """Of writing a factor to memory."""
    dims = product.full
    side = dims.rows if operand is product.left else dims.cols
    written = dims.batch * dims.inner * side * SIZES[operand.dtype]
    return 1e6 * written / (gpu.dram_bytes_per_s * gpu.dram_efficiency)


def filling_us(product: Product, role: Role, gpu: DeviceCeilings) -> float:
    """Of a kernel of its own that writes a factor: what its tiles save that compute it themselves."""
    dims, filling = product.full, product.fillings[role]
    side = dims.rows if role == "left" else dims.cols
    elements = dims.batch * dims.inner * side
    moved = elements * (filling.loaded + SIZES[product.left.dtype])
    return gpu.launch_us + 1e6 * moved / (gpu.dram_bytes_per_s * gpu.dram_efficiency)


def launch_traffic(
    *,
    programs: int,
    requested: int,
    sectors: int,
    distinct: int,
    from_dram: int,
    stored: int,
    fp_operations: int = 0,
    special_operations: int = 0,
    dot_flops: Mapping[str, int] | None = None,
    split_slots: int = 0,
) -> TrafficFacts:
    """What a template's launch moves (bytes) and computes; nothing is said of masks, L1 and atomics."""
    return TrafficFacts(
        programs=programs,
        programs_run=programs,
        requested_load_bytes=requested,
        requested_store_bytes=stored,
        lanes=0,
        masked_lanes=0,
        load_sector_bytes=sectors,
        store_sector_bytes=stored,
        l1_bytes=0,
        distinct_load_bytes=distinct,
        distinct_store_bytes=stored,
        dram_load_bytes=from_dram,
        dram_store_bytes=stored,
        atomics=0,
        hottest_atomics=0,
        fp_operations=fp_operations,
        fp64_operations=0,
        int_operations=0,
        special_operations=special_operations,
        dot_flops=dict(dot_flops or {}),
        split_slots=split_slots,
    )


def split_slots(config: Config) -> int:
    """Instructions of lanes that one turn of a tile takes to split its factors and to mend its sums."""
    splitting = SPLITTING.get(str(config.precision))
    if splitting is None:
        return 0
    rows, cols, inner = (config.blocks[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K"))
    return splitting.slots((rows + cols) * inner, rows * cols)
