"""The host's lines that launch a product's kernels, with what they are given."""

from __future__ import annotations

from collections.abc import Mapping

from kernelagent.models.compiler.choices import Config
from kernelagent.models.compiler.templates import Namer
from kernelagent.models.compiler.templates.matmul.products import ROLES
from kernelagent.models.compiler.templates.matmul.tile_source import Source

_SUMMED = 1024
"""Elements of a tile of the kernel that adds up parts."""


def parts_source(
    plan: Source, name: str, config: Config, namer: Namer, sizes: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Kernels by name, and the host's lines that launch them; `sizes`: the host's words for the kernel's."""
    product, blocks = plan.product, config.blocks
    splits = blocks["SPLIT_K"]
    nodes = {"left": product.left.node, "right": product.right.node}
    read = [
        namer.host(node)
        for role in ROLES
        for node in (plan.computed[role].tensors if role in plan.computed else [nodes[role]])
    ]
    tensors = _end_tensors(plan, namer)
    numbers = [sizes["n_rows"], sizes["n_cols"], sizes["n_inner"]]
    strides = [t for r in ROLES if r in plan.strides for t in plan.strides[r].parameters.values()]
    end_strides = [
        text
        for role in ("addend", "out")
        if role in plan.strides
        for text in plan.strides[role].parameters.values()
    ]
    own = [namer.host(n) for role in plan.computed.values() for n in role.prologue.factors.values()]
    factors = [] if plan.end is None else [namer.host(node) for node in plan.end.factors.values()]
    taken = [f"{block}={blocks[block]}" for block in plan.blocks(config)]
    taken += [f"num_warps={config.num_warps}", f"num_stages={config.num_stages}"]
    tiles = _tiles(plan, sizes, blocks["BLOCK_M"], blocks["BLOCK_N"])
    if splits == 1:
        given = [*read, *tensors, *numbers, *strides, *end_strides, *own, *factors, *taken]
        return plan.kernels(name, config), [f"{name}[({tiles},)]({', '.join(given)})"]
    parts = namer.local("parts")
    batch = [sizes["n_batch"]] if "n_batch" in sizes else []
    shape = ", ".join([str(splits), *batch, sizes["n_rows"], sizes["n_cols"]])
    given = [*read, parts, *numbers, *batch, *strides, *own, *taken]
    rows, cols = _summed(plan)
    summed = [parts, *tensors, *numbers[:2], *batch, *end_strides, *factors]
    summed += [f"BLOCK_M={rows}", f"BLOCK_N={cols}", f"SPLIT_K={splits}"]
    return plan.kernels(name, config), [
        f"{parts} = torch.empty(({shape}), dtype=torch.float32, device=device)",
        f"{name}[({tiles}, {splits})]({', '.join(given)})",
        f"{name}_sum[({_tiles(plan, sizes, rows, cols)},)]({', '.join(summed)})",
    ]


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
