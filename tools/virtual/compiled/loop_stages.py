"""How many rounds ahead a kernel's loops load, by Triton's IR: a loop of `tl.range(..., num_stages=4)` has its own number."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

_OWN = re.compile(r"tt\.num_stages = (\d+)")
_PLACE = re.compile(r"\s*loc\([^()]*\)$")


@dataclass
class _Region:
    """What is open at a line."""

    loops: bool
    multiplies: bool = False


@cache
def loop_stages(ttir: str, given: int) -> int:
    """The fewest of the loops that multiply, else the most that a loop has of its own; `given`: with the launch."""
    of_products: list[int] = []
    of_others: list[int] = []
    regions: list[_Region] = []
    for line in ttir.splitlines():
        text = _PLACE.sub("", line.strip())
        if text.startswith("}") and regions:
            region = regions.pop()
            own = _OWN.search(text)
            if region.loops and region.multiplies:
                of_products.append(int(own[1]) if own else given)
            elif region.loops and own:
                of_others.append(int(own[1]))
        if "tt.dot" in text:
            inner = next((region for region in reversed(regions) if region.loops), None)
            if inner is not None:
                inner.multiplies = True
        if text.endswith("{"):
            regions.append(_Region("scf.for" in text or "scf.while" in text))
    return min(of_products) if of_products else max(of_others, default=given)
