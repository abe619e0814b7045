"""Which way the conditions in a kernel came out: what stands behind the other way was not judged.

An operation on data that leaves its other operand as it is, element by element, is a condition too: one of `tl.maximum`
in which the same operand is always the larger, a product with what is always one, a sum with what is always zero.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
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
    called: str = ""
    """Of one in a function that a kernel calls: where it does, as `line:column`, the outermost first."""


class Choices:
    """The conditions of one launch and the ways that they came out."""

    def __init__(self) -> None:
        self.seen: dict[Choice, int] = {}

        self._calls = threading.local()
        """Programs that take turns have threads of their own."""

    @property
    def called(self) -> str:
        """Where the function that runs was called; empty in the kernel itself."""
        return getattr(self._calls, "places", "")

    @contextlib.contextmanager
    def calling(self, place: str) -> Iterator[None]:
        """Inside, a function runs that was called there: each place is another choice, as if its text stood there."""
        before = self.called
        self._calls.places = f"{before} {place}".strip()
        try:
            yield
        finally:
            self._calls.places = before

    def ways(self, choice: Choice) -> int:
        """How it came out here so far."""
        return self.seen.get(choice._replace(called=self.called), 0)

    def came_out_both_ways(self, choice: Choice) -> bool:
        """Nothing more can be learnt of it."""
        return self.ways(choice) == TRUE | FALSE

    def note(self, choice: Choice, *, holds: bool, fails: bool) -> None:
        ways = TRUE * holds | FALSE * fails
        self.seen[choice._replace(called=self.called)] = self.ways(choice) | ways
