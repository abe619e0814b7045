"""What an fp32 product costs besides its several products on tensor cores: its factors are split, its sums mended."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Splitting:
    """Instructions of one lane, for each turn of the loop around a product."""

    per_factor: int
    """For an element of either factor: its parts are computed, and what tensor cores read is put into shared memory."""
    per_sum: int = 3
    """For an element of the sum: the small products' NaN are made zero, and the three are added."""

    def slots(self, factors: int, sums: int) -> int:
        """Issue slots of lanes for so many elements."""
        return self.per_factor * factors + self.per_sum * sums


SPLITTING = {"tf32x3": Splitting(6), "bf16x3": Splitting(8), "bf16x6": Splitting(15)}
"""By how the product is formed, counted in machine code (triton 3.9, sm_90, tiles of 64 to 128, an inner
block of 32, compared with plain tf32): tf32x3 took 282 to 456 instructions a thread and turn more. A
conversion to bf16 counts four times, as it is issued at a quarter of the rate."""
