"""A predicted number with the interval it comes with: what every estimate is handed on as."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

COVERAGE = 0.8
"""The share of measured numbers that an interval is made to hold."""


@dataclass(frozen=True)
class Estimated:
    """A prediction and its 80 % interval; never a measurement.

    Raises `ValueError` unless 0 < low <= value <= high.
    """

    value: float
    low: float
    high: float
    label: Literal["estimate"] = "estimate"

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.value <= self.high:
            raise ValueError(
                f"an estimate needs 0 < low <= value <= high, got {self.low}, {self.value}, "
                f"{self.high}"
            )

    @classmethod
    def within(cls, value: float, below: float, above: float) -> Estimated:
        """`value` with an interval from `value * below` to `value * above`."""
        return cls(value, value * below, value * above)

    @property
    def spread(self) -> float:
        """Half the interval's width as a natural logarithm: 0.1 is about ±10 %."""
        return math.log(self.high / self.low) / 2

    def below(self, other: Estimated) -> bool:
        """Whether the whole interval lies under the other's."""
        return self.high < other.low

    def apart(self, other: Estimated) -> bool:
        """Whether the two intervals do not meet, so that the two can be told apart."""
        return self.below(other) or other.below(self)

    def over(self, other: Estimated) -> Estimated:
        """The ratio `self / other`; the errors of the two are taken as independent."""
        value = self.value / other.value
        down = math.hypot(math.log(self.value / self.low), math.log(other.high / other.value))
        up = math.hypot(math.log(self.high / self.value), math.log(other.value / other.low))
        return Estimated(value, value * math.exp(-down), value * math.exp(up))
