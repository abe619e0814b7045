"""Where a convolution reads: the text of its windows' beginnings, of their elements, and of what is inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelagent.models.compiler.templates.convolution.convolutions import Convolution

SPATIAL = {1: ("length",), 2: ("height", "width"), 3: ("depth", "height", "width")}
"""What the axes are called, by how many there are."""
_BEGINS = {1: ("left",), 2: ("top", "left"), 3: ("front", "top", "left")}
_AT = {1: ("x",), 2: ("y", "x"), 3: ("z", "y", "x")}


@dataclass(frozen=True)
class Places:
    """The lines of a kernel that say which elements of the input belong to which position of the output."""

    conv: Convolution

    @property
    def axes(self) -> tuple[str, ...]:
        """What the spatial axes are called."""
        return SPATIAL[len(self.conv.window)]

    def beginnings(self) -> list[str]:
        """The place of each position's window in the input, by axis."""
        call = self.conv.call
        names = _BEGINS[len(self.conv.window)]
        lines = [] if self.conv.taps == 1 and not call.transposed else [self._steps_words()]
        for axis, name in enumerate(names):
            after = self.axes[axis + 1 :]
            place = "positions"
            if after:
                size = " * ".join(f"out_{other}" for other in after)
                place += f" // ({size})" if len(after) > 1 else f" // {size}"
            if axis > 0:
                place += f" % out_{self.axes[axis]}"
            padding = call.padding[axis]
            if call.transposed:
                border = f" + {padding}" if padding else ""
                lines.append(f"{name} = {place}{border}")
            else:
                border = f" - {padding}" if padding else ""
                lines.append(f"{name} = {place}{times(call.stride[axis])}{border}")
        return lines

    def _steps_words(self) -> str:
        call = self.conv.call
        words = [f"stride {_shown(call.stride)}", f"padding {_shown(call.padding)}"]
        words += [f"dilation {_shown(call.dilation)}"] if set(call.dilation) != {1} else []
        if call.transposed:
            return f"# Transposed: the inputs whose windows reach a position. {', '.join(words).capitalize()}."
        return f"# Where each position's window begins in the input: {', '.join(words)}."

    def windows(self, plane: str) -> list[str]:
        """The first plane that a window reads, and the offset of the window's first element in it."""
        if self.conv.call.transposed:
            return [f"first_plane = {plane}"]
        lines = []
        if not plane.isalnum() and plane != "images * in_channels":
            lines, plane = [f"first_plane = {plane}"], "first_plane"
        for axis, begin in zip(self.axes, _BEGINS[len(self.conv.window)], strict=True):
            inner = f"({plane})" if " + " in plane else plane
            plane = f"{inner} * {axis} + {begin}"
        return [*lines, f"windows = {plane}"]

    def reach(self, k: str, channel: str | None) -> list[str]:
        """The element of the window that `k` is: how far from the window's beginning, and whether inside."""
        conv, call = self.conv, self.conv.call
        lines: list[str] = []
        for axis, (size, begin, at) in enumerate(
            zip(self.axes, _BEGINS[len(conv.window)], _AT[len(conv.window)], strict=True)
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
        return f"{text}{times(dilation)}"

    def place(self) -> str:
        """The offset of an element of the input."""
        dims = len(self.conv.window)
        if self.conv.call.transposed:
            offset = "first_plane" if self.conv.depthwise else "(first_plane + channel)"
            for axis, at in zip(self.axes, _AT[dims], strict=True):
                offset = f"({offset} * {axis} + {at})"
            return offset[1:-1]
        offset = "" if self.conv.depthwise else "channel"
        for axis, at, size in zip(self.axes, _AT[dims], self.conv.window, strict=True):
            step = f"d{at}" if size > 1 else ""
            if not offset:
                offset = step
                continue
            grouped = f"({offset})" if " + " in offset else offset
            offset = f"{grouped} * {axis}" + (f" + {step}" if step else "")
        return f"windows + {offset}" if offset else "windows"


def shape_words(sizes: Sequence[int]) -> str:
    """As in `3 x 3`."""
    return " x ".join(map(str, sizes))


def _shown(numbers: Sequence[int]) -> str:
    return str(numbers[0]) if len(set(numbers)) == 1 else ", ".join(map(str, numbers))


def times(number: int) -> str:
    """A factor behind something, nothing where it is 1."""
    return "" if number == 1 else f" * {number}"
