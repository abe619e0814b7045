"""The launch that writes a factor of a product, as the beginning of the product's own tiles.

A tile computes the factor's elements as it takes them, instead of reading what a kernel before it wrote:
casts, scales, activations, and rows that are normed by numbers of their own (`row_statistics`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from kernelagent.models.compiler.capturing.capture import PolicyCannot
from kernelagent.models.compiler.kernels.naming import renamed
from kernelagent.models.compiler.kernels.rewriting import rewrite
from kernelagent.models.compiler.program.dataflow import names_in, target_of
from kernelagent.models.compiler.program.program import (
    Allocate,
    Kernel,
    Launch,
    Program,
    Size,
    Step,
)
from kernelagent.models.compiler.templates import Context
from kernelagent.models.compiler.templates.layouts import (
    Layout,
    Layouts,
    arguments_of,
    mentioned,
    stands_in_order,
)
from kernelagent.models.compiler.templates.matmul.fused_launch import (
    parameter_of,
    place_of,
    used_of,
)
from kernelagent.models.compiler.templates.matmul.products import (
    Dims,
    Filling,
    Mixed,
    Operand,
    Product,
    Role,
)
from kernelagent.models.compiler.templates.matmul.tile_form import (
    ALL_ROWS,
    COL_MASK,
    COLS,
    FILLED,
    N_COLS,
    N_ROWS,
    OFFSETS,
    ROW_MASK,
    ROWS,
    Elsewhere,
    tile_form,
)

DEPTH, DEPTH_MASK = "depth", "depth_mask"
"""The place along the inner dimension, and whether it is inside."""
_WORDS: Mapping[tuple[Role, bool], Mapping[str, str]] = {
    ("left", False): {COLS: DEPTH, COL_MASK: DEPTH_MASK, N_COLS: "n_inner"},
    ("left", True): {
        ROWS: DEPTH,
        ROW_MASK: DEPTH_MASK,
        N_ROWS: "n_inner",
        COLS: ROWS,
        COL_MASK: ROW_MASK,
        N_COLS: N_ROWS,
    },
    ("right", False): {ROWS: DEPTH, ROW_MASK: DEPTH_MASK, N_ROWS: "n_inner"},
    ("right", True): {
        ROWS: COLS,
        ROW_MASK: COL_MASK,
        N_ROWS: N_COLS,
        COLS: DEPTH,
        COL_MASK: DEPTH_MASK,
        N_COLS: "n_inner",
    },
}
"""What a factor's own rows and columns are in the product, by factor and whether it lies transposed."""
_SPECIAL = re.compile(r"(?:tl|libdevice)\.(?:exp|log|sqrt|rsqrt|sin|cos|erf|tanh|pow|div)\w*")


@dataclass(frozen=True)
class Prologue:
    """A launch that tiles of a product do as they read a factor."""

    at: int
    """Its step in the program."""
    role: Role
    kernel: Kernel
    body: tuple[ast.stmt, ...]
    """In terms of `rows` or `cols`, `depth`, `batch` and their masks; the last statement gives `filled` its value."""
    tensors: Mapping[str, ast.expr]
    """The launch's arguments that the body reads, by the kernel's parameter."""
    factors: Mapping[str, ast.expr]
    """Sizes that its addresses are computed with, by parameter."""
    down: str
    """What each row of the factor, as it lies, stands at: `rows`, `cols` or `depth`."""
    across: str
    storages: frozenset[str]
    """What it reads."""
    filling: Filling
    uses_libdevice: bool

    @property
    def inside_is_zero(self) -> bool:
        """Whether it is zero beyond the inner dimension: a tensor as it stands there, in another type."""
        value = self._without_casts(FILLED)
        if not isinstance(value, ast.Call) or ast.unparse(value.func) != "tl.load":
            return False
        named = {keyword.arg: keyword.value for keyword in value.keywords}
        other = named.get("other")
        nothing = isinstance(other, ast.Constant) and other.value == 0
        return nothing and "mask" in named and DEPTH_MASK in names_in(named["mask"])

    @property
    def fills_the_tile(self) -> bool:
        """Whether it is computed for each row and each column, and so has a whole tile's shape."""
        used, waiting = set[str](), {FILLED}
        while waiting:
            name = waiting.pop()
            used.add(name)
            value = self._values.get(name)
            waiting |= set() if value is None else names_in(value) - used
        return OFFSETS in used or {self.down, self.across} <= used | (
            {self.down} if ALL_ROWS in used else set()
        )

    def _without_casts(self, name: str) -> ast.expr | None:
        value: ast.expr | None = self._values.get(name)
        while value is not None:
            match value:
                case ast.Call(func=ast.Attribute(value=inner, attr="to")):
                    value = inner
                case ast.Name(id=name):
                    value = self._values.get(name)
                case _:
                    break
        return value

    @cached_property
    def _values(self) -> dict[str, ast.expr]:
        return {n: s.value for s in self.body if isinstance(s, ast.Assign) and (n := target_of(s))}


@dataclass(frozen=True)
class _Factor:
    """A factor as matrices of its own: see `Matrices`."""

    batch: ast.expr | None
    full: Dims
    small: Dims

    @property
    def mixed(self) -> Mixed:
        return "nothing"


def prologue_of(
    context: Context, layouts: Layouts, product: Product, role: Role
) -> Prologue | None:
    """The launch that writes this factor, where only the product reads it and a tile can do what the launch does."""
    program, operand = context.program, operand_of(product, role)
    lies = lies_in_order(context, product, role)
    made = written_for(program, layouts, product, operand) if lies is not None else None
    if made is None or lies is None:
        return None
    at, step = made
    kernel = program.kernels[step.kernel]
    arguments = arguments_of(program, step)
    pointer = parameter_of(layouts, arguments, operand.storage)
    read = layouts.read(program, step)
    if pointer is None or layouts.written(program, step) != {operand.storage}:
        return None
    if not reads_what_is_known(layouts, arguments):
        return None
    if ends_torchs(program, layouts, at, read):
        return None
    if changed_between(program, layouts, at, product.at, read):
        return None
    factor = _factor(product, role, flipped=lies)
    try:
        place = place_of(kernel, pointer, arguments, factor, context, fills=True)
        plain = rewrite(kernel, context.what)
        body = tile_form(plain.body, place)
    except (PolicyCannot, Elsewhere):
        # What a tile cannot do stays a launch of its own.
        return None
    used = used_of(arguments, set().union(*(names_in(statement) for statement in body)))
    words = _WORDS[role, lies]
    return Prologue(
        at,
        role,
        kernel,
        tuple(renamed(statement, words) for statement in body),
        used.tensors,
        used.factors,
        words.get(ROWS, ROWS),
        words.get(COLS, COLS),
        read,
        _filling(body, lambda p: layouts.of(arguments[p])),
        plain.uses_libdevice,
    )


def operand_of(product: Product, role: Role) -> Operand:
    return product.left if role == "left" else product.right


def lies_in_order(context: Context, product: Product, role: Role) -> bool | None:
    """Whether a factor's elements stand one after another, transposed (True) or not; None where they do not."""
    operand = operand_of(product, role)
    if not isinstance(operand.node, ast.Name) or operand.given is not None:
        return None
    rows, cols = (product.rows, product.inner) if role == "left" else (product.inner, product.cols)
    axes = [(rows, operand.rows), (cols, operand.cols)]
    for flipped in (False, True):
        own = axes[::-1] if flipped else axes
        if product.batch is not None:
            own = [(product.batch, operand.batch), *own]
        shape, strides = zip(*own, strict=True)
        layout = Layout(operand.storage, shape, strides, operand.dtype)
        if stands_in_order(layout, context.sizes, context.what):
            return flipped
    return None


def written_for(
    program: Program, layouts: Layouts, product: Product, operand: Operand
) -> tuple[int, Launch] | None:
    """The launch that writes a factor for the product alone, as nothing else reads it afterwards."""
    others = {o.storage for o in (*product.operands, product.out) if o is not operand}
    if operand.storage in others:
        return None
    made: tuple[int, Launch] | None = None
    for at, step in enumerate(program.steps[: product.at]):
        if operand.storage in layouts.written(program, step):
            made = (at, step) if isinstance(step, Launch) else None
    if made is None:
        return None
    for at, node in mentioned(program):
        named = at < len(program.steps) and layouts.is_alias(program.steps[at])
        if at <= made[0] or at == product.at or named:
            continue
        if operand.storage in layouts.storages(node):
            return None
    return made


def reads_what_is_known(layouts: Layouts, arguments: Mapping[str, ast.expr]) -> bool:
    """Whether it is known in which memory each of a launch's tensors lies: of others no change is seen."""
    return all(layouts.of(node) is not None for name, node in arguments.items() if "ptr" in name)


def changed_between(
    program: Program, layouts: Layouts, first: int, last: int, storages: frozenset[str]
) -> bool:
    """Whether a step after the first and before the last may change one of these."""
    steps: Sequence[Step] = program.steps[first + 1 : last]
    return any(layouts.written(program, step) & storages for step in steps)


def ends_torchs(program: Program, layouts: Layouts, launch: int, storages: frozenset[str]) -> bool:
    """Whether the launch alone reads what torch computes: it may rather end the kernel that is written for that."""
    made = frozenset[str]().union(
        *(
            layouts.written(program, step)
            for step in program.steps[:launch]
            if not isinstance(step, Allocate | Size | Launch)
        )
    )
    read: dict[str, set[int]] = {storage: set() for storage in made & storages}
    for at, node in mentioned(program):
        step = program.steps[at] if at < len(program.steps) else None
        if step is not None and (layouts.is_alias(step) or layouts.written(program, step) & made):
            continue
        for storage in layouts.storages(node) & read.keys():
            read[storage].add(at)
    return any(places == {launch} for places in read.values())


def _factor(product: Product, role: Role, *, flipped: bool) -> _Factor:
    def dims(of: Dims) -> Dims:
        rows, cols = (of.rows, of.inner) if role == "left" else (of.inner, of.cols)
        rows, cols = (cols, rows) if flipped else (rows, cols)
        return Dims(of.batch, rows, cols, 1)

    return _Factor(product.batch, dims(product.full), dims(product.small))


def _filling(body: Sequence[ast.stmt], layout: Callable[[str], Layout | None]) -> Filling:
    """What an element costs: loads of whole matrices, and each operation and function once."""
    loaded = operations = special = 0
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.BinOp | ast.Compare):
                operations += 1
            elif isinstance(node, ast.Call):
                function = ast.unparse(node.func)
                if function == "tl.load":
                    loaded += _bytes_of(node, layout)
                special += _SPECIAL.fullmatch(function) is not None
    return Filling(loaded, operations, special)


def _bytes_of(load: ast.Call, layout: Callable[[str], Layout | None]) -> int:
    """Of an element of the factor: none for what all of a row or of a column share, which caches hold."""
    names = names_in(load.args[0])
    if not (names & {OFFSETS} or (names & {ROWS, ALL_ROWS} and COLS in names)):
        return 0
    known = [found for name in names if "ptr" in name and (found := layout(name)) is not None]
    return sum(getattr(torch, found.dtype.removeprefix("torch.")).itemsize for found in known)
