"""Which way the conditions in a kernel came out: what stands behind the other way was not judged."""

from __future__ import annotations

from typing import NamedTuple

TRUE, FALSE = 1, 2
"""Ways that were seen, as bits."""


class Choice(NamedTuple):
    """A condition in the candidate's file."""

    line: int
    text: str
    by_data: bool


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
