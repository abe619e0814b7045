"""Compares what a launch's compiled code stored with what the interpreter left in its memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.compiled_ir.memory import Stored, held_in_memory, kind_in_memory
from kernelagent.tools.virtual.compiled_ir.types import FLOATS

_NEAR = {"f64": 2.0**-40, "f32": 2.0**-14, "f16": 2.0**-8, "bf16": 2.0**-6}
_NEAR_OF_EIGHT_BITS = 2.0**-2
"""What another order of a sum makes, in shares of the largest value that an operation stored."""
_FAR = {"f64": 2.0**-20, "f32": 2.0**-9, "f16": 2.0**-5, "bf16": 2.0**-4}
_FAR_OF_EIGHT_BITS = 2.0**-1
"""What no rounding explains."""
_FAR_OF_HALVES = 2.0**-5
"""The same in a kernel that computes with 16-bit numbers: which of its sums have 32 bits may be read otherwise."""


@dataclass(frozen=True)
class Difference:
    """The first place where both left something else."""

    place: int
    """In the memory that was compared."""
    compiled: Any = None
    interpreted: Any = None
    location: str | None = None
    """Of the store in the compiled code; None: it stores nothing there."""


@dataclass(frozen=True)
class Outcome:
    """What a comparison found."""

    difference: Difference | None = None
    """One that no rounding explains."""
    rounded: Difference | None = None
    """One that is more than another order of a sum makes."""


def compare(
    compiled: Array, interpreted: Array, stored: list[Stored], *, halves: bool = False
) -> Outcome:
    """`stored`: in order; both memories are bytes. `halves`: the kernel computes with 16-bit numbers."""
    if np.array_equal(compiled, interpreted):
        return Outcome()
    other = compiled != interpreted
    judged = np.zeros(compiled.size, np.bool_)
    rounded = None
    for (element, location), places in reversed(_by_operation(stored).items()):
        along = np.arange(kind_in_memory(element).itemsize)
        places = places[~judged[places]]
        judged[places[:, None] + along] = True
        if not other[places[:, None] + along].any():
            continue
        made, known = (_values(memory, places, element) for memory in (compiled, interpreted))
        off = _apart(made, known, element)
        far = _FAR.get(element, _FAR_OF_EIGHT_BITS)
        worst = int(np.argmax(off))
        first = int(np.argmax(off > (max(far, _FAR_OF_HALVES) if halves else far)))
        shown = [
            Difference(int(places[at]), made[at].item(), known[at].item(), location)
            for at in (first, worst)
        ]
        if off[first] > (max(far, _FAR_OF_HALVES) if halves else far):
            return Outcome(shown[0])
        if off[worst] > _NEAR.get(element, _NEAR_OF_EIGHT_BITS):
            rounded = shown[1]
    left = other & ~judged
    if left.any():
        return Outcome(Difference(int(np.argmax(left))))
    return Outcome(rounded=rounded)


def _by_operation(stored: list[Stored]) -> dict[tuple[str, str], Array]:
    grouped: dict[tuple[str, str], list[Array]] = {}
    for item in stored:
        grouped.setdefault((item.element, item.location), []).append(item.places)
    return {key: np.unique(np.concatenate(places)) for key, places in grouped.items()}


def _values(memory: Array, places: Array, element: str) -> Array:
    kind = kind_in_memory(element)
    whole = np.ascontiguousarray(memory[places[:, None] + np.arange(kind.itemsize)])
    return held_in_memory(whole.view(kind)[:, 0], element)


def _apart(made: Array, known: Array, element: str) -> Array:
    """How far apart they are, in shares of the largest; 2 where that is no matter of more or less."""
    if element not in FLOATS:
        return np.where(made != known, 2.0, 0.0)
    with np.errstate(all="ignore"):
        one, other = made.astype(np.float64), known.astype(np.float64)
        sizes = np.abs(np.concatenate([one, other]))
        finite = sizes[np.isfinite(sizes)]
        largest = float(finite.max()) if finite.size else 0.0
        same = (one == other) | (np.isnan(one) & np.isnan(other))
        both = np.isfinite(one) & np.isfinite(other)
        share = np.where(both, np.abs(one - other) / (largest or 1.0), 2.0)
        result: Array = np.where(same, 0.0, share)
        return result
