"""The text of a product's kernels: tiles over rows and columns, a loop over the inner dimension, an end.

Three forms: products of tiles on `tl.dot`; where one side is a vector, sums of products; and, where
tiles are too few for the GPU or leave a part of it idle at the end, parts of the inner dimension that a
second kernel adds up (`tile_streams`: in shares of equal length).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from kernelagent.models.compiler.choices import Config
from kernelagent.models.compiler.kernels.naming import local_names, renamed
from kernelagent.models.compiler.program.dataflow import names_in
from kernelagent.models.compiler.templates.matmul.epilogue import Epilogue
from kernelagent.models.compiler.templates.matmul.factor_source import FactorSource
from kernelagent.models.compiler.templates.matmul.kernel_text import Stride, function_of, times
from kernelagent.models.compiler.templates.matmul.products import ROLES, Product, Role
from kernelagent.models.compiler.templates.matmul.tile_form import ALL_ROWS, OFFSETS
from kernelagent.models.compiler.templates.matmul.tile_streams import (
    is_streamed,
    stream_summed,
    streamed,
)
from kernelagent.models.compiler.templates.matmul.tile_words import docstring, product_words

RESERVED = frozenset(
    """rows cols batch inner inside start begin end length split program group first height within
    tiles_m tiles_n row_mask col_mask product sums all_rows offsets parts_ptr out_ptr
    turn turns last tile tiles whole shared each slot lanes cut down other count strips at final""".split()
)
_TO_FLOAT = ".to(tl.float32)"
_SPLIT = (
    "split = tl.program_id(1)",
    "length = tl.cdiv(tl.cdiv(n_inner, BLOCK_K), SPLIT_K) * BLOCK_K",
    "begin = split * length",
    "end = tl.minimum(begin + length, n_inner)",
)
"""Which part of the inner dimension a program has."""


@dataclass(frozen=True)
class Source:
    """All that decides a product's kernels but for the configuration."""

    product: Product
    end: Epilogue | None
    names: Mapping[str, str]
    """Of the tensors in the kernel, by role and by the epilogue's parameter."""
    strides: Mapping[str, Stride]
    wide: bool
    """Offsets need 64 bits."""
    computed: Mapping[Role, FactorSource] = field(default_factory=dict)
    """The factors that tiles compute as they take them."""

    @property
    def batched(self) -> bool:
        return self.product.batch is not None

    @property
    def form(self) -> str:
        """`column` or `row` where one side is a vector, otherwise `tiles`."""
        d = self.product.full
        return "column" if d.cols == 1 else "row" if d.rows == 1 else "tiles"

    def identity(self, config: Config) -> str:
        """Equal for two sites that one kernel serves."""
        return f"{''.join(self.kernels('', config).values())}{self.product.full}{config}"

    def kernels(self, name: str, config: Config) -> dict[str, str]:
        """Definitions by name."""
        if is_streamed(config):
            return {
                name: self._stream(name, config),
                f"{name}_sum": self._stream_sum(f"{name}_sum"),
            }
        if config.blocks["SPLIT_K"] == 1:
            return {name: self._kernel(name, config)}
        return {name: self._part(name, config), f"{name}_sum": self._sum(f"{name}_sum")}

    @property
    def _words(self) -> list[str]:
        return docstring(self.names, self.strides, self.computed.values(), self.end)

    def tile_function(self, name: str, config: Config) -> str:
        """A function that does one tile: that of the number `program`, which it is given first."""
        return function_of(
            name,
            ["program", *self.tile_parameters],
            [*self.tile_constants, *self.blocks(config)],
            [*self._words, *self._tile(config)],
        )

    @property
    def tile_parameters(self) -> list[str]:
        """What the kernel is given of tensors, sizes and strides, in that order."""
        parameters = [name for role in ROLES for name in self._factor_pointers(role)]
        parameters += [*self.end_pointers(), "n_rows", "n_cols", "n_inner"]
        return [*parameters, *self._factor_strides, *self.end_strides()]

    @property
    def tile_constants(self) -> list[str]:
        """And of the sizes that addresses are computed with."""
        return [*self._factor_sizes, *self.end_factors()]

    def _kernel(self, name: str, config: Config) -> str:
        return function_of(
            name,
            self.tile_parameters,
            [*self.tile_constants, *self.blocks(config)],
            [*self._words, "program = tl.program_id(0)", *self._tile(config)],
        )

    def _tile(self, config: Config) -> list[str]:
        place = [*self._counts, *self._place("program")]
        return [*place, *self._loop(config, split=False), *self._finish()]

    def _part(self, name: str, config: Config) -> str:
        """Of each tile a part of the inner dimension."""
        text = product_words(self.names, self.strides)
        body = [
            f'"""Parts of {text}, which are still to be added."""',
            "program = tl.program_id(0)",
            *self._counts,
            *self._place("program"),
            *_SPLIT,
            *self._loop(config, split=True),
            *self._parts("tl.store", "product"),
        ]
        parameters = [name for role in ROLES for name in self._factor_pointers(role)]
        parameters += ["parts_ptr", *self._sizes, *self._factor_strides]
        constants = [*self._factor_sizes, *self.blocks(config)]
        return function_of(name, parameters, constants, body)

    @property
    def _factor_strides(self) -> list[str]:
        return [p for r in ROLES if r in self.strides for p in self.strides[r].parameters]

    @property
    def _factor_sizes(self) -> list[str]:
        return [name for factor in self.computed.values() for name in factor.sizes]

    def _stream(self, name: str, config: Config) -> str:
        """Programs of equal length, and what they cannot finish as parts."""
        parameters = [name for role in ROLES for name in self._factor_pointers(role)]
        parameters += ["parts_ptr", *self.end_pointers(), *self._sizes]
        body = streamed(
            self._counts,
            self._stream_tiles,
            self._place("tile"),
            self._loop(config, split=True),
            self._finish(),
        )
        return function_of(
            name,
            [*parameters, *self._factor_strides, *self.end_strides()],
            [*self.tile_constants, *self.blocks(config)],
            [*self._words, *body],
        )

    def _stream_sum(self, name: str) -> str:
        parameters = ["parts_ptr", *self.end_pointers(), *self._sizes]
        blocks = ["BLOCK_M", "BLOCK_N", "BLOCK_K", *(["GROUP_M"] if self._grouped else [])]
        body = stream_summed(
            self._counts, self._stream_tiles, self._place("tile", "ROWS"), self._finish()
        )
        return function_of(
            name,
            [*parameters, *self.end_strides()],
            [*self.end_factors(), *blocks, "PROGRAMS", "ROWS"],
            body,
        )

    @property
    def _sizes(self) -> list[str]:
        return ["n_rows", "n_cols", "n_inner", *(["n_batch"] if self.batched else [])]

    @property
    def _stream_tiles(self) -> str:
        """How many tiles all matrices have."""
        if self.batched:
            return "tiles * n_batch"
        return "tiles_m * tiles_n" if self._grouped else "tl.cdiv(n_rows, BLOCK_M)"

    def _sum(self, name: str) -> str:
        body = [
            "# Adds up the parts of each element, always in the same order.",
            "program = tl.program_id(0)",
            "tiles_n = tl.cdiv(n_cols, BLOCK_N)",
        ]
        if self.batched:
            body += [
                "tiles = tl.cdiv(n_rows, BLOCK_M) * tiles_n",
                f"batch = {self._long('(program // tiles)')}",
                "program = program % tiles",
            ]
        body += self._indices("program // tiles_n", "program % tiles_n")
        body += [
            "product = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
            "for split in range(SPLIT_K):",
            *(f"    {line}" for line in self._parts("tl.load", None)),
        ]
        parameters = ["parts_ptr", *self.end_pointers(), "n_rows", "n_cols"]
        parameters += ["n_batch"] if self.batched else []
        blocks = ["BLOCK_M", "BLOCK_N", "SPLIT_K"]
        return function_of(
            name,
            [*parameters, *self.end_strides()],
            [*self.end_factors(), *blocks],
            [*body, *self._finish()],
        )

    def blocks(self, config: Config) -> list[str]:
        """The block sizes that the main kernel takes."""
        unused = set() if self._grouped else {"GROUP_M"}
        unused |= {"SPLIT_K"} if config.blocks["SPLIT_K"] == 1 else set()
        return [block for block in config.blocks if block not in unused]

    def _factor_pointers(self, role: Role) -> list[str]:
        factor = self.computed.get(role)
        return [f"{self.names[role]}_ptr"] if factor is None else factor.pointers

    def end_pointers(self) -> list[str]:
        """Tensors that the end of the tile reads and writes, as parameters."""
        roles = [role for role in self.names if role not in ("left", "right")]
        return [f"{self.names[role]}_ptr" for role in roles]

    def end_strides(self) -> list[str]:
        """Strides of those that are no epilogue's."""
        roles = [role for role in ("addend", "out") if role in self.strides]
        return [name for role in roles for name in self.strides[role].parameters]

    def end_factors(self) -> list[str]:
        """Sizes that an epilogue's addresses are computed with."""
        return [] if self.end is None else [f"size_{name[2:]}" for name in self.end.factors]

    @property
    def _grouped(self) -> bool:
        return self.form == "tiles" and (self.end is None or self.end.held is None)

    @property
    def _counts(self) -> list[str]:
        """How many tiles there are, down, across and in a matrix of a batch."""
        lines = []
        if self._grouped:
            lines += ["tiles_m = tl.cdiv(n_rows, BLOCK_M)", "tiles_n = tl.cdiv(n_cols, BLOCK_N)"]
        if self.batched:
            size, block = ("n_cols", "BLOCK_N") if self._across else ("n_rows", "BLOCK_M")
            count = "tiles_m * tiles_n" if self._grouped else f"tl.cdiv({size}, {block})"
            lines.append(f"tiles = {count}")
        return lines

    def _place(self, tile: str, height: str | None = None) -> list[str]:
        """Where the tile of this number lies; `height`: of its rows so many from `down` on alone."""
        lines = []
        if self.batched:
            lines += [f"batch = {self._long(f'({tile} // tiles)')}", f"{tile} = {tile} % tiles"]
        if self._grouped:
            return [
                *lines,
                "# Programs walk GROUP_M tiles down, then one across: neighbours in time share factors in L2.",
                f"group = {tile} // (GROUP_M * tiles_n)",
                "first = group * GROUP_M",
                "height = tl.minimum(tiles_m - first, GROUP_M)",
                f"within = {tile} % (GROUP_M * tiles_n)",
                *self._indices("(first + within % height)", "within // height", height),
            ]
        places = ("0", tile) if self._across else (tile, "0")
        return [*lines, *self._indices(*places, height)]

    @property
    def _across(self) -> bool:
        """Programs go along one row."""
        return self.form == "row" and (self.end is None or self.end.held is None)

    def _indices(self, down: str, across: str, height: str | None = None) -> list[str]:
        def index(place: str, block: str) -> str:
            lanes = f"tl.arange(0, {block})"
            return lanes if place == "0" else f"({place} * {block} + {lanes})"

        rows = index(down, "BLOCK_M")
        if height is not None:
            rows = f"({down} * BLOCK_M + down + tl.arange(0, {height}))"
        return [
            f"rows = {self._long(rows)}[:, None]",
            f"cols = {self._long(index(across, 'BLOCK_N'))}[None, :]",
            "row_mask = rows < n_rows",
            "col_mask = cols < n_cols",
        ]

    def _long(self, text: str) -> str:
        """An expression that is a call or in brackets, as 64 bits where offsets need them."""
        return f"{text}.to(tl.int64)" if self.wide else text

    def _loop(self, config: Config, *, split: bool) -> list[str]:
        """The sum over the inner dimension; `split`: from `begin` to `end`."""
        begin, end = ("begin", "end") if split else ("0", "n_inner")
        lines = []
        shape = {"tiles": "", "column": "[None, :]", "row": "[:, None]"}[self.form]
        lines.append(f"inner = {self._long('tl.arange(0, BLOCK_K)')}{shape}")
        at = "(begin + inner)" if split else "inner"
        wide, tall = ("[None, :]", "[:, None]") if self.form == "tiles" else ("", "")
        along: Mapping[Role, str] = {"left": wide, "right": tall}
        row, column = self.form == "row", self.form == "column"
        places: Mapping[Role, tuple[str | None, str | None]] = {
            "left": (None if row else "rows", f"{at}{wide}"),
            "right": (f"{at}{tall}", None if column else "cols"),
        }
        masks: Mapping[Role, str] = {
            "left": f"inside{wide}" if row else f"row_mask & inside{wide}",
            "right": f"inside{tall}" if column else f"inside{tall} & col_mask",
        }
        steps: Mapping[Role, str | None] = {
            role: self.strides[role].cols if role == "left" else self.strides[role].rows
            for role in ROLES
            if role not in self.computed
        }
        for role in ROLES:
            if role in self.computed:
                lines += self.computed[role].once
            else:
                lines.append(self._pointers(self.names[role], role, *places[role]))
        summed = {"column": "BLOCK_M, BLOCK_K", "row": "BLOCK_K, BLOCK_N"}
        tile = summed.get(self.form, "BLOCK_M, BLOCK_N")
        total = "product" if self.form == "tiles" else "sums"
        lines += [
            f"{total} = tl.zeros(({tile}), dtype=tl.float32)",
            f"for start in range({begin}, {end}, BLOCK_K):",
        ]
        turn = [f"inside = start + inner < {end}"] if len(self.computed) < len(ROLES) else []
        for role in ROLES:
            name = self.names[role]
            if role in self.computed:
                turn += self.computed[role].turn(along[role], end)
            else:
                turn.append(f"{name} = tl.load({name}_ptrs, mask={masks[role]}, other=0.0)")
        turn.append(self._accumulated(config))
        turn += [
            f"{self.names[role]}_ptrs += {times('BLOCK_K', step)}" for role, step in steps.items()
        ]
        lines += [f"    {line}" for line in turn]
        if self.form != "tiles":
            lines.append(
                f"product = tl.sum(sums, {'1)[:, None]' if self.form == 'column' else '0)[None, :]'}"
            )
        return lines

    def _accumulated(self, config: Config) -> str:
        left, right = self.names["left"], self.names["right"]
        if self.form == "tiles":
            how = "" if config.precision is None else f', input_precision="{config.precision}"'
            return f"product = tl.dot({left}, {right}, product{how})"
        cast = "" if self.product.left.dtype == "torch.float32" else _TO_FLOAT
        return f"sums += {left}{cast} * {right}{cast}"

    def _pointers(self, name: str, role: str, rows: str | None, cols: str | None) -> str:
        stride = self.strides[role]
        terms = [f"{name}_ptr"]
        terms += [times("batch", stride.batch)] if stride.batch is not None else []
        terms += [
            times(index, step)
            for index, step in ((rows, stride.rows), (cols, stride.cols))
            if index is not None and step is not None
        ]
        return f"{name}_ptrs = {' + '.join(terms)}"

    def _parts(self, access: str, value: str | None) -> list[str]:
        matrix = "split * n_batch + batch" if self.batched else "split"
        outer = f"({matrix})" if self.batched else matrix
        outer = f"{outer}.to(tl.int64)" if self.wide and access == "tl.store" else outer
        lines = [f"parts = parts_ptr + ({outer} * n_rows + rows) * n_cols + cols"]
        if value is not None:
            return [*lines, f"tl.store(parts, {value}, mask=row_mask & col_mask)"]
        return [*lines, "product += tl.load(parts, mask=row_mask & col_mask, other=0.0)"]

    def _finish(self) -> list[str]:
        lines = []
        if self.product.alpha != "1":
            lines.append(f"product = product * {self.product.alpha}")
        if "addend" in self.strides:
            stride = self.strides["addend"]
            index = " + ".join(self._terms(stride)) or "0"
            masks = [
                m
                for m, s in (("row_mask", stride.rows), ("col_mask", stride.cols))
                if s is not None
            ]
            mask = f", mask={' & '.join(masks)}, other=0.0" if masks else ""
            beta = "" if self.product.beta == "1" else f"{self.product.beta} * "
            lines.append(f"product += {beta}tl.load({self.names['addend']}_ptr + {index}{mask})")
        if self.end is None:
            index = " + ".join(self._terms(self.strides["out"]))
            return [*lines, f"tl.store(out_ptr + {index}, product, mask=row_mask & col_mask)"]
        used = set().union(*(names_in(statement) for statement in self.end.body))
        row = ALL_ROWS if self.batched else "rows"
        if self.batched and used & {ALL_ROWS, OFFSETS}:
            lines.append(f"{ALL_ROWS} = batch * n_rows + rows")
        if OFFSETS in used:
            lines.append(f"{OFFSETS} = {row} * n_cols + cols")
        pointers = {p: self.names[p] for p in self.end.tensors}
        computed = (name for factor in self.computed.values() for name in factor.locals)
        names = local_names(
            self.end.kernel,
            self.end.body,
            pointers,
            RESERVED.union([self.names[role] for role in ROLES], computed),
        )
        return [*lines, *(ast.unparse(renamed(s, names)) for s in self.end.body)]

    def _terms(self, stride: Stride) -> list[str]:
        pairs = (("batch", stride.batch), ("rows", stride.rows), ("cols", stride.cols))
        return [times(index, step) for index, step in pairs if step is not None]
