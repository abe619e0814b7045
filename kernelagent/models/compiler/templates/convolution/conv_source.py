"""The text of a convolution's kernel: as a matrix product whose right factor is never stored, or channel by channel.

Windows, steps and borders are numbers in the text; sizes of tensors are arguments.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from kernelagent.models.compiler.choices import Config
from kernelagent.models.compiler.kernels.layout import folded
from kernelagent.models.compiler.kernels.naming import local_names, renamed
from kernelagent.models.compiler.program.dataflow import names_in
from kernelagent.models.compiler.templates.convolution.conv_places import (
    SPATIAL,
    Places,
    shape_words,
    times,
)
from kernelagent.models.compiler.templates.convolution.convolutions import Convolution
from kernelagent.models.compiler.templates.matmul.epilogue import Epilogue
from kernelagent.models.compiler.templates.matmul.tile_form import (
    ALL_ROWS,
    BATCH,
    COL_MASK,
    COLS,
    N_COLS,
    N_ROWS,
    OFFSETS,
    PRODUCT,
    ROW_MASK,
    ROWS,
)

_RESERVED = frozenset(
    """x y z dx dy dz top left front program group tiles tiles_m group_in group_out members channels
    columns images planes first_plane channel positions n_positions n_planes n_images n_inner in_channels out_channels
    channel_mask position_mask plane_mask sources inner k inside windows patches weight total start offsets
    taps depth height width length""".split()
)
_MOST_UNROLLED = 64
"""Elements of a window that a kernel goes over in straight code; larger ones in a loop."""


@dataclass(frozen=True)
class Source:
    """All that decides a convolution's kernel but for the configuration."""

    conv: Convolution
    end: Epilogue | None
    names: Mapping[str, str]
    """Of the tensors in the kernel, by role and by the epilogue's parameter."""
    wide: bool
    """Offsets need 64 bits."""

    @property
    def parameters(self) -> list[str]:
        """Sizes that the kernel takes, in order."""
        axes = SPATIAL[len(self.conv.window)]
        first = "n_images"
        channels = ["in_channels"] if not self.conv.depthwise else []
        return [
            first,
            *channels,
            *axes,
            "out_channels",
            *(f"out_{axis}" for axis in axes),
            *(["groups"] if self.grouped else []),
        ]

    @property
    def grouped(self) -> bool:
        """Channels are in groups of more than one."""
        groups = {self.conv.sizes.groups, self.conv.fewer.groups}
        return groups != {1} and not self.conv.depthwise

    @property
    def end_pointers(self) -> list[str]:
        """Tensors that the end of a tile reads and writes, as parameters."""
        return [f"{n}_ptr" for role, n in self.names.items() if role not in ("x", "weight")]

    def kernel(self, name: str, config: Config) -> str:
        """The definition."""
        body = self._channel_by_channel() if self.conv.depthwise else self._as_product(config)
        factors = [] if self.end is None else [f"size_{name[2:]}" for name in self.end.factors]
        given = [f"{self.names[role]}_ptr" for role in ("x", "weight")]
        given += [*self.end_pointers, *self.parameters]
        given += [f"{constant}: tl.constexpr" for constant in (*factors, *config.blocks)]
        head = ["@triton.jit", folded(f"def {name}({', '.join(given)}):")]
        text = folded("\n".join([*body, *self._finish()]))
        return "\n".join([*head, textwrap.indent(text, "    ")])

    def _as_product(self, config: Config) -> list[str]:
        conv = self.conv
        x, weight = self.names["x"], self.names["weight"]
        how = "" if config.precision is None else f', input_precision="{config.precision}"'
        first = "group * group_in" if self.grouped else None
        k = (
            "(start + tl.arange(0, BLOCK_K)).to(tl.int64)"
            if self.wide
            else "start + tl.arange(0, BLOCK_K)"
        )
        return [
            "# A matrix product whose right factor is never stored: rows are output channels,",
            "# columns positions of the output, and the inner dimension goes over the input",
            f"# channels{'' if conv.taps == 1 else f', each a window of {shape_words(conv.window)}'}.",
            f"n_positions = {' * '.join(f'out_{axis}' for axis in self._axes)}",
            *self._groups(),
            f"tiles_m = tl.cdiv({self._members}, BLOCK_M)",
            f"program = {self._long('tl.program_id(0)')}",
            *self._rows(),
            "columns = (program // tiles_m * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]",
            "images = columns // n_positions",
            "positions = columns % n_positions",
            "position_mask = images < n_images",
            *self._places.beginnings(),
            *self._places.windows("images * in_channels" + (f" + {first}" if first else "")),
            f"n_inner = {'group_in' if self.grouped else 'in_channels'}{times(conv.taps)}",
            "total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
            "for start in range(0, n_inner, BLOCK_K):",
            "    inner = start + tl.arange(0, BLOCK_K)[None, :]",
            *(f"    {line}" for line in self._weight_lines(weight)),
            f"    k = {k}[:, None]",
            "    inside = (k < n_inner) & position_mask",
            *(f"    {line}" for line in self._places.reach("k", "k" if conv.taps == 1 else f"k // {conv.taps}")),
            f"    patches = tl.load({x}_ptr + {self._places.place()}, mask=inside, other=0.0)",
            f"    total = tl.dot(weight, patches, total{how})",
        ]  # fmt: skip

    def _channel_by_channel(self) -> list[str]:
        conv = self.conv
        each = conv.sizes.channels_out // conv.sizes.channels_in
        plane = "planes" if each == 1 else f"planes // {each}"
        taps = f"tl.static_range({conv.taps})" if conv.taps <= _MOST_UNROLLED else f"range({conv.taps})"  # fmt: skip
        x, weight = self.names["x"], self.names["weight"]
        return [
            "# Each output plane is one input plane under one window, here element by element of the",
            "# window: there is nothing to multiply as matrices.",
            f"n_positions = {' * '.join(f'out_{axis}' for axis in self._axes)}",
            "tiles = tl.cdiv(n_positions, BLOCK_N)",
            f"program = {self._long('tl.program_id(0)')}",
            "planes = (program // tiles * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]",
            "positions = (program % tiles * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]",
            "plane_mask = planes < n_images * out_channels",
            "position_mask = positions < n_positions",
            "channels = planes % out_channels",
            *self._places.beginnings(),
            *self._places.windows(plane),
            "total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
            f"for k in {taps}:",
            f"    weight = tl.load({weight}_ptr + channels{times(conv.taps)} + k, "
            f"mask=plane_mask, other=0.0).to(tl.float32)",
            "    inside = plane_mask & position_mask",
            *(f"    {line}" for line in self._places.reach("k", None)),
            f"    patches = tl.load({x}_ptr + {self._places.place()}, mask=inside, other=0.0).to(tl.float32)",
            "    total += weight * patches",
        ]

    @property
    def _places(self) -> Places:
        return Places(self.conv)

    @property
    def _axes(self) -> tuple[str, ...]:
        return self._places.axes

    @property
    def _members(self) -> str:
        return "group_out" if self.grouped else "out_channels"

    def _groups(self) -> list[str]:
        if not self.grouped:
            return []
        return [
            "group = tl.program_id(1)",
            "group_in = in_channels // groups",
            "group_out = out_channels // groups",
        ]

    def _rows(self) -> list[str]:
        rows = "(program % tiles_m * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]"
        if not self.grouped:
            return [f"channels = {rows}", "channel_mask = channels < out_channels"]
        return [
            f"members = {rows}",
            "channel_mask = members < group_out",
            "channels = group * group_out + members",
        ]

    def _weight_lines(self, weight: str) -> list[str]:
        """The tile of the weight, which a transposed convolution has by input channel first."""
        taps, lines = self.conv.taps, []
        index = "channels * n_inner + inner"
        if self.conv.call.transposed:
            source = "inner" if taps == 1 else f"inner // {taps}"
            source = f"group * group_in + {source}" if self.grouped else source
            members = "members" if self.grouped else "channels"
            lines = [f"sources = {source}"]
            index = f"sources * {self._members} + {members}"
            index = index if taps == 1 else f"({index}) * {taps} + inner % {taps}"
        mask = "mask=channel_mask & (inner < n_inner)"
        return [*lines, f"weight = tl.load({weight}_ptr + {index}, {mask}, other=0.0)"]

    def _long(self, text: str) -> str:
        return f"{text}.to(tl.int64)" if self.wide else text

    def _finish(self) -> list[str]:
        row_mask = "plane_mask" if self.conv.depthwise else "channel_mask"
        lines = []
        if self.conv.bias is not None:
            lines.append(
                f"total += tl.load({self.names['bias']}_ptr + channels, mask={row_mask}, other=0.0)"
            )
        planes = "planes = images * out_channels + channels"
        if self.end is None:
            lines += [] if self.conv.depthwise else [planes]
            place = "planes * n_positions + positions"
            both = f"{row_mask} & position_mask"
            return [*lines, f"tl.store(out_ptr + {place}, total, mask={both})"]
        used = set().union(*(names_in(statement) for statement in self.end.body))
        if self.conv.depthwise:
            lines += ["images = planes // out_channels"] if BATCH in used else []
        elif used & {ALL_ROWS, OFFSETS}:
            lines.append(planes)
        if OFFSETS in used:
            lines.append("offsets = planes * n_positions + positions")
        pointers = {p: self.names[p] for p in self.end.tensors}
        names = local_names(
            self.end.kernel,
            self.end.body,
            pointers,
            _RESERVED | {self.names["x"], self.names["weight"]},
        )
        names |= {
            ROWS: "channels",
            COLS: "positions",
            BATCH: "images",
            ALL_ROWS: "planes",
            OFFSETS: "offsets",
            ROW_MASK: row_mask,
            COL_MASK: "position_mask",
            N_ROWS: "out_channels",
            N_COLS: "n_positions",
            PRODUCT: "total",
        }
        return [*lines, *(ast.unparse(renamed(s, names)) for s in self.end.body)]
