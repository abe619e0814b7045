"""What a thread works in a candidate's own text and in libraries that it calls, told apart from torch and Triton.

One line of Python may take milliseconds (a product of long integers, a text of a million letters), and calls nothing
that could be followed. So the clock of the thread's own work is read wherever control comes to such code or leaves it.
Of each stretch a little is left out, which being followed takes, and more of it beside calls of torch.
"""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time
from types import FrameType

_OF_A_STRETCH_S = 2e-6
_BEFORE_TORCH_S = 5e-6
"""What torch does between a call and the first function that can be followed."""
_AFTER_TORCH_S = 4e-6
_TURNS = 500
_OF_TURNS_S = 13e-6
"""What so many turns take on a server's core of 2023 that has nothing else to do."""


class OwnWork:
    """Told of every call and return, adds up seconds of the code that counts."""

    def __init__(
        self, counts: Callable[[FrameType], bool | None], worked: Callable[[], float] = thread_time
    ) -> None:
        """`counts`: whether a function's work counts; None: as that of its caller. `worked`: the thread's own clock."""
        self._counts = counts
        self._worked = worked
        self._slowness = slowness(worked)
        self._seconds = 0.0
        self._frames: list[bool] = []
        """Of the functions under way: whether their work counts."""
        self._since: float | None = None
        """When the stretch that counts now began."""
        self._left_out = 0.0

    def seconds(self) -> float:
        """On a core that is not slower than usual."""
        return self._seconds / self._slowness

    def pause(self, left_out: float = 0.0) -> None:
        """Ends a stretch, as whoever follows begins to work."""
        if self._since is not None:
            free = _OF_A_STRETCH_S + self._left_out + left_out
            self._seconds += max(0.0, self._worked() - self._since - self._slowness * free)
        self._since, self._left_out = None, 0.0

    def go_on(self) -> None:
        """Begins the next stretch, if what is under way counts."""
        if self._frames and self._frames[-1]:
            self._since = self._worked()

    def called(self, frame: FrameType, *, free: bool | None = None) -> None:
        """Ends a stretch. `free`: of a function written in C, whether it is torch's or Triton's."""
        inside = bool(self._frames) and self._frames[-1]
        counts = self._counts(frame) if free is None else inside and not free
        counts = inside if counts is None else counts
        self.pause(0.0 if counts else _BEFORE_TORCH_S)
        self._frames.append(counts)

    def returned(self) -> None:
        """Ends a stretch: the function that was called last has returned."""
        self.pause()
        if self._frames and not self._frames.pop():
            self._left_out = _AFTER_TORCH_S


def slowness(worked: Callable[[], float] = thread_time) -> float:
    """How many times as long as on a server's core of 2023 everything takes here, what being followed takes included."""
    return max(1.0, min(_of_turns(worked) for _ in range(3)) / _OF_TURNS_S)


def _of_turns(worked: Callable[[], float]) -> float:
    """How slow Python is here and now."""
    began, number = worked(), 0
    for _ in range(_TURNS):
        number = number * 3 & 0xFFFF
    return worked() - began
