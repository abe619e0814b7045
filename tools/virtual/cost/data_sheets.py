"""Ceilings of the GPU that is really there, by the name torch has for it; all numbers are data sheets'.

One architecture names cards of very different speed. A card that is not listed gets the row of its
architecture, which is the fastest card of it: a bound that is too low refuses nobody.
"""

from __future__ import annotations

import re
from dataclasses import replace

from kernelagent.domain.errors import UsageError
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings, ceilings_for, gpus, words_of


def ceilings_of(name: str, target: str) -> tuple[DeviceCeilings, bool]:
    """The ceilings of the card torch calls `name`, and whether the card itself is listed.

    Raises `UsageError` for an architecture older than every row.
    """
    row = row_near(target)
    words = {word.lower() for word in re.split(r"[\s\-_,]+", name)}
    fitting = [
        key
        for key, asked in words_of().items()
        if gpus()[key].target == target and all(word.lower() in words for word in asked)
    ]
    if fitting:
        best = max(fitting, key=lambda key: len(words_of()[key]))
        return replace(gpus()[best], name=name), True
    return replace(row, name=f"{row.name}, the fastest of {row.target}"), False


def row_near(target: str) -> DeviceCeilings:
    """The row of an architecture, or of the newest one before it: sm_103 runs as sm_100 does."""
    known = (75, 80, 86, 89, 90, 100, 120)
    asked = int(re.sub(r"\D", "", target) or 0)
    for number in sorted(known, reverse=True):
        if number > asked:
            continue
        try:
            return ceilings_for(f"sm_{number}")
        except UsageError:
            continue
    return ceilings_for(target)
