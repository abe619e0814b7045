"""The interval of a ratio of two estimates: narrower than their own, because what they share cancels.

Its widths are residuals of measured ratios, in `ratios.toml`, which `benchmarks/fit_ratios.py` writes.
"""

from __future__ import annotations

import functools
import math
import tomllib
from pathlib import Path
from typing import Literal

from kernelagent.domain.estimated import Estimated

Kind = Literal["dram", "math", "launch"]
_FILE = Path(__file__).with_name("ratios.toml")
_MATH = frozenset({"dot", "fp", "special"})


def ratio(slow_us: float, fast_us: float, *bounds: str) -> Estimated | None:
    """`slow_us` over `fast_us` with its 80 % interval; None where either is not above zero.

    `bounds`: what limits each of the two forwards (`dram`, `dot`, `launch`, ...). Each class of bounds has a width of
    interval, of which the widest is used.
    """
    if not (slow_us > 0 and fast_us > 0):
        return None
    factor = math.exp(max(_widths()[kind_of(bound)] for bound in bounds))
    return Estimated.within(slow_us / fast_us, 1 / factor, factor)


def kind_of(bound: str) -> Kind:
    """The class of ratios that a bound, which limits a forward, belongs to."""
    if bound == "launch":
        return "launch"
    return "math" if bound in _MATH else "dram"


@functools.cache
def _widths() -> dict[str, float]:
    table = tomllib.loads(_FILE.read_text(encoding="utf-8"))["ratio"]
    return {str(kind): float(width) for kind, width in table.items()}
