"""The best number against what was spent, drawn with braille dots; one step a turn."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from kernelagent.tui.view import Axis, Point

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bits of a braille cell, four rows of two."""
_UNITS: dict[Axis, str] = {"turns": "turns", "tokens": "tokens", "seconds": "s"}


def curve(points: Sequence[Point], axis: Axis, width: int, height: int) -> Text:
    """A chart of `width` by `height` cells, its last line the axis; 1.0 is the baseline."""
    if width < 16 or height < 3:
        return Text("too small for a curve", "dim")
    if not points:
        return Text("no turn has ended yet", "dim")
    rows = height - 1
    top = max(1.0, *(point.ratio for point in points))
    wide = width - 7
    cells = [[0] * wide for _ in range(rows)]
    levels = _levels(points, axis, wide * 2)
    for x, level in enumerate(levels):
        if level is not None:
            _raise(cells, x, level / top, levels[x - 1] if x else None, top)
    text = Text()
    for number, row in enumerate(cells):
        label = _label(number, rows, top)
        text.append(f"{label:>5} ", "dim")
        text.append("│", "dim")
        text.append("".join(chr(0x2800 + cell) for cell in row), "bold green")
        text.append("\n")
    last = f"{_amount(points[-1].at(axis), axis)}"
    text.append(f"{'0':>5} └" + "─" * max(0, wide - len(last) - 1) + f" {last}", "dim")
    return text


def _amount(value: float, axis: Axis) -> str:
    if axis == "dollars":
        return f"${value:.2f}"
    short = f"{value:.0f}" if value < 10_000 else f"{value / 1000:.0f}k"
    return f"{short} {_UNITS[axis]}"


def _label(number: int, rows: int, top: float) -> str:
    if number == 0:
        return f"{top:.2f}×"
    return "" if number != rows - 1 else "0×"


def _levels(points: Sequence[Point], axis: Axis, columns: int) -> list[float | None]:
    """By column: the best score by then, None before the first turn has ended."""
    most = max(points[-1].at(axis), 1e-9)
    levels: list[float | None] = []
    reached, ratio = 0, None
    for x in range(columns):
        while (
            reached < len(points) and points[reached].at(axis) <= most * (x + 1) / columns + 1e-12
        ):
            ratio = points[reached].ratio
            reached += 1
        levels.append(ratio)
    return levels


def _raise(cells: list[list[int]], x: int, share: float, before: float | None, top: float) -> None:
    """Set the dot of a column, and the ones below it down to the level of the column before."""
    dots = len(cells) * 4
    y = dots - 1 - round(share * (dots - 1))
    lowest = y if before is None else dots - 1 - round(before / top * (dots - 1))
    for dot in range(y, max(y, lowest) + 1):
        cells[dot // 4][x // 2] |= _DOTS[dot % 4][x % 2]
