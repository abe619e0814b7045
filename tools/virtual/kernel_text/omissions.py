"""Parts of a kernel that a launch can be run without: a loop's last round, an assignment, the border of a bound, lanes of a range.

Mutation testing, of the candidate: where a call's answer stays as it is, the call does not show whether the loop is long enough,
the bound wide enough, or the window large enough. Nothing of it is compiled: the text runs in the interpreter as it would
with the smaller number.
"""

from __future__ import annotations

import builtins
from collections.abc import Collection
from typing import Any, NamedTuple

import triton.language as tl

from kernelagent.tools.virtual.arithmetic.elementwise import make
from kernelagent.tools.virtual.arithmetic.numerics import Array

_FEWEST_ROUNDS = 2
_FEWEST_LANES = 4
_NARROWER = {"Lt": -1, "LtE": -1, "Gt": 1, "GtE": 1, "NotEq": -1}
"""What is added to the right side of a comparison so that it holds in fewer places; a loop that counts to it ends sooner."""
COMPARED = frozenset(_NARROWER)

ROUND, BEGINNING = "last round", "first round"
STEP, BOUND, FIRST, UPPER = "step", "bound", "first lane", "upper half"


class Omission(NamedTuple):
    """What one place in the text can be run without, as the executor's log has it."""

    kind: str
    line: int
    text: str


class Omitting:
    """Which parts the launches of a call have, and those that they run without."""

    def __init__(self, omitted: Collection[Omission] = ()) -> None:
        self._omitted = frozenset(omitted)
        self.met: dict[Omission, None] = {}
        """Those that a launch came to."""

    def omits(self, kind: str, line: int, text: str) -> bool:
        """Whether this part is left out; it is noted as met."""
        part = Omission(kind, line, text)
        self.met[part] = None
        return part in self._omitted


class Omits:
    """Mixed into what rewritten kernels ask."""

    semantic: Any

    @property
    def _omitting(self) -> Omitting | None:
        omitting: Omitting | None = self.semantic.builder.omitting
        return omitting

    def rounds(self, line: int, text: str, indices: Any) -> Any:
        """The indices of a loop, whose first or last may be left out; anything that is no `range` as it is."""
        omitting = self._omitting
        if omitting is None or not line or not isinstance(indices, builtins.range):
            return indices
        if len(indices) < _FEWEST_ROUNDS:
            return indices
        first, last = (omitting.omits(kind, line, text) for kind in (BEGINNING, ROUND))
        return indices[int(first) : len(indices) - int(last)]

    def rounds_of_each(
        self, line: int, text: str, start: Array, step: Array, counts: Array
    ) -> tuple[Array, Array]:
        """The same of each program: where its loop begins, and how many rounds it has."""
        omitting = self._omitting
        if omitting is None or not line or int(counts.max(initial=0)) < _FEWEST_ROUNDS:
            return start, counts
        several = counts >= _FEWEST_ROUNDS
        first, last = (several & omitting.omits(kind, line, text) for kind in (BEGINNING, ROUND))
        return start + step * first, counts - first - last

    def kept(self, line: int, text: str, new: Any, *instead: Any) -> Any:
        """What an assignment gives to its names; where it is left out, the first of the others that is of its type."""
        omitting = self._omitting
        if omitting is None:
            return new
        others = [value for value in instead if _is_another(new, value)]
        return others[0] if others and omitting.omits(STEP, line, text) else new

    def border(self, line: int, text: str, compared: str, value: Any) -> Any:
        """The right side of a comparison of whole numbers, by one nearer where its border is left out."""
        omitting = self._omitting
        if omitting is None or not _is_whole(value) or not omitting.omits(BOUND, line, text):
            return value
        return value + _NARROWER[compared]

    def lanes(self, line: int, text: str, value: Any) -> Any:
        """`tl.arange`, in which some numbers may be replaced by their neighbour's."""
        omitting = self._omitting
        if omitting is None or not isinstance(value, tl.tensor):
            return value
        data = value.handle.data
        count = data.shape[-1]
        if count < _FEWEST_LANES:
            return value
        first, upper = (omitting.omits(kind, line, text) for kind in (FIRST, UPPER))
        if not (first or upper):
            return value
        changed = data.copy()
        half = count // 2
        if first:
            changed[..., 0] = data[..., 1]
        if upper:
            changed[..., half:] = data[..., half - 1 : half]
        return tl.tensor(make(changed, value.handle.dtype), value.type)


def _is_another(new: Any, old: Any) -> bool:
    """Whether it is of one type with what was there, and not the same object."""
    if isinstance(new, tuple) and isinstance(old, tuple):
        pairs = list(zip(new, old, strict=False))
        alike = len(new) == len(old) and all(a is b or _is_another(a, b) for a, b in pairs)
        return alike and any(a is not b for a, b in pairs)
    if isinstance(new, tl.tensor) and isinstance(old, tl.tensor):
        # Whoever stores by another pointer writes to memory that nobody expects him in.
        alike = bool(new.type == old.type) and not new.dtype.is_ptr()
        return alike and new.handle is not old.handle
    return type(new) is type(old) and isinstance(new, int | float | tl.constexpr)


def _is_whole(value: Any) -> bool:
    plain = value.value if isinstance(value, tl.constexpr) else value
    if isinstance(plain, tl.tensor):
        return bool(plain.dtype.is_int() and not plain.dtype.is_bool())
    return isinstance(plain, int) and not isinstance(plain, bool)
