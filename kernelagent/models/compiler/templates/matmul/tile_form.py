"""Statements of one of Inductor's kernels where they run inside a tile.

The statements are kept. Their indices become the rows and columns of the tile, and each mask follows from what
its address depends on. Of what follows a product the load of the product becomes the tile itself; of what
precedes one the store of a factor does.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelagent.models.compiler.program.dataflow import names_in, target_of, without_unread
from kernelagent.models.compiler.program.numbers import number
from kernelagent.models.compiler.templates.matmul.products import Dims, Matrices, Mixed

PRODUCT, ROWS, COLS, BATCH = "product", "rows", "cols", "batch"
FILLED = "filled"
"""What a tile is given by statements that would store it."""
ALL_ROWS, OFFSETS = "all_rows", "offsets"
ROW_MASK, COL_MASK = "row_mask", "col_mask"
N_ROWS, N_COLS = "n_rows", "n_cols"
BLOCK_M, BLOCK_N = "BLOCK_M", "BLOCK_N"
_BOTH = frozenset({ROW_MASK, COL_MASK})
_MASKS = {
    ROWS: frozenset({ROW_MASK}),
    ALL_ROWS: frozenset({ROW_MASK}),
    COLS: frozenset({COL_MASK}),
    OFFSETS: _BOTH,
    PRODUCT: _BOTH,
}
_MIXED_MASKS: Mapping[Mixed, Mapping[str, frozenset[str]]] = {
    "nothing": {},
    "columns": {BATCH: frozenset({COL_MASK}), ALL_ROWS: _BOTH},
    "rows": {BATCH: frozenset({ROW_MASK})},
}
_INDICES = {"xindex", "xmask", "r0_index", "r0_mask"}
_LEFT_OVER = {"XBLOCK", "YBLOCK", "R0_BLOCK", "xnumel", "r0_numel", *_INDICES}
_NO_TILE = ("tl.atomic", "tl.associative_scan", "tl.program_id", "tl.cumsum", "tl.sort")


class Elsewhere(Exception):
    """The kernel reads the product at other places than a tile holds, or does what no tile can."""


@dataclass(frozen=True)
class Place:
    """How a kernel's indices lie in matrices that are computed tile by tile."""

    product: Matrices
    pointer: str
    """The kernel's parameter for them."""
    row_wise: bool
    """Each program of the kernel has whole rows; otherwise single elements."""
    numbers: tuple[Mapping[str, int], Mapping[str, int]]
    """The kernel's sizes, at the user's sizes and at those that are executed."""
    fills: bool = False
    """Whether the kernel writes the matrices; otherwise it reads them."""

    @property
    def batched(self) -> bool:
        return self.product.batch is not None

    def sized(self, size: Callable[[Dims], int]) -> tuple[int, int]:
        """A size of the product in both."""
        return size(self.product.full), size(self.product.small)


def tile_form(body: Sequence[ast.stmt], place: Place) -> list[ast.stmt]:
    """The statements inside a tile; raises `Elsewhere`."""
    visitor = _Visitor(place)
    done: list[ast.stmt] = []
    for statement in body:
        name = target_of(statement)
        if name in _INDICES:
            continue
        if isinstance(statement, ast.For):
            raise Elsewhere
        copy = ast.parse(ast.unparse(ast.fix_missing_locations(statement))).body[0]
        changed: Any = visitor.filled(copy) or visitor.visit(copy)
        if name is not None and isinstance(changed.value, ast.Name):
            visitor.aliases[name] = changed.value
            continue
        if name is not None:
            visitor.masks[name] = visitor.masks_of(changed.value)
        done.append(changed)
    result = without_unread(done, [FILLED])
    text = "\n".join(ast.unparse(ast.fix_missing_locations(s)) for s in result)
    names = set().union(*(names_in(s) for s in result))
    tile = FILLED if place.fills else PRODUCT
    if names & _LEFT_OVER or tile not in names or any(word in text for word in _NO_TILE):
        raise Elsewhere
    return result


class _Visitor(ast.NodeTransformer):
    def __init__(self, place: Place) -> None:
        self._place = place
        self.aliases: dict[str, ast.expr] = {}
        self.masks: dict[str, frozenset[str]] = dict(_MASKS)
        """What keeps a name's values inside the product, by name."""
        self.masks |= _MIXED_MASKS[place.product.mixed]
        row = ALL_ROWS if place.batched else ROWS
        self._row = row
        if place.row_wise:
            self._names = {
                "xindex": row,
                "xmask": ROW_MASK,
                "r0_index": COLS,
                "r0_mask": COL_MASK,
                "XBLOCK": BLOCK_M,
                "R0_BLOCK": BLOCK_N,
                "r0_numel": N_COLS,
            }
        else:
            self._names = {"xindex": OFFSETS, "xmask": f"{ROW_MASK} & {COL_MASK}"}

    def masks_of(self, value: ast.expr) -> frozenset[str]:
        """The masks of everything that an expression depends on."""
        return frozenset().union(*(self.masks.get(name, frozenset()) for name in names_in(value)))

    def filled(self, statement: ast.stmt) -> ast.stmt | None:
        """The store of the tile that is to be filled as the tile itself; None for any other statement."""
        call = statement.value if self._place.fills and isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call) or ast.unparse(call.func) != "tl.store":
            return None
        pointer, index = _parts(self.visit(call.args[0]))
        own = [k.value for k in call.keywords if k.arg == "mask"]
        conditional = any(not _is_index_mask(c) for mask in own for c in _conjuncts(mask))
        if pointer != self._place.pointer or conditional or not self._is_the_tile(index):
            raise Elsewhere
        name = ast.Name(FILLED, ast.Store())
        return ast.Assign(targets=[name], value=self.visit(call.args[1]), lineno=0)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.aliases:
            return self.aliases[node.id]
        if node.id in self._names and isinstance(node.ctx, ast.Load):
            return _parsed(self._names[node.id])
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if not self._place.row_wise and (index := self._index(node)) is not None:
            return index
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        function = ast.unparse(node.func)
        if function in {"tl.load", "tl.store"}:
            return self._access(node, function)
        self.generic_visit(node)
        if function == "tl.broadcast_to" and not self._place.row_wise:
            # Single elements are broadcast by the arithmetic that they take part in.
            return node.args[0]
        if function.endswith(".to") and ast.unparse(node) == f"{PRODUCT}.to(tl.float32)":
            return _parsed(PRODUCT)
        return node

    def _access(self, node: ast.Call, function: str) -> ast.expr:
        own = [k.value for k in node.keywords if k.arg == "mask"]
        conditions = [c for mask in own for c in _conjuncts(mask) if not _is_index_mask(c)]
        address = self.visit(node.args[0])
        pointer, index = _parts(address)
        if pointer == self._place.pointer and not self._place.fills:
            if not self._is_the_tile(index) or conditions:
                raise Elsewhere
            if function == "tl.load":
                return _parsed(PRODUCT)
        parts = [address, *(self.visit(argument) for argument in node.args[1:])]
        conditions = [self.visit(condition) for condition in conditions]
        needed = self.masks_of(index).union(*map(self.masks_of, conditions))
        masks = [*(_parsed(m) for m in (ROW_MASK, COL_MASK) if m in needed), *conditions]
        keywords = []
        if masks:
            keywords.append(ast.keyword("mask", _joined(masks)))
            keywords += [k for k in node.keywords if k.arg == "other"]
        return ast.Call(func=node.func, args=parts, keywords=keywords)

    def _is_the_tile(self, index: ast.expr) -> bool:
        """True for the address of the tile's own element, `cols + n_cols * rows` or `offsets`."""
        if not self._place.row_wise:
            return ast.unparse(index) == OFFSETS
        match index:
            case ast.BinOp(ast.Name(id=low), ast.Add(), ast.BinOp(factor, ast.Mult(), high)):
                wide = self._number(factor) == self._place.sized(lambda d: d.cols)
                return low == COLS and ast.unparse(high) == self._row and wide
        return False

    def _index(self, node: ast.BinOp) -> ast.expr | None:
        """`xindex % 48` and the like as rows and columns; None for what is another expression."""
        match node:
            case ast.BinOp(ast.Name(id="xindex"), ast.Mod(), size):
                return self._remainder(self._number(size))
            case ast.BinOp(ast.Name(id="xindex"), ast.FloorDiv(), size):
                return self._quotient(self._number(size))
            case ast.BinOp(
                ast.BinOp(ast.Name(id="xindex"), ast.FloorDiv(), inner), ast.Mod(), outer
            ):
                return self._middle(self._number(inner), self._number(outer))
        return None

    def _remainder(self, size: tuple[int, int] | None) -> ast.expr | None:
        cols = self._place.sized(lambda d: d.cols)
        if size == cols:
            return _parsed(COLS)
        if (part := _times(size, cols)) is not None:
            row = self._row_modulo((part, part))
            return None if row is None else _parsed(f"{row} * {N_COLS} + {COLS}")
        if self._place.batched and size == self._place.sized(lambda d: d.rows * d.cols):
            return _parsed(f"{ROWS} * {N_COLS} + {COLS}")
        return None

    def _quotient(self, size: tuple[int, int] | None) -> ast.expr | None:
        cols = self._place.sized(lambda d: d.cols)
        if size == cols:
            return _parsed(self._row)
        if self._place.batched and size == self._place.sized(lambda d: d.rows * d.cols):
            return _parsed(BATCH)
        if (part := _times(size, cols)) is not None:
            return _parsed(f"{self._row} // {part}")
        if (part := _times(cols, size)) is not None:
            return _parsed(f"{self._row} * {part} + {COLS} // {_same(size)}")
        return None

    def _middle(
        self, inner: tuple[int, int] | None, outer: tuple[int, int] | None
    ) -> ast.expr | None:
        cols = self._place.sized(lambda d: d.cols)
        if inner is None or outer is None:
            return None
        if inner == cols:
            row = self._row_modulo(outer)
            return None if row is None else _parsed(row)
        if (inner[0] * outer[0], inner[1] * outer[1]) == cols and inner[0] == inner[1]:
            return _parsed(f"{COLS} // {inner[0]}")
        return None

    def _row_modulo(self, size: tuple[int, int]) -> str | None:
        if self._place.batched and size == self._place.sized(lambda d: d.rows):
            return ROWS
        return f"{self._row} % {size[0]}" if size[0] == size[1] else None

    def _number(self, node: ast.expr) -> tuple[int, int] | None:
        known = self._place.numbers
        if not names_in(node) <= known[0].keys():
            return None
        return number(node, known[0], "it"), number(node, known[1], "it")


def _times(size: tuple[int, int] | None, unit: tuple[int, int] | None) -> int | None:
    """How often `unit` goes into `size`, if it is the same number in both."""
    if size is None or unit is None or 0 in unit:
        return None
    times = {a // b if a % b == 0 else 0 for a, b in zip(size, unit, strict=True)}
    return times.pop() or None if len(times) == 1 else None


def _same(size: tuple[int, int] | None) -> int:
    """A size that is one number in both; raises `Elsewhere`."""
    if size is None or size[0] != size[1]:
        raise Elsewhere
    return size[0]


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _parts(address: ast.expr) -> tuple[str, ast.expr]:
    """A pointer and what is added to it."""
    match address:
        case ast.BinOp(ast.Name(id=pointer), ast.Add(), index):
            return pointer, index
        case ast.Name(id=pointer):
            return pointer, ast.Constant(0)
    raise Elsewhere


def _conjuncts(condition: ast.expr) -> list[ast.expr]:
    if isinstance(condition, ast.BinOp) and isinstance(condition.op, ast.BitAnd):
        return [*_conjuncts(condition.left), *_conjuncts(condition.right)]
    return [condition]


def _is_index_mask(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in {"xmask", "r0_mask"}


def _joined(parts: Sequence[ast.expr]) -> ast.expr:
    joined = parts[0]
    for part in parts[1:]:
        joined = ast.BinOp(joined, ast.BitAnd(), part)
    return joined
