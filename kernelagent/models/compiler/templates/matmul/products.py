"""The matrix products of a captured program: `mm`, `addmm`, `bmm` and `baddbmm` as one record.

`linear`, `matmul` and `einsum` arrive as these four, with views that say how their operands lie.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from kernelagent.models.compiler.program.numbers import number
from kernelagent.models.compiler.program.program import Program, Torch
from kernelagent.models.compiler.templates import Values
from kernelagent.models.compiler.templates.layouts import (
    ONE,
    ZERO,
    Layout,
    Layouts,
    stands_in_order,
)

_CALLS = {
    "extern_kernels.mm": 0,
    "extern_kernels.bmm": 0,
    "extern_kernels.addmm": 1,
    "extern_kernels.baddbmm": 1,
}
"""The library's products, and how many operands come before the two factors."""
DTYPES = ("torch.float32", "torch.float16", "torch.bfloat16")
"""What tensor cores multiply and add up in float32; others are left to the library."""


Mixed = Literal["nothing", "columns", "rows"]
Role = Literal["left", "right"]
"""A factor of a product."""
ROLES: tuple[Role, Role] = ("left", "right")


@dataclass(frozen=True)
class Operand:
    """A tensor as a product reads or writes it: a pointer, and a stride for each axis."""

    node: ast.expr
    """Spelled by the host: a tensor, or a view of one where it does not start at its beginning."""
    storage: str
    batch: ast.expr
    rows: ast.expr
    cols: ast.expr
    dtype: str
    given: str | None


@dataclass(frozen=True)
class Dims:
    """Sizes of a product at one set of sizes."""

    batch: int
    rows: int
    cols: int
    inner: int

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.rows * self.cols * self.inner


@dataclass(frozen=True)
class Filling:
    """What a factor costs that is computed as it is multiplied: for each of its elements, whenever a tile takes it."""

    loaded: int
    """Bytes."""
    operations: int
    special: int
    """Exponentials, roots and the like."""


class Matrices(Protocol):
    """Matrices of rows and columns that stand in memory one after another."""

    @property
    def batch(self) -> ast.expr | None:
        """How many; None where there is one only."""
        ...

    @property
    def full(self) -> Dims:
        """At the user's sizes."""
        ...

    @property
    def small(self) -> Dims:
        """At those that are executed."""
        ...

    @property
    def mixed(self) -> Mixed:
        """What one tile has of several matrices."""
        ...


class Tiled(Matrices, Protocol):
    """A result that is computed tile by tile, as matrices of rows and columns."""

    @property
    def at(self) -> int:
        """Its step in the program."""
        ...

    @property
    def operands(self) -> tuple[Operand, ...]:
        """What it reads."""
        ...

    @property
    def out(self) -> Operand: ...

    @property
    def contiguous(self) -> bool:
        """The output's elements stand one after another, from the first of its storage on."""
        ...


@dataclass(frozen=True)
class Product:
    """`alpha * left @ right + beta * addend`, for each matrix of a batch."""

    at: int
    """Its step in the program."""
    left: Operand
    right: Operand
    addend: Operand | None
    out: Operand
    batch: ast.expr | None
    """None where there is one matrix only."""
    rows: ast.expr
    cols: ast.expr
    inner: ast.expr
    alpha: str = "1"
    beta: str = "1"
    contiguous: bool = True
    """The output's elements stand one after another, from the first of its storage on."""
    full: Dims = Dims(1, 1, 1, 1)
    """At the user's sizes."""
    small: Dims = Dims(1, 1, 1, 1)
    """At those that are executed."""
    fillings: Mapping[Role, Filling] = field(default_factory=dict)
    """Of the factors that are computed as they are multiplied; the others are loaded."""

    @property
    def mixed(self) -> Mixed:
        return "nothing"

    @property
    def operands(self) -> tuple[Operand, ...]:
        """What it reads."""
        return tuple(o for o in (self.left, self.right, self.addend) if o is not None)


def products(
    program: Program, layouts: Layouts, sizes: tuple[Values, Values], what: str
) -> Iterator[Product]:
    """Each product that a kernel of ours may compute, in order; `sizes`: the user's and the executed."""
    for at, step in enumerate(program.steps):
        if not (isinstance(step, Torch) and isinstance(step.statement, ast.Expr)):
            continue
        call = step.statement.value
        if isinstance(call, ast.Call) and ast.unparse(call.func) in _CALLS:
            result = _product(at, call, layouts, sizes, what)
            if result is not None:
                yield result


def _product(
    at: int, call: ast.Call, layouts: Layouts, sizes: tuple[Values, Values], what: str
) -> Product | None:
    before = _CALLS[ast.unparse(call.func)]
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    nodes = [*call.args[: before + 2], keywords["out"]]
    known = [layouts.of(node) for node in nodes]
    if len(call.args) != before + 2 or any(layout is None for layout in known):
        return None
    *added, left, right, out = [layout for layout in known if layout is not None]
    if any(layout.dtype not in DTYPES for layout in (*added, left, right, out)):
        return None
    if left.dtype != right.dtype:
        return None
    rows, inner = left.shape[-2:]
    cols = right.shape[-1]
    batch = left.shape[0] if len(left.shape) == 3 else None

    def measured(values: Values) -> Dims:
        item = 1 if batch is None else number(batch, values, what)
        return Dims(item, *(number(size, values, what) for size in (rows, cols, inner)))

    full, small = map(measured, sizes)
    if min(full.rows, full.cols, full.inner, full.batch) < 1:
        return None
    if full.batch == small.batch == 1:
        batch = None
        left, right, out, *added = (_one_matrix(layout) for layout in (left, right, out, *added))
    addend = None
    if added:
        wanted = [rows, cols] if batch is None else [batch, rows, cols]
        addend = _broadcast(call.args[0], added[0], wanted)
        if addend is None:
            return None
    return Product(
        at,
        _operand(call.args[before], left),
        _operand(call.args[before + 1], right),
        addend,
        _operand(keywords["out"], out),
        batch,
        rows,
        cols,
        inner,
        alpha=_scalar(keywords.get("alpha")),
        beta=_scalar(keywords.get("beta")),
        contiguous=stands_in_order(out, sizes, what),
        full=full,
        small=small,
    )


def _one_matrix(layout: Layout) -> Layout:
    """Less the axis of a batch of one."""
    if len(layout.shape) < 3:
        return layout
    return replace(layout, shape=layout.shape[-2:], strides=layout.strides[-2:])


def _operand(node: ast.expr, layout: Layout) -> Operand:
    """A view that starts at its storage's beginning needs no view on the host: strides say the rest."""
    batch = layout.strides[0] if len(layout.strides) == 3 else ZERO
    base = node
    while layout.starts_at_zero and isinstance(base, ast.Call):
        base = base.args[0]
    rows, cols = layout.strides[-2:]
    return Operand(base, layout.storage, batch, rows, cols, layout.dtype, layout.given)


def _broadcast(node: ast.expr, layout: Layout, shape: Sequence[ast.expr]) -> Operand | None:
    """An addend of fewer or shorter axes, with a stride of 0 along those it does not have."""
    missing = len(shape) - len(layout.shape)
    if missing < 0:
        return None
    strides: list[ast.expr] = [ZERO] * missing
    for size, wanted, step in zip(layout.shape, shape[missing:], layout.strides, strict=True):
        if ast.unparse(size) == ast.unparse(wanted):
            strides.append(step)
        elif ast.unparse(size) == "1":
            strides.append(ZERO)
        else:
            return None
    view = Layout(
        layout.storage, tuple(shape), tuple(strides), layout.dtype, layout.offset, layout.given
    )
    return _operand(node, view)


def _scalar(node: ast.expr | None) -> str:
    return ast.unparse(node or ONE)
