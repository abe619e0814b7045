"""A launch that a product's tiles do: what is asked of it whether it precedes the product or follows it."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kernelagent.models.compiler.program.numbers import number
from kernelagent.models.compiler.program.program import Kernel
from kernelagent.models.compiler.templates import Context
from kernelagent.models.compiler.templates.layouts import Layouts
from kernelagent.models.compiler.templates.matmul.products import Matrices
from kernelagent.models.compiler.templates.matmul.tile_form import Elsewhere, Place


@dataclass(frozen=True)
class Used:
    """What statements name of a launch's arguments, by the kernel's parameter."""

    tensors: Mapping[str, ast.expr]
    factors: Mapping[str, ast.expr]
    """Sizes that addresses are computed with."""


def used_of(arguments: Mapping[str, ast.expr], names: Collection[str]) -> Used:
    """The arguments that stand under these names."""
    used = {name: value for name, value in arguments.items() if name in names}
    return Used(
        {name: value for name, value in used.items() if "ptr" in name},
        {name: value for name, value in used.items() if re.fullmatch(r"ks\d+", name)},
    )


def parameter_of(layouts: Layouts, arguments: Mapping[str, ast.expr], storage: str) -> str | None:
    """The one parameter that is given this storage, from its beginning on; None where there are others."""
    pointers = [n for n, v in arguments.items() if "ptr" in n and storage in layouts.storages(v)]
    layout = layouts.of(arguments[pointers[0]]) if len(pointers) == 1 else None
    return pointers[0] if layout is not None and layout.starts_at_zero else None


def place_of(
    kernel: Kernel,
    pointer: str,
    arguments: Mapping[str, ast.expr],
    matrices: Matrices,
    context: Context,
    *,
    fills: bool = False,
) -> Place:
    """Where the kernel's indices lie in these matrices, which it reads, or writes (`fills`); raises `Elsewhere`."""
    full, small = (
        {n: number(v, values, context.what) for n, v in arguments.items() if "ptr" not in n}
        for values in context.sizes
    )
    row_wise = kernel.kind == "persistent_reduction"
    if not (row_wise or kernel.kind == "pointwise") or kernel.axes != "x":
        raise Elsewhere
    if row_wise and (fills or matrices.mixed != "nothing"):
        raise Elsewhere
    if row_wise and context.captured.grows and matrices.full.cols != matrices.small.cols:
        # A tile that holds these rows does not hold longer ones.
        raise Elsewhere
    for values, dims in ((full, matrices.full), (small, matrices.small)):
        lengths = (dims.batch * dims.rows, dims.cols)
        covered = (values["xnumel"], values.get("r0_numel", 1))
        if covered != (lengths if row_wise else (lengths[0] * lengths[1], 1)):
            raise Elsewhere
    return Place(matrices, pointer, row_wise, (full, small), fills)
