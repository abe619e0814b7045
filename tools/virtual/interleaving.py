"""Programs of one launch that take turns at every access to memory, as those of a GPU do at any time."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kernelagent.tools.virtual.lane_order import LaneOrder

Program = tuple[int, int, int]
TOGETHER = 64
"""So many programs take turns; those that follow them wait until these have ended."""
_BURSTS = 4
"""A turn is 1, 2, 4 or 8 accesses long."""
_LATE = 0.9
"""How often the slow ones are passed over."""


@dataclass(frozen=True)
class Order:
    """One in which programs and the lanes of their atomics come, other than the interpreter's."""

    secret: int
    lanes_only: bool = False
    """Programs one after another, as they always come, and lanes from the last to the first; else both are drawn."""


class _Left(BaseException):
    """The launch is over for a program that has not ended."""


class _Turns:
    """One program in a thread of its own; exactly one of all these threads and the caller's runs at a time."""

    def __init__(
        self, program: Program, run: Callable[[], None], back: threading.Semaphore
    ) -> None:
        self.program = program
        self.error: BaseException | None = None
        self.ended = False
        self._run, self._back = run, back
        self._turn = threading.Semaphore(0)
        self._left = False
        self.thread = threading.Thread(target=self._all, daemon=True)

    def go(self) -> None:
        """Let it run to its next access or its end; called by the scheduler."""
        self._turn.release()
        self._back.acquire()

    def leave(self) -> None:
        """End it where it stands."""
        self._left = True
        self._turn.release()
        self.thread.join()

    def wait(self) -> None:
        """Called in its own thread before each access."""
        self._back.release()
        self._turn.acquire()
        if self._left:
            raise _Left

    def _all(self) -> None:
        self._turn.acquire()
        try:
            if not self._left:
                self._run()
        except _Left:
            return
        except BaseException as error:  # noqa: BLE001 - it is raised again in the caller's thread
            self.error = error
        self.ended = True
        self._back.release()


def run_in_turns(
    programs: Sequence[Program],
    kernel: Callable[[], None],
    builder: Any,
    asked: Order,
) -> None:
    """Run all `programs` in the order `asked` for; raises what one of them raises.

    `kernel()` runs the program that `builder.grid_idx` names, and calls `builder.memory.before_access`
    before each access.
    """
    order = random.Random(asked.secret)
    builder.memory.lane_order = LaneOrder(order.getrandbits(62), backwards=asked.lanes_only)
    try:
        if not asked.lanes_only:
            _in_turns(programs, kernel, builder, order)
            return
        for program in programs:
            builder.grid_idx = program
            kernel()
    finally:
        builder.memory.lane_order = None


def _in_turns(
    programs: Sequence[Program], kernel: Callable[[], None], builder: Any, order: random.Random
) -> None:
    """`TOGETHER` at a time; each takes a few accesses at a time, some of them far more seldom than others."""
    back = threading.Semaphore(0)
    for first in range(0, len(programs), TOGETHER):
        alive = [_Turns(item, kernel, back) for item in programs[first : first + TOGETHER]]
        for one in alive:
            one.thread.start()
        # Programs in step with each other can count accesses in place of waiting.
        late = set(order.sample(range(len(alive)), len(alive) // 4))
        slow = {one for at, one in enumerate(alive) if at in late}
        try:
            while alive:
                one = order.choice(alive)
                if one in slow and order.random() < _LATE and not slow.issuperset(alive):
                    continue
                builder.grid_idx = one.program
                builder.memory.before_access = one.wait
                for _ in range(1 << order.randrange(_BURSTS)):
                    one.go()
                    if one.error is not None:
                        raise one.error
                    if one.ended:
                        alive.remove(one)
                        break
        finally:
            builder.memory.before_access = None
            for one in alive:
                if not one.ended:
                    one.leave()
