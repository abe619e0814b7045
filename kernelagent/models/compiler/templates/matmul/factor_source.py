"""The text of a factor that a product's tiles compute: what is done once, and in each turn of their loop."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from kernelagent.models.compiler.kernels.naming import local_names, renamed
from kernelagent.models.compiler.program.dataflow import names_in, target_of
from kernelagent.models.compiler.templates.matmul.prologue import (
    DEPTH,
    DEPTH_MASK,
    Prologue,
)
from kernelagent.models.compiler.templates.matmul.tile_form import (
    ALL_ROWS,
    COL_MASK,
    FILLED,
    OFFSETS,
    ROW_MASK,
)


@dataclass(frozen=True)
class FactorSource:
    """A factor's statements in the names of the product's kernel."""

    prologue: Prologue
    name: str
    """Of the factor's tile."""
    dtype: str
    """Of the factor, as tiles are multiplied: `torch.float16`."""
    given: Mapping[str, str]
    """Names of the tensors by the launch's parameter."""
    batched: bool
    reserved: frozenset[str]

    @property
    def pointers(self) -> list[str]:
        """Parameters of the kernel."""
        return [f"{name}_ptr" for name in self.given.values()]

    @property
    def sizes(self) -> list[str]:
        """Sizes that its addresses are computed with, as parameters."""
        return [f"{self.name}_size_{name[2:]}" for name in self.prologue.factors]

    @property
    def tensors(self) -> list[ast.expr]:
        return list(self.prologue.tensors.values())

    @property
    def locals(self) -> Iterable[str]:
        """Every variable that it sets."""
        return self._names.values()

    @property
    def once(self) -> list[str]:
        """Before the loop: what does not change along the inner dimension."""
        rows = [self._row_line()] if self._numbers_rows and not self._rows_vary else []
        return [*rows, *(self._text(line) for line in self._parts[0])]

    def turn(self, along: str, end: str) -> list[str]:
        """In the loop; `along`: how `inner` lies in the tile, `end`: where the inner dimension ends."""
        names, prologue = self._names, self.prologue
        place = f"(start + inner){along}" if along else "start + inner"
        lines = [f"{names[DEPTH]} = {place}", f"{names[DEPTH_MASK]} = {names[DEPTH]} < {end}"]
        if self._numbers_rows and self._rows_vary:
            lines.append(self._row_line())
        if self._uses(OFFSETS):
            across = names.get(prologue.across, prologue.across)
            row = names[ALL_ROWS] if self.batched else names.get(prologue.down, prologue.down)
            lines.append(f"{names[OFFSETS]} = {row} * {self._width} + {across}")
        for statement in self._parts[1]:
            if target_of(statement) != FILLED:
                lines.append(self._text(statement))
                continue
            assert isinstance(statement, ast.Assign)
            value = ast.unparse(renamed(ast.Expr(statement.value), names))
            if not prologue.fills_the_tile:
                # What rows or columns share becomes a whole tile.
                value = f"tl.where({self._across_mask} & {names[DEPTH_MASK]}, {value}, 0.0)"
            elif not prologue.inside_is_zero:
                value = f"tl.where({names[DEPTH_MASK]}, {value}, 0.0)"
            lines.append(f"{self.name} = {self._cast(value)}")
        return lines

    def about(self) -> list[str]:
        """In PyTorch's words, where they say no more than this one factor."""
        words = self.prologue.kernel.expressions
        called = {ast.unparse(n): self.given[p] for p, n in self.prologue.tensors.items()}
        lines = [re.sub(r"\w+", lambda m: called.get(m[0], m[0]), line) for line in words]
        kind = "" if self.dtype == "torch.float32" else f" in {self.dtype.removeprefix('torch.')}"
        return [*lines[:-1], f"{self.name} = {lines[-1]}{kind}"] if lines else []

    def _cast(self, value: str) -> str:
        """The factor's type, to which what a kernel of its own stored was rounded."""
        if self.dtype == "torch.float32":
            return value
        whole = isinstance(ast.parse(value, mode="eval").body, ast.Call | ast.Name)
        return f"{value if whole else f'({value})'}.to(tl.{self.dtype.removeprefix('torch.')})"

    @property
    def _across_mask(self) -> str:
        """The mask of the product's own rows or columns."""
        return ROW_MASK if self.prologue.role == "left" else COL_MASK

    @property
    def _rows_vary(self) -> bool:
        return self.prologue.down == DEPTH

    @property
    def _numbers_rows(self) -> bool:
        """Whether it needs rows of all matrices of a batch, numbered through."""
        return self.batched and self._uses(ALL_ROWS, OFFSETS)

    @cached_property
    def _parts(self) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """Statements that a tile needs once, and those that depend on where along the inner dimension it is."""
        once: list[ast.stmt] = []
        turns: list[ast.stmt] = []
        varying = {DEPTH, DEPTH_MASK, OFFSETS, *([ALL_ROWS] if self._rows_vary else [])}
        for statement in self.prologue.body:
            name = target_of(statement)
            if name == FILLED or names_in(statement) & varying:
                varying |= {name} if name is not None else set()
                turns.append(statement)
            else:
                once.append(statement)
        return once, turns

    @property
    def _width(self) -> str:
        return {"rows": "n_rows", "cols": "n_cols"}.get(self.prologue.across, "n_inner")

    def _row_line(self) -> str:
        down = self.prologue.down
        height = {"rows": "n_rows", "cols": "n_cols"}.get(down, "n_inner")
        return f"{self._names[ALL_ROWS]} = batch * {height} + {self._names.get(down, down)}"

    def _uses(self, *words: str) -> bool:
        return any(names_in(statement) & set(words) for statement in self.prologue.body)

    def _text(self, statement: ast.stmt) -> str:
        return ast.unparse(renamed(statement, self._names))

    @cached_property
    def _names(self) -> dict[str, str]:
        own = {
            DEPTH: f"{self.name}_depth",
            DEPTH_MASK: f"{self.name}_inside",
            OFFSETS: f"{self.name}_offsets",
            ALL_ROWS: f"{self.name}_rows",
            FILLED: self.name,
        }
        kernel, body = self.prologue.kernel, self.prologue.body
        taken = self.reserved | {self.name, *own.values()}
        sizes = {n: f"{self.name}_size_{n[2:]}" for n in self.prologue.factors}
        return local_names(kernel, body, self.given, taken) | own | sizes
