"""The roofline: operations per byte against operations per second, under a device's ceilings.

After Williams, Waterman and Patterson, "Roofline: an insightful visual performance model" (2009).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kernelagent.report.charts.series import MARKS, with_prefix
from kernelagent.report.charts.svg import HUES, document, escape, path, shortened, text

_LEFT, _RIGHT, _TOP, _FOOT = 76.0, 560.0, 52.0, 360.0
_LEGEND = 34


@dataclass(frozen=True)
class Ceilings:
    """What a device can do at most, as the caller knows it."""

    bytes_per_s: float
    flops_per_s: tuple[tuple[str, float], ...]
    """Name and rate, for example `("bf16", 989e12)`."""
    source: str
    """Where the numbers come from: a data sheet, or a measurement."""

    def __post_init__(self) -> None:
        rates = (self.bytes_per_s, *(rate for _, rate in self.flops_per_s))
        if not self.flops_per_s or not all(math.isfinite(r) and r > 0 for r in rates):
            raise ValueError("a roofline needs a bandwidth and at least one rate, all above zero")

    @property
    def best_flops_per_s(self) -> float:
        return max(rate for _, rate in self.flops_per_s)

    def roof(self, intensity: float) -> float:
        """The most operations per second at so many operations per byte."""
        return min(self.best_flops_per_s, intensity * self.bytes_per_s)


@dataclass(frozen=True)
class Work:
    """One kernel or module on the plot; both numbers above zero."""

    name: str
    flops_per_byte: float
    flops_per_s: float
    estimated: bool
    """True: from a cost model, never measured."""

    def __post_init__(self) -> None:
        if not all(math.isfinite(n) and n > 0 for n in (self.flops_per_byte, self.flops_per_s)):
            raise ValueError(f"{self.name!r} has no place on a logarithmic plot")


@dataclass(frozen=True)
class _Plane:
    """Powers of ten at the plot's edges."""

    left: float
    right: float
    foot: float
    top: float

    @classmethod
    def around(cls, works: Sequence[Work], ceilings: Ceilings) -> _Plane:
        ridge = ceilings.best_flops_per_s / ceilings.bytes_per_s
        xs = [math.log10(work.flops_per_byte) for work in works] + [math.log10(ridge)]
        left, right = math.floor(min(xs) - 0.7), math.ceil(max(xs) + 0.3)
        ys = [math.log10(work.flops_per_s) for work in works]
        ys += [math.log10(rate) for _, rate in ceilings.flops_per_s]
        ys.append(math.log10(ceilings.roof(10**left)))
        return cls(left, right, math.floor(min(ys)), math.ceil(max(ys) + 0.1))

    def across(self, x: float) -> float:
        return min(1.0, max(0.0, (math.log10(x) - self.left) / (self.right - self.left)))

    def up(self, y: float) -> float:
        return min(1.0, max(0.0, (math.log10(y) - self.foot) / (self.top - self.foot)))


def work_text(work: Work, ceilings: Ceilings) -> str:
    """A point in words: its place, and the share of its roof."""
    share = work.flops_per_s / ceilings.roof(work.flops_per_byte)
    word = "estimated" if work.estimated else "measured"
    return (
        f"{with_prefix(work.flops_per_s, 'FLOP/s')} at {work.flops_per_byte:.3g} FLOP/byte, "
        f"{share:.0%} of its roof, {word}"
    )


def roofline_svg(works: Sequence[Work], ceilings: Ceilings, *, title: str) -> str:
    """A whole SVG document, 760 units wide; both axes are logarithmic."""
    plane = _Plane.around(works, ceilings)
    parts = [text(_LEFT, 22, title, "title"), text(_LEFT, 40, _source(ceilings), "small")]
    parts += _grid(plane) + _roof(plane, ceilings)
    for which, work in enumerate(works):
        parts += _point(work, which, plane, ceilings)
    parts.append(text((_LEFT + _RIGHT) / 2, _FOOT + 40, _ACROSS, "middle"))
    turned = f'transform="rotate(-90 16 {(_TOP + _FOOT) / 2:g})"'
    parts.append(text(16, (_TOP + _FOOT) / 2, _UP, "middle", turned))
    height = max(420.0, _TOP + 24 + _LEGEND * len(works))
    points = "; ".join(f"{work.name}: {work_text(work, ceilings)}" for work in works)
    words = f"{_source(ceilings)}. {points or 'No point'}."
    return document(760, height, parts, title=title, description=words, styles=_STYLES)


def roofline_text(
    works: Sequence[Work], ceilings: Ceilings, *, width: int = 64, height: int = 16
) -> str:
    """The same as Unicode text, about `width` + 12 columns wide."""
    plane = _Plane.around(works, ceilings)
    grid = [[" "] * width for _ in range(height)]
    for column in range(width):
        x = 10 ** (plane.left + (plane.right - plane.left) * column / (width - 1))
        for _, rate in ceilings.flops_per_s:
            if x * ceilings.bytes_per_s >= rate:
                grid[_row(plane, rate, height)][column] = "─"
        if x * ceilings.bytes_per_s <= ceilings.best_flops_per_s:
            grid[_row(plane, x * ceilings.bytes_per_s, height)][column] = "╱"
    for which, work in enumerate(works):
        column = round(plane.across(work.flops_per_byte) * (width - 1))
        grid[_row(plane, work.flops_per_s, height)][column] = MARKS[which % len(MARKS)]
    lines = [f"{_UP}; {_source(ceilings)}"]
    marked = {_row(plane, 10.0**n, height): _power(n) for n in _powers(plane.foot, plane.top)}
    for number, row in enumerate(grid):
        edge = "┤" if number in marked else "│"
        lines.append(f"{marked.get(number, ''):>6} {edge}{''.join(row).rstrip()}")
    lines.append(f"{'':>6} └{'─' * width}")
    lines.append(f"{'':>8}{_feet(plane, width)} {_ACROSS}")
    lines += [
        f"{'':>8}{MARKS[which % len(MARKS)]} {shortened(work.name, 40)}: {work_text(work, ceilings)}"
        for which, work in enumerate(works)
    ]
    return "\n".join(lines) + "\n"


_ACROSS = "FLOP per byte of DRAM traffic"
_UP = "FLOP per second"


def _source(ceilings: Ceilings) -> str:
    return f"ceilings: {with_prefix(ceilings.bytes_per_s, 'B/s')} DRAM; {ceilings.source}"


def _powers(low: float, high: float) -> range:
    return range(math.ceil(low), math.floor(high) + 1)


def _power(exponent: int) -> str:
    """A power of ten as an axis shows it: 0.1, 10, 1k, 100T."""
    return (
        f"{10.0**exponent:g}" if exponent < 3 else with_prefix(10.0**exponent, "").replace(" ", "")
    )


def _feet(plane: _Plane, width: int) -> str:
    below = [" "] * (width + 8)
    for n in _powers(plane.left, plane.right):
        column = round(plane.across(10.0**n) * (width - 1))
        below[column : column + len(_power(n))] = _power(n)
    return "".join(below).rstrip()


def _row(plane: _Plane, y: float, height: int) -> int:
    return round((1 - plane.up(y)) * (height - 1))


def _x(plane: _Plane, x: float) -> float:
    return round(_LEFT + plane.across(x) * (_RIGHT - _LEFT), 1)


def _y(plane: _Plane, y: float) -> float:
    return round(_FOOT - plane.up(y) * (_FOOT - _TOP), 1)


def _grid(plane: _Plane) -> list[str]:
    parts = []
    for n in _powers(plane.foot, plane.top):
        y = _y(plane, 10.0**n)
        parts.append(path("grid", f"M{_LEFT:g} {y:g}H{_RIGHT:g}"))
        parts.append(text(_LEFT - 8, y + 4, _power(n), "end"))
    for n in _powers(plane.left, plane.right):
        x = _x(plane, 10.0**n)
        parts.append(path("grid", f"M{x:g} {_TOP:g}V{_FOOT:g}"))
        parts.append(text(x, _FOOT + 18, _power(n), "middle"))
    parts.append(path("axis", f"M{_LEFT:g} {_TOP:g}V{_FOOT:g}H{_RIGHT:g}"))
    return parts


def _roof(plane: _Plane, ceilings: Ceilings) -> list[str]:
    begin = max(10**plane.left, 10**plane.foot / ceilings.bytes_per_s)
    ridge = ceilings.best_flops_per_s / ceilings.bytes_per_s
    foot, top = (_x(plane, begin), _y(plane, ceilings.roof(begin))), ceilings.best_flops_per_s
    parts = [path("roof", f"M{foot[0]:g} {foot[1]:g}L{_x(plane, ridge):g} {_y(plane, top):g}")]
    for name, rate in ceilings.flops_per_s:
        y, x = _y(plane, rate), _x(plane, rate / ceilings.bytes_per_s)
        parts.append(path("roof" if rate == top else "roof lower", f"M{x:g} {y:g}H{_RIGHT:g}"))
        words = f"{name} {with_prefix(rate, 'FLOP/s')}"
        parts.append(text(_RIGHT - 4, y - 5, words, "small end"))
    return parts


def _point(work: Work, which: int, plane: _Plane, ceilings: Ceilings) -> list[str]:
    hue = f"c{which % len(HUES)}"
    x, y = _x(plane, work.flops_per_byte), _y(plane, work.flops_per_s)
    words = work_text(work, ceilings)
    at = _TOP + 12 + _LEGEND * which
    share, _, place = words.partition(" at ")
    return [
        f'<circle class="mark {hue}" cx="{x:g}" cy="{y:g}" r="6">'
        f"<title>{escape(f'{work.name}: {words}')}</title></circle>",
        text(x + 9, y + 4, str(which + 1), "small"),
        f'<circle class="mark {hue}" cx="{_RIGHT + 22:g}" cy="{at - 4:g}" r="5"/>',
        text(_RIGHT + 34, at, shortened(f"{which + 1} {work.name}", 25)),
        text(_RIGHT + 34, at + 14, shortened(f"{share}, {place.split(', ')[1]}", 29), "small"),
    ]


_STYLES = """
.chart .roof { fill: none; stroke: currentColor; stroke-width: 1.8; }
.chart .lower { stroke-width: 1; stroke-dasharray: 5 3; }"""
