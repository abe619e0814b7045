"""Which way the conditions in a kernel came out: what stands behind the other way was not judged.

An operation on data that leaves its other operand as it is, element by element, is a condition too: one of `tl.maximum`
in which the same operand is always the larger, a product with what is always one, a sum with what is always zero.
"""

from __future__ import annotations

from typing import NamedTuple

TRUE, FALSE = 1, 2
"""Ways that were seen, as bits."""


class Choice(NamedTuple):
    """A condition in the candidate's file, or an operation that may leave an operand as it is."""

    line: int
    text: str
    by_data: bool
    equals: str = ""
    """Of an operation: the operand that it may leave as it is; the condition is that the result equals it."""
    bound: float | None = None
    """The other operand, where it is a number in the text."""
    operand: str = ""
    """Of a condition that was joined of several: the one of them that decides, in the elements that count."""


class Choices:
    """The conditions of one launch and the ways that they came out."""

    def __init__(self) -> None:
        self.seen: dict[Choice, int] = {}

    def came_out_both_ways(self, choice: Choice) -> bool:
        """Nothing more can be learnt of it."""
        return self.seen.get(choice) == TRUE | FALSE

    def note(self, choice: Choice, *, holds: bool, fails: bool) -> None:
        ways = TRUE * holds | FALSE * fails
        self.seen[choice] = self.seen.get(choice, 0) | ways
