"""Anytime curves drawn: as text for a terminal, and as one self-contained SVG.

Both show every strategy's line, the band of its interval, the axes with their units and a legend, and
say so (`Comparison.warning`) when nothing was real or timed. The SVG follows the reader's light or dark scheme.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from rich.text import Text

from kernelagent.evaluation import Interval
from kernelagent.lab.study import Axis, Curve

UNITS: dict[Axis, str] = {
    "turns": "turns",
    "tokens": "tokens",
    "dollars": "US dollars",
    "seconds": "seconds",
}
MARKS = "●◆▲■✚◇○△"
COLOURS = ("blue", "red", "green", "magenta", "cyan", "yellow", "white", "bright_red")
# Okabe and Ito's palette, told apart by colour-blind readers; each stands out on white and on black.
HUES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#7a7a7a")
WORTH = "best score so far"


@dataclass(frozen=True)
class Frame:
    """Where data lies on a drawing: x from 0 to `most`, y from `low` to `high`."""

    most: float
    low: float
    high: float

    @classmethod
    def around(cls, curves: Sequence[Curve]) -> Frame:
        """All lines and bands, with a little air; never of no width or height."""
        lows = [value.low for curve in curves for value in curve.values]
        highs = [value.high for curve in curves for value in curve.values]
        low, high = min(lows, default=1.0), max(highs, default=1.0)
        air = max(0.02, (high - low) * 0.05)
        most = max((curve.places[-1] for curve in curves), default=0.0)
        return cls(most or 1.0, max(0.0, low - air), high + air)

    def across(self, x: float) -> float:
        """Share of the width, 0 to 1."""
        return x / self.most

    def up(self, y: float) -> float:
        """Share of the height, 0 at the foot."""
        return (y - self.low) / (self.high - self.low)


def plot(curves: Sequence[Curve], *, width: int = 72, height: int = 18, warning: str = "") -> Text:
    """The curves as text of about `width` columns; bands are dotted."""
    frame = Frame.around(curves)
    grid: list[list[tuple[str, str]]] = [[(" ", "")] * width for _ in range(height)]
    for which, curve in enumerate(curves):
        colour = COLOURS[which % len(COLOURS)]
        for column in range(width):
            value = _value_at(curve, frame.most * column / max(1, width - 1))
            for row in range(_row(frame, value.high, height), _row(frame, value.low, height) + 1):
                if grid[row][column][0] == " ":
                    grid[row][column] = ("·", f"dim {colour}")
    for column in range(width):
        x = frame.most * column / max(1, width - 1)
        on_row: dict[int, list[int]] = {}
        for which, curve in enumerate(curves):
            on_row.setdefault(_row(frame, _value_at(curve, x).value, height), []).append(which)
        for row, lines in on_row.items():
            # Lines that lie on one another take turns, so that none of them is hidden.
            shown = lines[column % len(lines)]
            grid[row][column] = (MARKS[shown % len(MARKS)], COLOURS[shown % len(COLOURS)])
    return _framed(curves, frame, grid, warning)


def svg(curves: Sequence[Curve], *, title: str, warning: str = "") -> str:
    """A whole SVG document, 760 × 420, with no reference to anything outside it."""
    frame = Frame.around(curves)
    axis: Axis = curves[0].axis if curves else "turns"
    parts = [_HEAD.format(title=escape(title), styles=_styles())]
    parts.append(_text(_LEFT, 22, title, "title"))
    if warning:
        parts.append(_text(_LEFT, 38, warning, "warning"))
    parts += _grid(frame)
    parts += [_band(curve, frame, which) for which, curve in enumerate(curves)]
    parts += [_line(curve, frame, which) for which, curve in enumerate(curves)]
    parts += _legend(curves)
    parts.append(_text((_LEFT + _RIGHT) / 2, _FOOT + 40, UNITS[axis], "label middle"))
    across = f'transform="rotate(-90 16 {(_TOP + _FOOT) / 2:g})"'
    words = f"{WORTH}, × eager (geometric mean, 95 % interval)"
    parts.append(_text(16, (_TOP + _FOOT) / 2, words, "label middle", across))
    return "\n".join((*parts, "</svg>")) + "\n"


def ticks(low: float, high: float, about: int = 6) -> list[float]:
    """Round numbers from low to high, some `about` of them."""
    span = high - low
    if span <= 0 or not math.isfinite(span):
        return [low]
    power = 10 ** math.floor(math.log10(span / about))
    step = next(s * power for s in (1, 2, 5, 10) if s * power * about >= span * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def spelled(number: float) -> str:
    """A tick's number, short: 1.25, 40, 20k, 1.5M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(number) >= 10 * size or (letter == "M" and abs(number) >= size):
            return f"{number / size:g}{letter}"
    return f"{number:g}"


def _value_at(curve: Curve, x: float) -> Interval:
    """A curve is a staircase: what was best at the last place not beyond x."""
    place = bisect_right(curve.places, x + 1e-9 * (1 + abs(x)))
    return curve.values[max(0, place - 1)]


def _row(frame: Frame, y: float, height: int) -> int:
    return min(height - 1, max(0, round((1 - frame.up(y)) * (height - 1))))


def _framed(
    curves: Sequence[Curve], frame: Frame, grid: list[list[tuple[str, str]]], warning: str
) -> Text:
    height, width = len(grid), len(grid[0])
    text = Text(no_wrap=True)
    if warning:
        text.append(f"{warning}\n", style="bold")
    text.append(f"{WORTH}, × eager\n")
    marked = {_row(frame, tick, height): spelled(tick) for tick in ticks(frame.low, frame.high)}
    for number, row in enumerate(grid):
        text.append(f"{marked.get(number, ''):>7} {'┤' if number in marked else '│'}")
        for mark, style in row:
            text.append(mark, style=style)
        text.append("\n")
    text.append(f"{'':>7} └{'─' * width}\n")
    below = [" "] * (width + 8)
    for tick in ticks(0, frame.most):
        column = round(frame.across(tick) * (width - 1))
        below[column : column + len(spelled(tick))] = spelled(tick)
    unit = UNITS[curves[0].axis] if curves else ""
    text.append(f"{'':>9}{''.join(below).rstrip()} {unit}\n")
    for which, curve in enumerate(curves):
        text.append(f"{'':>9}{MARKS[which % len(MARKS)]} ", style=COLOURS[which % len(COLOURS)])
        text.append(f"{curve.strategy}: {_at_the_end(curve)}\n")
    return text


def _at_the_end(curve: Curve) -> str:
    end = curve.values[-1]
    return f"{end.value:.2f} [{end.low:.2f}, {end.high:.2f}]"


_LEFT, _RIGHT, _TOP, _FOOT = 64.0, 560.0, 52.0, 360.0
_HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 420" role="img">
<title>{title}</title>
<style>
svg {{ background: #ffffff; color: #1f2328; font: 12px system-ui, sans-serif; }}
text {{ fill: currentColor; }}
.title {{ font-size: 14px; font-weight: 600; }}
.warning {{ font-weight: 600; fill: #b35900; }}
.middle {{ text-anchor: middle; }}
.end {{ text-anchor: end; }}
.grid {{ stroke: currentColor; stroke-opacity: 0.15; }}
.axis {{ stroke: currentColor; }}
.line {{ fill: none; stroke-width: 2; }}
.band {{ fill-opacity: 0.12; stroke: none; }}
{styles}
@media (prefers-color-scheme: dark) {{
  svg {{ background: #0d1117; color: #e6edf3; }}
  .warning {{ fill: #ffb366; }}
  .band {{ fill-opacity: 0.2; }}
}}
</style>"""


def _styles() -> str:
    return "\n".join(
        f".line.c{which} {{ stroke: {hue}; }} .band.c{which} {{ fill: {hue}; }}"
        for which, hue in enumerate(HUES)
    )


def _x(frame: Frame, x: float) -> float:
    return _LEFT + frame.across(x) * (_RIGHT - _LEFT)


def _y(frame: Frame, y: float) -> float:
    return _FOOT - frame.up(y) * (_FOOT - _TOP)


def _text(x: float, y: float, words: str, kind: str, more: str = "") -> str:
    gap = " " if more else ""
    return f'<text x="{x:g}" y="{y:g}" class="{kind}"{gap}{more}>{escape(words)}</text>'


def _grid(frame: Frame) -> list[str]:
    parts = []
    for tick in ticks(frame.low, frame.high):
        y = _y(frame, tick)
        parts.append(f'<path class="grid" d="M{_LEFT:g} {y:.1f}H{_RIGHT:g}"/>')
        parts.append(_text(_LEFT - 8, round(y + 4, 1), spelled(tick), "end"))
    for tick in ticks(0, frame.most):
        x = _x(frame, tick)
        parts.append(f'<path class="grid" d="M{x:.1f} {_TOP:g}V{_FOOT:g}"/>')
        parts.append(_text(round(x, 1), _FOOT + 18, spelled(tick), "middle"))
    parts.append(f'<path class="axis" fill="none" d="M{_LEFT:g} {_TOP:g}V{_FOOT:g}H{_RIGHT:g}"/>')
    return parts


def _steps(curve: Curve, frame: Frame, of: Callable[[Interval], float]) -> list[str]:
    """The corners of a staircase."""
    corners: list[str] = []
    for place, value in zip(curve.places, curve.values, strict=True):
        x, y = _x(frame, place), _y(frame, of(value))
        if corners:
            corners.append(f"{x:.1f} {corners[-1].split()[1]}")
        corners.append(f"{x:.1f} {y:.1f}")
    return corners


def _line(curve: Curve, frame: Frame, which: int) -> str:
    corners = "L".join(_steps(curve, frame, lambda value: value.value))
    return f'<path class="line c{which % len(HUES)}" d="M{corners}"/>'


def _band(curve: Curve, frame: Frame, which: int) -> str:
    there = _steps(curve, frame, lambda value: value.high)
    back = reversed(_steps(curve, frame, lambda value: value.low))
    return f'<path class="band c{which % len(HUES)}" d="M{"L".join((*there, *back))}Z"/>'


def _legend(curves: Sequence[Curve]) -> list[str]:
    parts = []
    for which, curve in enumerate(curves):
        y = _TOP + 12 + 34 * which
        kind = f"line c{which % len(HUES)}"
        parts.append(f'<path class="{kind}" d="M{_RIGHT + 16:g} {y - 4:g}h22"/>')
        parts.append(_text(_RIGHT + 46, y, curve.strategy, "name"))
        parts.append(_text(_RIGHT + 46, y + 14, _at_the_end(curve), "end-value"))
    return parts
