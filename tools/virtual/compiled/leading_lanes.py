"""Atomics of machine code that one lane does for its whole warp, as ptxas makes them of integers at one address.

The lane is the first that takes part: a vote, the number of its highest bit (`FLO`), and a comparison with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kernelagent.tools.virtual.compiled.load_waits import Step

_NAME = re.compile(r"\bU?[RP]\d+\b")
_FIRST_BIT = ("FLO", "UFLO")
_COMPARISONS = ("ISETP", "UISETP")
_TARGET = re.compile(r"`\((\.L\w+)\)")


def atomics_of_leaders(steps: Iterable[Step | str], atomics: frozenset[str]) -> int:
    """`steps`: instructions, and labels as text where they stand."""
    first: set[str] = set()
    leaders: set[str] = set()
    skipping: str | None = None
    count = 0
    for step in steps:
        if isinstance(step, str):
            skipping = None if step == skipping else skipping
            continue
        operation = step.mnemonic.partition(".")[0]
        if operation in atomics:
            count += skipping is not None or step.guard.lstrip("!") in leaders
            continue
        if operation == "BRA" and step.guard.lstrip("!") in leaders:
            target = _TARGET.search(step.operands)
            skipping = target[1] if target else None
        names = _NAME.findall(step.operands)
        if not names:
            continue
        made, given = names[0], set(names[1:])
        if operation in _COMPARISONS:
            (leaders.add if given & first else leaders.discard)(made)
        elif operation in _FIRST_BIT:
            first.add(made)
        elif operation not in ("STG", "STS", "RED", "REDG"):
            first.discard(made)
    return count
