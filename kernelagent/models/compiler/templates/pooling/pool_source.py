"""The text of a kernel that pools: a tile is loaded once, and windows are made of shifted copies of it."""

from __future__ import annotations

from dataclasses import dataclass

from kernelagent.models.compiler.choices import Config
from kernelagent.models.compiler.kernels.layout import folded

_LARGEST = "propagate_nan=tl.PropagateNan.ALL"


@dataclass(frozen=True)
class Axis:
    """One pooled axis."""

    window: int
    stride: int
    padding: int
    dilation: int

    @property
    def reach(self) -> int:
        """Elements from the first of a window to its last."""
        return self.dilation * (self.window - 1) + 1

    def places(self, tile: int) -> int:
        """Windows that a tile holds in full."""
        return (tile - self.reach) // self.stride + 1

    @property
    def shifts(self) -> list[int]:
        """By how much the tile is shifted each time, so that what a place covers doubles."""
        covered, made = 1, []
        while 2 * covered <= self.window:
            made.append(covered * self.dilation)
            covered *= 2
        rest = self.window - covered
        return [*made, rest * self.dilation] if rest else made


@dataclass(frozen=True)
class Source:
    """What a kernel's text depends on."""

    kind: str
    """`max` or `avg`."""
    down: Axis
    along: Axis
    deep: Axis | None
    """The first of three axes: its places are loaded one after another."""
    divisor: int

    def outputs(self, config: Config) -> tuple[int, int]:
        """Places of the result that a tile makes, down and along."""
        tile = config.blocks
        return self.down.places(tile["TILE_H"]), self.along.places(tile["TILE_W"])

    @property
    def parameters(self) -> list[str]:
        """Sizes that the kernel is given."""
        depth = ["depth", "out_depth"] if self.deep else []
        return [*depth, "height", "width", "out_height", "out_width"]

    def kernel(self, name: str, config: Config) -> str:
        given = [
            "x_ptr",
            "out_ptr",
            *self.parameters,
            "TILE_H: tl.constexpr",
            "TILE_W: tl.constexpr",
        ]
        lines = [*self._begin(config), *self._load(), *self._windows(config), *self._end(config)]
        body = "\n".join(f"    {line}" if line else "" for line in lines)
        return "\n".join(["@triton.jit", folded(f"def {name}({', '.join(given)}):"), folded(body)])

    def _begin(self, config: Config) -> list[str]:
        high, wide = self.outputs(config)
        planes = "planes" if self.deep else "plane"
        return [
            "# A tile of the input is read once. Places further along a window are found in copies",
            "# of the tile that are shifted, not in memory.",
            f"tiles_w = tl.cdiv(out_width, {wide})",
            f"tiles_h = tl.cdiv(out_height, {high})",
            "program = tl.program_id(0)",
            f"left = program % tiles_w * {wide}",
            f"top = program // tiles_w % tiles_h * {high}",
            f"{planes} = (program // (tiles_w * tiles_h)).to(tl.int64)",
            "rows = tl.arange(0, TILE_H)[:, None]",
            "cols = tl.arange(0, TILE_W)[None, :]",
            f"first_row = {_times('top', self.down.stride)}{_less(self.down.padding)}",
            f"first_col = {_times('left', self.along.stride)}{_less(self.along.padding)}",
            "inside = (first_row + rows >= 0) & (first_row + rows < height)",
            "inside &= (first_col + cols >= 0) & (first_col + cols < width)",
        ]

    def _load(self) -> list[str]:
        outside = 'float("-inf")' if self.kind == "max" else "0.0"
        deep = self.deep
        if deep is None:
            return [
                "begin = x_ptr + (plane * height + first_row) * width + first_col",
                f"tile = tl.load(begin + (rows * width + cols), mask=inside, other={outside}).to(tl.float32)",
            ]
        apart = "" if deep.dilation == 1 else f" * {deep.dilation}"
        slab = _joined(self.kind, "tile", "slab.to(tl.float32)")
        return [
            "image = planes // out_depth",
            f"first_slab = {_times('planes % out_depth', deep.stride)}{_less(deep.padding)}",
            f"tile = tl.full((TILE_H, TILE_W), {outside}, tl.float32)",
            f"for deeper in tl.static_range({deep.window}):",
            f"    z = first_slab + deeper{apart}",
            "    begin = x_ptr + ((image * depth + z) * height + first_row) * width + first_col",
            "    slab = tl.load(",
            "        begin + (rows * width + cols),",
            "        mask=inside & (z >= 0) & (z < depth),",
            f"        other={outside},",
            "    )",
            f"    tile = {slab}",
        ]

    def _windows(self, config: Config) -> list[str]:
        lines = []
        if self.down.window > 1 or self.down.stride > 1:
            lines += _along_axis(self.kind, self.down, 0, config.blocks)
        if self.along.window > 1 or self.along.stride > 1:
            lines += _along_axis(self.kind, self.along, 1, self._held(config))
        return lines

    def _held(self, config: Config) -> dict[str, int]:
        """The tile once it has the places of the result down."""
        blocks = dict(config.blocks)
        if self.down.stride > 1:
            blocks["TILE_H"] = power_of_two(self.down.places(blocks["TILE_H"]))
        return blocks

    def _end(self, config: Config) -> list[str]:
        high, wide = self.outputs(config)
        sizes = []
        for axis, block, count in ((self.down, "TILE_H", high), (self.along, "TILE_W", wide)):
            sizes.append(block if axis.stride == 1 else str(power_of_two(count)))
        plane = "planes" if self.deep else "plane"
        value = "tile" if self.kind == "max" else f"tile / {self.divisor}"
        return [
            f"rows = tl.arange(0, {sizes[0]})[:, None]",
            f"cols = tl.arange(0, {sizes[1]})[None, :]",
            f"mask = (rows < {high}) & (top + rows < out_height)",
            f"mask &= (cols < {wide}) & (left + cols < out_width)",
            f"begin = out_ptr + ({plane} * out_height + top) * out_width + left",
            f"tl.store(begin + (rows * out_width + cols), {value}, mask=mask)",
        ]


def power_of_two(number: int) -> int:
    """The next, or the number itself."""
    return 1 << (number - 1).bit_length()


def _along_axis(kind: str, axis: Axis, at: int, blocks: dict[str, int]) -> list[str]:
    """Lines that make windows along one axis of the tile, and keep every `stride`-th of them."""
    own, other = ("TILE_H", "TILE_W") if at == 0 else ("TILE_W", "TILE_H")
    count, across = blocks[own], blocks[other]
    last, where = count - 1, "[:, None]" if at == 0 else "[None, :]"
    places = power_of_two(axis.places(count)) if axis.stride > 1 else count
    shape = f"({places}, {across})" if at == 0 else f"({across}, {places})"
    index = f"{_times(f'tl.arange(0, {places}){where}', axis.stride)} + tl.zeros({shape}, tl.int32)"
    lines = [f"at = {index}"]
    if axis.stride == 1 and (kind == "max" or axis.window & (axis.window - 1) == 0):
        # What a place covers doubles with each shift.
        for shift in axis.shifts:
            shifted = f"tl.gather(tile, tl.minimum(at + {shift}, {last}), {at})"
            lines.append(f"tile = {_joined(kind, 'tile', shifted)}")
        return lines
    lines.append(f"window = tl.gather(tile, tl.minimum(at, {last}), {at})")
    for tap in range(1, axis.window):
        shifted = f"tl.gather(tile, tl.minimum(at + {tap * axis.dilation}, {last}), {at})"
        lines.append(f"window = {_joined(kind, 'window', shifted)}")
    return [*lines, "tile = window"]


def _joined(kind: str, left: str, right: str) -> str:
    return f"tl.maximum({left}, {right}, {_LARGEST})" if kind == "max" else f"{left} + {right}"


def _times(text: str, factor: int) -> str:
    return text if factor == 1 else f"{text} * {factor}"


def _less(number: int) -> str:
    return f" - {number}" if number else ""
