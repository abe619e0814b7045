"""The text of a convolution's kernel: as a matrix product whose right factor is never stored, or channel by channel.

Windows, steps and borders are numbers in the text; sizes of tensors are arguments.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelagent.models.compiler.choices import Config
from kernelagent.models.compiler.dataflow import names_in
from kernelagent.models.compiler.layout import folded
from kernelagent.models.compiler.naming import local_names, renamed
from kernelagent.models.compiler.templates.convolutions import Convolution
from kernelagent.models.compiler.templates.epilogue import Epilogue
from kernelagent.models.compiler.templates.tile_form import (
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

SPATIAL = {1: ("length",), 2: ("height", "width"), 3: ("depth", "height", "width")}
"""What the axes are called, by how many there are."""
_BEGINS = {1: ("left",), 2: ("top", "left"), 3: ("front", "top", "left")}
_AT = {1: ("x",), 2: ("y", "x"), 3: ("z", "y", "x")}
_RESERVED = frozenset(
    """x y z dx dy dz top left front program group tiles tiles_m group_in group_out members channels
    columns images planes first_plane channel positions n_positions n_planes n_images n_inner in_channels out_channels
    channel_mask position_mask plane_mask inner k inside windows patches weight total start offsets
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
        return [
            "# A matrix product whose right factor is never stored: rows are output channels,",
            "# columns positions of the output, and the inner dimension goes over the input",
            f"# channels{'' if conv.taps == 1 else f', each a window of {_shape(conv.window)}'}.",
            f"n_positions = {' * '.join(f'out_{axis}' for axis in self._axes)}",
            *self._groups(),
            f"tiles_m = tl.cdiv({self._members}, BLOCK_M)",
            "program = tl.program_id(0)",
            *self._rows(),
            f"columns = {self._long('(program // tiles_m * BLOCK_N + tl.arange(0, BLOCK_N))')}[None, :]",
            "position_mask = columns < n_images * n_positions",
            "images = columns // n_positions",
            "positions = columns % n_positions",
            *self._beginnings(),
            *self._windows("images * in_channels" + (f" + {first}" if first else "")),
            f"n_inner = {'group_in' if self.grouped else 'in_channels'}{_times(conv.taps)}",
            "total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
            "for start in range(0, n_inner, BLOCK_K):",
            "    inner = start + tl.arange(0, BLOCK_K)[None, :]",
            f"    weight = tl.load({weight}_ptr + {self._weight_index()}, "
            f"mask=channel_mask & (inner < n_inner), other=0.0)",
            "    k = start + tl.arange(0, BLOCK_K)[:, None]",
            "    inside = (k < n_inner) & position_mask",
            *(f"    {line}" for line in self._reach("k", "k" if conv.taps == 1 else f"k // {conv.taps}")),
            f"    patches = tl.load({x}_ptr + {self._place()}, mask=inside, other=0.0)",
            f"    total = tl.dot(weight, patches, total{how})",
        ]  # fmt: skip

    def _channel_by_channel(self) -> list[str]:
        conv = self.conv
        times = conv.sizes.channels_out // conv.sizes.channels_in
        plane = "planes" if times == 1 else f"planes // {times}"
        taps = f"tl.static_range({conv.taps})" if conv.taps <= _MOST_UNROLLED else f"range({conv.taps})"  # fmt: skip
        x, weight = self.names["x"], self.names["weight"]
        return [
            "# Each output plane is one input plane under one window, here element by element of the",
            "# window: there is nothing to multiply as matrices.",
            f"n_positions = {' * '.join(f'out_{axis}' for axis in self._axes)}",
            "tiles = tl.cdiv(n_positions, BLOCK_N)",
            "program = tl.program_id(0)",
            f"planes = {self._long('(program // tiles * BLOCK_M + tl.arange(0, BLOCK_M))')}[:, None]",
            "positions = (program % tiles * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]",
            "plane_mask = planes < n_images * out_channels",
            "position_mask = positions < n_positions",
            "channels = planes % out_channels",
            *self._beginnings(),
            *self._windows(plane),
            "total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
            f"for k in {taps}:",
            f"    weight = tl.load({weight}_ptr + channels{_times(conv.taps)} + k, "
            f"mask=plane_mask, other=0.0).to(tl.float32)",
            "    inside = plane_mask & position_mask",
            *(f"    {line}" for line in self._reach("k", None)),
            f"    patches = tl.load({x}_ptr + {self._place()}, mask=inside, other=0.0).to(tl.float32)",
            "    total += weight * patches",
        ]

    @property
    def _axes(self) -> tuple[str, ...]:
        return SPATIAL[len(self.conv.window)]

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

    def _beginnings(self) -> list[str]:
        """The place of each position's window in the input, by axis."""
        call = self.conv.call
        names = _BEGINS[len(self.conv.window)]
        lines = [] if self.conv.taps == 1 and not call.transposed else [self._steps_words()]
        for axis, name in enumerate(names):
            after = self._axes[axis + 1 :]
            place = "positions"
            if after:
                size = " * ".join(f"out_{other}" for other in after)
                place += f" // ({size})" if len(after) > 1 else f" // {size}"
            if axis > 0:
                place += f" % out_{self._axes[axis]}"
            padding = call.padding[axis]
            if call.transposed:
                border = f" + {padding}" if padding else ""
                lines.append(f"{name} = {place}{border}")
            else:
                border = f" - {padding}" if padding else ""
                lines.append(f"{name} = {place}{_times(call.stride[axis])}{border}")
        return lines

    def _steps_words(self) -> str:
        call = self.conv.call
        words = [f"stride {_shown(call.stride)}", f"padding {_shown(call.padding)}"]
        words += [f"dilation {_shown(call.dilation)}"] if set(call.dilation) != {1} else []
        if call.transposed:
            return f"# Transposed: the inputs whose windows reach a position. {', '.join(words).capitalize()}."
        return f"# Where each position's window begins in the input: {', '.join(words)}."

    def _windows(self, plane: str) -> list[str]:
        """The first plane that a window reads, and the offset of the window's first element in it."""
        if self.conv.call.transposed:
            return [f"first_plane = {plane}"]
        lines = []
        if not plane.isalnum() and plane != "images * in_channels":
            lines, plane = [f"first_plane = {plane}"], "first_plane"
        for axis, begin in zip(self._axes, _BEGINS[len(self.conv.window)], strict=True):
            inner = f"({plane})" if " + " in plane else plane
            plane = f"{inner} * {axis} + {begin}"
        return [*lines, f"windows = {plane}"]

    def _reach(self, k: str, channel: str | None) -> list[str]:
        """The element of the window that `k` is: how far from the window's beginning, and whether inside."""
        conv, call = self.conv, self.conv.call
        lines: list[str] = []
        for axis, (size, begin, at) in enumerate(
            zip(self._axes, _BEGINS[len(conv.window)], _AT[len(conv.window)], strict=True)
        ):
            step = self._step(k, axis, within=channel is not None)
            if call.transposed:
                lines += self._looked_up(at, begin, step, size, axis)
                continue
            if step is not None:
                lines.append(f"d{at} = {step}")
            if call.padding[axis]:
                lines.append(f"{at} = {begin}" + ("" if step is None else f" + d{at}"))
                lines.append(f"inside = inside & ({at} >= 0) & ({at} < {size})")
        if channel is not None:
            lines.append(f"channel = {channel}")
        return lines

    def _looked_up(self, at: str, begin: str, step: str | None, size: str, axis: int) -> list[str]:
        stride = self.conv.call.stride[axis]
        place = begin if step is None else f"{begin} - {step}"
        lines = [f"{at} = {place}"]
        if stride == 1:
            return [*lines, f"inside = inside & ({at} >= 0) & ({at} < {size})"]
        return [
            *lines,
            f"inside = inside & ({at} >= 0) & ({at} < {size} * {stride}) & ({at} % {stride} == 0)",
            f"{at} = {at} // {stride}",
        ]

    def _step(self, k: str, axis: int, *, within: bool) -> str | None:
        """How far along an axis the element `k` lies, of one window or `within` many; None for one element."""
        window, dilation = self.conv.window, self.conv.call.dilation[axis]
        if window[axis] == 1:
            return None
        below = 1
        for size in window[axis + 1 :]:
            below *= size
        above = self.conv.taps // below // window[axis]
        text = k if below == 1 else f"{k} // {below}"
        if above > 1 or within:
            text += f" % {window[axis]}"
        return f"{text}{_times(dilation)}"

    def _weight_index(self) -> str:
        taps = self.conv.taps
        if not self.conv.call.transposed:
            return "channels * n_inner + inner"
        members = "members" if self.grouped else "channels"
        source = "group * group_in + " if self.grouped else ""
        if taps == 1:
            row = f"({source}inner)" if source else "inner"
            return f"{row} * {self._members} + {members}"
        row = f"({source}inner // {taps})"
        return f"({row} * {self._members} + {members}) * {taps} + inner % {taps}"

    def _place(self) -> str:
        """The offset of an element of the input."""
        dims = len(self.conv.window)
        if self.conv.call.transposed:
            offset = "first_plane" if self.conv.depthwise else "(first_plane + channel)"
            for axis, at in zip(self._axes, _AT[dims], strict=True):
                offset = f"({offset} * {axis} + {at})"
            return offset[1:-1]
        offset = "" if self.conv.depthwise else "channel"
        for axis, at, size in zip(self._axes, _AT[dims], self.conv.window, strict=True):
            step = f"d{at}" if size > 1 else ""
            if not offset:
                offset = step
                continue
            grouped = f"({offset})" if " + " in offset else offset
            offset = f"{grouped} * {axis}" + (f" + {step}" if step else "")
        return f"windows + {offset}" if offset else "windows"

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


def _shape(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))


def _shown(numbers: Sequence[int]) -> str:
    return str(numbers[0]) if len(set(numbers)) == 1 else ", ".join(map(str, numbers))


def _times(number: int) -> str:
    return "" if number == 1 else f" * {number}"
