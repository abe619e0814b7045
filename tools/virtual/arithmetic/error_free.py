"""Sums and products of doubles with what their rounding leaves over."""

from __future__ import annotations

from typing import Any

import numpy as np

Numbers = np.ndarray[Any, np.dtype[Any]]
Rounded = tuple[Numbers, Numbers]
"""The nearest numbers, and what they leave over, or what has its sign."""
_SPLITTER = 134217729.0
"""2^27 + 1: halves the 53 bits of a double (Dekker 1971)."""


def two_sum(a: Numbers, b: Numbers) -> Rounded:
    """The sum and its rounding error, which is exact (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: Numbers, b: Numbers) -> Rounded:
    """The product and its rounding error, exact where nothing overflows or underflows (Dekker)."""
    product = a * b
    (high, low), (other_high, other_low) = _halves(a), _halves(b)
    left = ((high * other_high - product) + high * other_low + low * other_high) + low * other_low
    return product, left


def _halves(x: Numbers) -> Rounded:
    large = _SPLITTER * x
    high = large - (large - x)
    return high, x - high
