"""Horizontal bars: a few named amounts beside one another, with the words that say what each is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kernelagent.report.charts.svg import HUES, document, escape, shortened, text

_ROW, _TOP, _WIDTH = 30.0, 44.0, 760.0
_NAMES, _LONGEST = 200.0, 330.0
_EIGHTHS = "▏▎▍▌▋▊▉█"


@dataclass(frozen=True)
class Bar:
    """One amount; zero or more."""

    name: str
    amount: float
    words: str
    """The amount with its unit, as a reader should see it."""
    hue: int = 0
    """Bars of one kind share a hue."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.amount) and self.amount >= 0):
            raise ValueError(f"bar {self.name!r}: {self.amount} is no length")


def bars_svg(bars: Sequence[Bar], *, title: str, most: float | None = None) -> str:
    """A whole SVG document, 760 units wide; `most` is the amount that fills the width (the largest)."""
    parts = [text(14, 22, title, "title")]
    for row, bar in enumerate(bars):
        y = _TOP + _ROW * row
        long = round(_LONGEST * _share(bar, bars, most), 1)
        name = text(_NAMES - 10, y + 14, shortened(bar.name, 28), "end")
        parts.append(f"<g><title>{escape(bar.name)}</title>{name}</g>")
        parts.append(
            f'<rect class="mark c{bar.hue % len(HUES)}" x="{_NAMES:g}" y="{y:g}" '
            f'width="{long:g}" height="20" rx="2"/>'
        )
        parts.append(text(round(_NAMES + long + 8, 1), y + 14, shortened(bar.words, 34)))
    height = _TOP + _ROW * max(1, len(bars)) + 4
    message = "; ".join(f"{bar.name}: {bar.words}" for bar in bars) or "Nothing to show"
    return document(_WIDTH, height, parts, title=title, description=message)


def bars_text(bars: Sequence[Bar], *, width: int = 40, most: float | None = None) -> str:
    """One line a bar, `width` columns for the longest."""
    names = min(32, max((len(bar.name) for bar in bars), default=0))
    return "".join(
        f"{shortened(bar.name, names):>{names}} {_blocks(_share(bar, bars, most) * width)} "
        f"{shortened(bar.words, 60)}\n"
        for bar in bars
    )


def _share(bar: Bar, bars: Sequence[Bar], most: float | None) -> float:
    whole = most if most is not None else max(item.amount for item in bars)
    return min(1.0, bar.amount / whole) if whole > 0 else 0.0


def _blocks(columns: float) -> str:
    eighths = math.ceil(columns * 8)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest - 1] if rest else "")
