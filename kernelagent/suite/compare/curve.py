"""A comparison's curves in the terms of `kernelagent.report.charts`: text for a terminal, and one SVG.

Both show every strategy's line, the band of its interval, the axes with their units and a legend, and
say so (`Comparison.warning`) when nothing was real or timed.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from kernelagent.report.charts.anytime import Labels, anytime_spans, anytime_svg
from kernelagent.report.charts.series import Point, Series
from kernelagent.suite.compare.study import Axis, Curve

UNITS: dict[Axis, str] = {
    "turns": "turns",
    "tokens": "tokens",
    "dollars": "US dollars",
    "seconds": "seconds",
}
COLOURS = ("blue", "red", "green", "magenta", "cyan", "yellow", "white", "bright_red")


def plot(curves: Sequence[Curve], *, width: int = 72, height: int = 18, warning: str = "") -> Text:
    """The curves as coloured text of about `width` columns; bands are dotted."""
    drawing = Text(no_wrap=True)
    labels = _labels(curves, "", "best score so far, × eager", warning)
    for words, which, faint in anytime_spans(_series(curves), labels, width=width, height=height):
        colour = "" if which is None else COLOURS[which % len(COLOURS)]
        drawing.append(words, style=f"dim {colour}" if faint else colour)
    return drawing


def svg(curves: Sequence[Curve], *, title: str, warning: str = "") -> str:
    """A whole SVG document with no reference to anything outside it."""
    words = "best score so far, × eager (geometric mean, 95 % interval)"
    return anytime_svg(_series(curves), _labels(curves, title, words, warning))


def _labels(curves: Sequence[Curve], title: str, up: str, warning: str) -> Labels:
    axis = curves[0].axis if curves else "turns"
    counts = axis in {"turns", "tokens"}
    return Labels(title, UNITS[axis], up, warning, least_step=1.0 if counts else 0.0)


def _series(curves: Sequence[Curve]) -> list[Series]:
    return [
        Series(
            curve.strategy, curve.places, tuple(Point(v.value, v.low, v.high) for v in curve.values)
        )
        for curve in curves
    ]
