"""Programs of one launch that take turns at every access to memory, as those of a GPU do at any time."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kernelagent.tools.virtual.races.lane_order import LaneOrder

Program = tuple[int, int, int]
TOGETHER = 64
"""So many programs take turns at a time."""
_WAITS = 100
"""A program that has made so many accesses in a row, none a store and all to a few places, waits for others."""
_FEW = 4
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
    scattered: bool = False
    """Programs begin in a drawn order, another as each ends, so that the last may come before the first; else
    `TOGETHER` neighbours run until all have ended, as suits programs that wait for those before them."""


class AllWait(Exception):
    """Each program that has begun waits for one that has not: the order is none that a GPU could have."""


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
        self._places: set[int] = set()
        self._quiet = 0
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

    @property
    def waits(self) -> bool:
        """Whether it has long done nothing but look at a few places."""
        return self._quiet > _WAITS

    def wait(self, place: int, *, stores: bool) -> None:
        """Called in its own thread before each access; `place`: its first address."""
        self._places.add(place)
        self._quiet += 1
        if stores or len(self._places) > _FEW:
            self._places, self._quiet = set(), 0
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
    """Run all `programs` in the order `asked` for; raises what one of them raises, and `AllWait`.

    `kernel()` runs the program that `builder.grid_idx` names, and calls `builder.memory.before_access`
    before each access.
    """
    order = random.Random(asked.secret)
    builder.memory.lane_order = LaneOrder(order.getrandbits(62), backwards=asked.lanes_only)
    try:
        if not asked.lanes_only:
            if asked.scattered:
                drawn = list(programs)
                order.shuffle(drawn)
                _in_turns(drawn, kernel, builder, order)
                return
            for first in range(0, len(programs), TOGETHER):
                some = programs[first : first + TOGETHER]
                _in_turns(some, kernel, builder, order)
            return
        for program in programs:
            builder.grid_idx = program
            kernel()
    finally:
        builder.memory.lane_order = None


def _in_turns(
    programs: Sequence[Program],
    kernel: Callable[[], None],
    builder: Any,
    order: random.Random,
) -> None:
    """`TOGETHER` at a time; each takes a few accesses at a time, some of them far more seldom than others."""
    back = threading.Semaphore(0)
    coming = deque(programs)
    alive: list[_Turns] = []
    slow: set[_Turns] = set()

    def begin(count: int) -> None:
        fresh = [_Turns(coming.popleft(), kernel, back) for _ in range(min(count, len(coming)))]
        for started in fresh:
            started.thread.start()
        # Programs in step with each other can count accesses in place of waiting.
        late = len(fresh) // 4 if len(fresh) > 1 else order.randrange(4) == 0
        slow.update(order.sample(fresh, min(int(late), len(fresh))))
        alive.extend(fresh)

    begin(TOGETHER)
    try:
        while alive:
            thread = order.choice(alive)
            late = thread in slow and order.random() < _LATE
            # There is nothing to be late for where the others only wait.
            if late and not all(item.waits for item in alive if item not in slow):
                continue
            if coming and thread.waits and all(item.waits for item in alive):
                raise AllWait
            builder.grid_idx = thread.program
            builder.memory.before_access = thread.wait
            for _ in range(1 << order.randrange(_BURSTS)):
                thread.go()
                if thread.error is not None:
                    raise thread.error
                if thread.ended:
                    alive.remove(thread)
                    slow.discard(thread)
                    begin(1)
                    break
    finally:
        builder.memory.before_access = None
        for thread in alive:
            if not thread.ended:
                thread.leave()
