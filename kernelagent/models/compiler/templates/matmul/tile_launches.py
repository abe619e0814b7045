"""The host's lines that launch a product's kernels, with what they are given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernelagent.models.compiler.choices import Config
from kernelagent.models.compiler.templates import Namer
from kernelagent.models.compiler.templates.matmul.products import ROLES
from kernelagent.models.compiler.templates.matmul.tile_source import Source
from kernelagent.models.compiler.templates.matmul.tile_streams import PROGRAMS, is_streamed

_SUMMED = 1024
"""Elements of a tile of the kernel that adds up parts."""


@dataclass(frozen=True)
class Given:
    """What a product's kernels are given, as the host spells it."""

    factors: list[str]
    """The tensors of both factors."""
    ends: list[str]
    """Those that the end of a tile reads and writes."""
    numbers: list[str]
    strides: list[str]
    end_strides: list[str]
    sizes: list[str]
    """That addresses of computed factors are computed with."""
    end_sizes: list[str]

    @classmethod
    def of(cls, plan: Source, namer: Namer, sizes: Mapping[str, str]) -> Given:
        """`sizes`: the host's words for the kernel's."""
        product = plan.product
        nodes = {"left": product.left.node, "right": product.right.node}
        own = [node for role in plan.computed.values() for node in role.prologue.factors.values()]
        return cls(
            factors=[
                namer.host(node)
                for role in ROLES
                for node in (
                    plan.computed[role].tensors if role in plan.computed else [nodes[role]]
                )
            ],
            ends=_end_tensors(plan, namer),
            numbers=[sizes["n_rows"], sizes["n_cols"], sizes["n_inner"]],
            strides=_strides(plan, ROLES),
            end_strides=_strides(plan, ("addend", "out")),
            sizes=[namer.host(node) for node in own],
            end_sizes=[]
            if plan.end is None
            else [namer.host(node) for node in plan.end.factors.values()],
        )


def parts_source(
    plan: Source, name: str, config: Config, namer: Namer, sizes: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Kernels by name, and the host's lines that launch them; `sizes`: the host's words for the kernel's."""
    blocks = config.blocks
    given = Given.of(plan, namer, sizes)
    taken = [f"{block}={blocks[block]}" for block in plan.blocks(config)]
    taken += [f"num_warps={config.num_warps}", f"num_stages={config.num_stages}"]
    tiles = tile_count(plan, sizes, config)
    kernels = plan.kernels(name, config)
    if is_streamed(config):
        return kernels, _streamed(plan, name, config, namer, given, tiles, taken, sizes)
    if blocks["SPLIT_K"] == 1:
        passed = [*given.factors, *given.ends, *given.numbers, *given.strides]
        passed += [*given.end_strides, *given.sizes, *given.end_sizes, *taken]
        return kernels, [f"{name}[({tiles},)]({', '.join(passed)})"]
    parts, splits = namer.local("parts"), blocks["SPLIT_K"]
    batch = [sizes["n_batch"]] if "n_batch" in sizes else []
    shape = ", ".join([str(splits), *batch, *given.numbers[:2]])
    passed = [*given.factors, parts, *given.numbers, *batch, *given.strides, *given.sizes, *taken]
    rows, cols = _summed(plan)
    summed = [parts, *given.ends, *given.numbers[:2], *batch, *given.end_strides, *given.end_sizes]
    summed += [f"BLOCK_M={rows}", f"BLOCK_N={cols}", f"SPLIT_K={splits}"]
    return kernels, [
        f"{parts} = torch.empty(({shape}), dtype=torch.float32, device=device)",
        f"{name}[({tiles}, {splits})]({', '.join(passed)})",
        f"{name}_sum[({_tiles(plan, sizes, rows, cols)},)]({', '.join(summed)})",
    ]


def tile_count(plan: Source, sizes: Mapping[str, str], config: Config) -> str:
    """How many tiles all matrices have, as the host spells it."""
    return _tiles(plan, sizes, config.blocks["BLOCK_M"], config.blocks["BLOCK_N"])


def _streamed(
    plan: Source,
    name: str,
    config: Config,
    namer: Namer,
    given: Given,
    tiles: str,
    taken: list[str],
    sizes: Mapping[str, str],
) -> list[str]:
    """Of programs that share out turns, and of the kernel that adds up what they leave."""
    blocks = config.blocks
    programs, rows = blocks[PROGRAMS], min(blocks["BLOCK_M"], max(1, _SUMMED // blocks["BLOCK_N"]))
    parts, whole = namer.local("parts"), namer.local("whole")
    numbers = [*given.numbers, *([sizes["n_batch"]] if "n_batch" in sizes else [])]
    passed = [*given.factors, parts, *given.ends, *numbers, *given.strides, *given.end_strides]
    passed += [*given.sizes, *given.end_sizes, *taken]
    summed = [parts, *given.ends, *numbers, *given.end_strides, *given.end_sizes]
    kept = [b for b in plan.blocks(config) if b in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M")]
    summed += [f"{block}={blocks[block]}" for block in (*kept, PROGRAMS)]
    strips = (programs - 1) * (blocks["BLOCK_M"] // rows)
    shape = f"{2 * programs}, {blocks['BLOCK_M']}, {blocks['BLOCK_N']}"
    return [
        f"{parts} = torch.empty(({shape}), dtype=torch.float32, device=device)",
        f"{whole} = max({tiles} // {programs} - 1, 0) * {programs}",
        f"{name}[({programs} + {whole},)]({', '.join(passed)})",
        f"{name}_sum[({strips},)]({', '.join([*summed, f'ROWS={rows}'])})",
    ]


def _strides(plan: Source, roles: tuple[str, ...]) -> list[str]:
    return [t for r in roles if r in plan.strides for t in plan.strides[r].parameters.values()]


def _end_tensors(plan: Source, namer: Namer) -> list[str]:
    product = plan.product
    nodes = [] if product.addend is None else [product.addend.node]
    nodes += [product.out.node] if plan.end is None else list(plan.end.tensors.values())
    return [namer.host(node) for node in nodes]


def _summed(plan: Source) -> tuple[int, int]:
    """The tile of the kernel that adds up parts."""
    held = plan.end.held if plan.end is not None else None
    if held is not None:
        return max(1, _SUMMED // held), held
    return {"column": (_SUMMED, 1), "row": (1, _SUMMED), "tiles": (8, _SUMMED // 8)}[plan.form]


def _tiles(plan: Source, sizes: Mapping[str, str], rows: int, cols: int) -> str:
    axes = [("n_rows", rows), ("n_cols", cols)]
    if plan.end is not None and plan.end.held is not None:
        # One tile has whole rows.
        axes = axes[:1]
    counts = [
        sizes[name] if block == 1 else f"triton.cdiv({sizes[name]}, {block})"
        for name, block in axes
    ]
    counts = [count for count in counts if count != "1"] or ["1"]
    return " * ".join([*counts, *([sizes["n_batch"]] if "n_batch" in sizes else [])])
