"""Runs all programs of a launch at once, in chunks; programs that cannot be batched run one by one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from triton.runtime.jit import JITFunction

from kernelagent.tools.virtual.batched.both_builders import BothBuilders
from kernelagent.tools.virtual.batched.job import FIRST_CHUNK, HowRun, Job
from kernelagent.tools.virtual.batched.memory import MOST_RUNS
from kernelagent.tools.virtual.executor.launch import Launch, Observer
from kernelagent.tools.virtual.interpreter.interleaving import Order, run_in_turns
from kernelagent.tools.virtual.interpreter.interpreter import (
    Program,
    all_programs,
    captured_prints,
    untraced,
)

_MOST_PROGRAMS = 1 << 15


class BatchedInterpreter(BothBuilders):
    """Has the interface of `Interpreter`, which it keeps as its reference and asks where it must."""

    def __init__(self, most_together: int = _MOST_PROGRAMS, *, most_runs: int = MOST_RUNS) -> None:
        super().__init__(most_together, most_runs)
        self.how = HowRun()
        """How the last launch was run."""
        self.printed = ""
        """The beginning of what the last launch printed."""

    def leave(self) -> None:
        """Nothing is left to put back: `run` does that itself, and compiling may follow at once."""

    def run(
        self,
        function: JITFunction[Any],
        arguments: Mapping[str, Any],
        launch: Launch,
        *,
        programs: Sequence[Program] | None = None,
        observers: Sequence[Observer] = (),
        limit: AbstractContextManager[None] | None = None,
        enough_s: float | None = None,
        after_chunk: Callable[[], None] | None = None,
        first_chunk: int = FIRST_CHUNK,
    ) -> int:
        """Run the grid, or the given programs of it; returns how many ran. Observers may raise.

        `enough_s`: after so many seconds no further program is begun; the first runs in any case.
        `after_chunk`: called when some programs have run together, or one by one. `first_chunk`: programs that are
        tried together before it is known how large one is.
        """
        self.reference.builder.pointees = self.language.builder.pointees = launch.pointees
        job = Job(self, function, arguments, launch, observers, enough_s, after_chunk, first_chunk)
        self.how = job.how
        waiting = list(programs) if programs is not None else all_programs(launch.grid)
        with untraced(), captured_prints() as capped:
            try:
                # Entered last and left first, so that what it raises finds every scope whole.
                with limit or contextlib.nullcontext():
                    for observer in observers:
                        observer.launch_begins(launch)
                    count = job.run(waiting)
                    for observer in observers:
                        observer.launch_ends(launch)
            finally:
                self.printed = capped.text
        return count

    def run_in_turns(
        self,
        function: JITFunction[Any],
        arguments: Mapping[str, Any],
        launch: Launch,
        order: Order,
        limit: AbstractContextManager[None],
    ) -> None:
        """Run the grid in another order of programs or lanes; nobody watches."""
        reference = self.reference
        reference.builder.pointees = launch.pointees
        with (
            untraced(),
            captured_prints(),
            limit,
            reference.prepared_together(function, arguments, launch) as kernel,
        ):
            run_in_turns(all_programs(launch.grid), kernel, reference.builder, order)
        self.how = HowRun(alone=launch.programs)
