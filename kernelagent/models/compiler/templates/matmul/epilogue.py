"""The launch that reads a product, as the end of the product's own tile.

Inductor's kernel may follow a product if a tile holds all that the kernel reads of it: the tile's
elements one by one, or whole rows. `tile_form` rewrites its statements.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from kernelagent.models.compiler.capturing.capture import PolicyCannot
from kernelagent.models.compiler.kernels.rewriting import rewrite
from kernelagent.models.compiler.program.dataflow import names_in
from kernelagent.models.compiler.program.program import Kernel, Launch, Program
from kernelagent.models.compiler.templates import Context
from kernelagent.models.compiler.templates.layouts import Layouts, arguments_of, mentioned
from kernelagent.models.compiler.templates.matmul.fused_launch import (
    parameter_of,
    place_of,
    used_of,
)
from kernelagent.models.compiler.templates.matmul.products import Tiled
from kernelagent.models.compiler.templates.matmul.tile_form import Elsewhere, tile_form

LEAST_HELD, MOST_HELD = 16, 256
"""Rows that a tile holds whole: the accumulator of longer ones does not fit the registers."""


@dataclass(frozen=True)
class Epilogue:
    """A launch that a tile of the product does instead."""

    at: int
    """Its step in the program."""
    kernel: Kernel
    body: tuple[ast.stmt, ...]
    """In terms of `rows`, `cols`, `batch`, their masks, and `product`."""
    tensors: Mapping[str, ast.expr]
    """The launch's arguments that the body reads or writes, by the kernel's parameter."""
    factors: Mapping[str, ast.expr]
    """Sizes that its addresses are computed with, by parameter."""
    held: int | None
    """The block that holds a whole row, where it reduces rows."""
    uses_libdevice: bool


def epilogue_of(
    context: Context, layouts: Layouts, product: Tiled, also: frozenset[str] = frozenset()
) -> Epilogue | None:
    """The first launch that reads the product, where a tile of it can do what the launch does.

    `also`: storages that tiles read beside the product's operands.
    """
    program, what = context.program, context.what
    needed = {operand.storage for operand in product.operands} | also
    reader = _only_reader(program, layouts, product, needed) if product.contiguous else None
    if reader is None:
        return None
    at, step = reader
    kernel = program.kernels[step.kernel]
    arguments = arguments_of(program, step)
    pointer = parameter_of(layouts, arguments, product.out.storage)
    if pointer is None:
        return None
    if layouts.written(program, step) & needed:
        # Other tiles still read what this one would overwrite.
        return None
    try:
        plain = rewrite(kernel, what)
        place = place_of(kernel, pointer, arguments, product, context)
        if place.row_wise and not LEAST_HELD <= (plain.held or 0) <= MOST_HELD:
            return None
        body = tile_form(plain.body, place)
    except (PolicyCannot, Elsewhere):
        # What a tile cannot do stays a launch of its own.
        return None
    used = used_of(arguments, set().union(*(names_in(statement) for statement in body)))
    return Epilogue(
        at,
        kernel,
        tuple(body),
        used.tensors,
        used.factors,
        plain.held if place.row_wise else None,
        plain.uses_libdevice,
    )


def _only_reader(
    program: Program, layouts: Layouts, product: Tiled, needed: set[str]
) -> tuple[int, Launch] | None:
    """The launch that alone reads the product, if no step before it changes what its tiles read."""
    storage = product.out.storage
    reader: tuple[int, Launch] | None = None
    for at, node in mentioned(program):
        if at <= product.at or storage not in layouts.storages(node):
            continue
        step = program.steps[at] if at < len(program.steps) else None
        if step is not None and (layouts.is_alias(step) or (reader and at == reader[0])):
            continue
        if reader is None:
            between = program.steps[product.at + 1 : at]
            disturbed = any(layouts.written(program, s) & needed for s in between)
            if not isinstance(step, Launch) or disturbed:
                return None
            reader = at, step
        elif step is None or storage in layouts.read(program, step):
            # A later step reads the buffer as well. It must want the launch's result, written over the product.
            return reader if storage in layouts.written(program, reader[1]) else None
    return reader
