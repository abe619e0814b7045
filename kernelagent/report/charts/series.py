"""What curves are made of: named staircases with bands, the frame they lie in, and round numbers."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

MARKS = "●◆▲■✚◇○△"


@dataclass(frozen=True)
class Point:
    """A value with the band around it; `low` and `high` equal `value` where none is known."""

    value: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> Point:
        return cls(value, value, value)


@dataclass(frozen=True)
class Series:
    """A staircase: from each place on, the value there, until the next."""

    name: str
    places: tuple[float, ...]
    """Ascending, from the left edge on."""
    points: tuple[Point, ...]
    """As many as places, at least one."""
    note: str = ""
    """Words beside the name in the legend; empty: the last value with its band."""

    def __post_init__(self) -> None:
        if not self.places or len(self.places) != len(self.points):
            raise ValueError(
                f"series {self.name!r} needs one point for each place, and at least one"
            )

    def at(self, x: float) -> Point:
        """What held at the last place not beyond x."""
        place = bisect_right(self.places, x + 1e-9 * (1 + abs(x)))
        return self.points[max(0, place - 1)]

    @property
    def legend(self) -> str:
        """The words beside the name."""
        end = self.points[-1]
        if self.note:
            return self.note
        if end.low == end.high:
            return f"{end.value:.2f}"
        return f"{end.value:.2f} [{end.low:.2f}, {end.high:.2f}]"


@dataclass(frozen=True)
class Frame:
    """Where data lies on a drawing: x from 0 to `most`, y from `low` to `high`."""

    most: float
    low: float
    high: float

    @classmethod
    def around(cls, series: Sequence[Series]) -> Frame:
        """All lines and bands, with a little air; never of no width or height."""
        lows = [point.low for item in series for point in item.points]
        highs = [point.high for item in series for point in item.points]
        low, high = min(lows, default=1.0), max(highs, default=1.0)
        air = max(0.02, (high - low) * 0.05)
        most = max((item.places[-1] for item in series), default=0.0)
        return cls(most or 1.0, max(0.0, low - air), high + air)

    def across(self, x: float) -> float:
        """Share of the width, 0 to 1."""
        return x / self.most

    def up(self, y: float) -> float:
        """Share of the height, 0 at the foot."""
        return (y - self.low) / (self.high - self.low)


def ticks(low: float, high: float, about: int = 6, least_step: float = 0.0) -> list[float]:
    """Round numbers from low to high, some `about` of them, no two nearer than `least_step`."""
    span = high - low
    if span <= 0 or not math.isfinite(span):
        return [low]
    power = 10 ** math.floor(math.log10(span / about))
    step = next(s * power for s in (1, 2, 5, 10) if s * power * about >= span * 0.999)
    step = max(step, least_step)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def spelled(number: float) -> str:
    """A tick's number, short: 1.25, 40, 20k, 1.5M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(number) >= 10 * size or (letter == "M" and abs(number) >= size):
            return f"{number / size:g}{letter}"
    return f"{number:g}"


_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def with_prefix(number: float, unit: str) -> str:
    """Three digits and an SI prefix, for example `4.8 TB/s`."""
    size, letter = next(((s, p) for s, p in _PREFIXES if abs(number) >= s * 0.9995), (1.0, ""))
    return f"{number / size:.3g} {letter}{unit}"
