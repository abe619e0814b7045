"""One launch, chunk after chunk: its programs together where they can be, else one by one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from triton.runtime.jit import JITFunction

from kernelagent.tools.virtual.batched.accesses import NotBatchable, TooManyTogether
from kernelagent.tools.virtual.batched.between_programs.conflicts import require_no_conflicts
from kernelagent.tools.virtual.batched.between_programs.order import OrderWatch, Recorder
from kernelagent.tools.virtual.batched.between_programs.overlaps import may_overlap
from kernelagent.tools.virtual.batched.between_programs.overwrites import (
    require_changes_in_order,
    require_copies_in_order,
    require_stored_in_time,
)
from kernelagent.tools.virtual.batched.both_builders import BothBuilders
from kernelagent.tools.virtual.batched.counting import touches_of
from kernelagent.tools.virtual.cost.traffic import TrafficCounter
from kernelagent.tools.virtual.executor.deadline import Clock, TimeIsUp
from kernelagent.tools.virtual.executor.launch import Launch, Observer
from kernelagent.tools.virtual.interpreter.interpreter import Program, argument_values
from kernelagent.tools.virtual.provenance.stored_to import StoredTo
from kernelagent.tools.virtual.races.bounds import BoundsChecker
from kernelagent.tools.virtual.races.races import RaceChecker

FIRST_CHUNK = 64
_LANES_TOGETHER = 1 << 19
"""Lanes of an operation over a chunk: few enough that its arrays stay in the caches."""
_FAILED_CHUNKS = 2
"""After so many in a row, the rest of a launch is not tried together."""
_TURN = 64


@dataclass
class HowRun:
    """How a launch's programs were run, and why not all of them together."""

    together: int = 0
    alone: int = 0
    at_a_time: int = 0
    """The most programs of a chunk."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Programs that were run one by one, by reason."""


class Job:
    """One launch."""

    def __init__(
        self,
        owner: BothBuilders,
        function: JITFunction[Any],
        arguments: Mapping[str, Any],
        launch: Launch,
        observers: Sequence[Observer],
        enough_s: float | None,
        after_chunk: Callable[[], None] | None,
        first_chunk: int,
    ) -> None:
        self.how = HowRun()
        self._after_chunk = after_chunk
        self._first_chunk = first_chunk
        self._until = None if enough_s is None else time.perf_counter() + enough_s
        self._owner = owner
        self._language = owner.language
        self._memory = self._language.builder.memory
        self._function, self._arguments, self._launch = function, arguments, launch
        self._observers = observers
        constants = repr(sorted(launch.constexprs.items(), key=str))
        self._key = (id(function), constants, self._memory.mode)
        self._clocks = [item for item in observers if isinstance(item, Clock)]
        self._traffic = [item for item in observers if isinstance(item, TrafficCounter)]
        self._stored = [item for item in observers if isinstance(item, StoredTo)]
        self._orders = [OrderWatch(item) for item in observers if isinstance(item, RaceChecker)]
        self._memory.watch_bounds = any(isinstance(item, BoundsChecker) for item in observers)
        self._failed = 0

    def run(self, programs: Any) -> int:
        """Chunk after chunk, in the programs' order."""
        done, total = 0, len(programs)
        why = self._reason()
        self._memory.launch_begins(self._launch.tensors)
        while done < total and not self._over(done):
            size = total - done if why else self._chunk_size()
            chunk = programs[done : done + size]
            if not why:
                try:
                    self._together(chunk)
                    self._failed = 0
                except TooManyTogether:
                    self._owner.sizes[self._key] = self._memory.largest
                    continue
                except NotBatchable as refusal:
                    self._failed += 1
                    self._alone(chunk, str(refusal))
                    if refusal.always or self._failed >= _FAILED_CHUNKS:
                        why = str(refusal)
                    if refusal.always:
                        self._owner.refused[self._key] = why
            else:
                self._alone(chunk, why)
            done = self.how.together + self.how.alone
            for clock in self._clocks:
                clock.progress(done)
            if self._after_chunk is not None:
                self._after_chunk()
        if self._owner.float_sums:
            # Whether several programs add to one place is the checker's to say.
            for watch in self._orders:
                watch.tell()
        return done

    def _over(self, done: int) -> bool:
        """Whether enough was run."""
        return self._until is not None and done > 0 and time.perf_counter() > self._until

    def _reason(self) -> str:
        """Why nothing is tried together; empty if it is."""
        if not self._owner.most_together:
            return "all programs are run one by one"
        known = (Clock, TrafficCounter, RaceChecker, BoundsChecker, StoredTo)
        for item in self._observers:
            if not isinstance(item, known):
                return f"{type(item).__name__} watches programs one by one"
        return self._owner.refused.get(self._key, "")

    def _chunk_size(self) -> int:
        known = self._owner.sizes.get(self._key)
        fitting = self._first_chunk if known is None else max(1, _LANES_TOGETHER // known)
        most = self._memory.most_programs or self._owner.most_together
        return min(self._owner.most_together, most, fitting)

    def _together(self, chunk: Sequence[Program]) -> None:
        """Raises `NotBatchable` with memory as it was."""
        builder, memory = self._language.builder, self._memory
        ids = np.array(chunk, dtype=np.int32).reshape(-1, 3)
        builder.ids = (ids[:, 0], ids[:, 1], ids[:, 2])
        operations: Counter[tuple[Any, str]] = Counter()

        def count(kind: Any, number: int, dtype: str) -> None:
            operations[kind, dtype] += number

        builder.count = count if self._traffic else None
        builder.threads = self._launch.threads
        memory.chunk_begins(len(chunk))
        if self._traffic:
            builder.flow.attach()
        builder.begins()
        try:
            with self._language.active():
                kernel = self._language.function(self._function, self._arguments)
                values = argument_values(self._function, self._arguments)
                builder.set_grid_dim(*self._launch.grid)
                kernel(**values)
            builder.count_chains(len(chunk))
            pairs = may_overlap(memory.accesses)
            require_no_conflicts(memory.accesses, pairs)
            if memory.watch_lanes and memory.mode == "execute":
                require_changes_in_order(memory.accesses, pairs, memory.threads)
                require_copies_in_order(memory.accesses, pairs, memory.threads)
            if self._owner.reference.builder.memory.own.ahead:
                require_stored_in_time(memory.accesses, pairs)
            for watch in self._orders:
                watch.require_new_ground(memory.accesses)
        except (NotBatchable, TimeIsUp):
            memory.take_back()
            raise
        except Exception as error:  # a kernel raises anything
            # Any exception: the one-by-one interpreter runs the chunk again and reports the error and its line.
            memory.take_back()
            raise NotBatchable(f"{type(error).__name__}: {error}"[:200]) from error
        finally:
            builder.count = None
            builder.flow.detach()
        self._owner.sizes[self._key] = memory.largest
        self._finish(chunk, operations)

    def _finish(self, chunk: Sequence[Program], operations: Counter[tuple[Any, str]]) -> None:
        accesses = self._memory.accesses
        for watch in self._orders:
            watch.keep(list(chunk), accesses)
        for stored in self._stored:
            stored.together(accesses)
        if self._traffic:
            touches = touches_of(accesses)
            for counter in self._traffic:
                counter.running.accesses(touches)
                counter.running.programs += len(chunk)
                for (kind, dtype), number in operations.items():
                    counter.operation(kind, number, dtype)
        self._memory.accesses = []
        if self._memory.fresh is not None:
            self._memory.fresh.keep()
        self.how.together += len(chunk)
        self.how.at_a_time = max(self.how.at_a_time, len(chunk))

    def _alone(self, chunk: Sequence[Program], why: str) -> None:
        """The reference runs these; what it raises is the launch's fault."""
        self.how.reasons[why] += len(chunk)
        for watch in self._orders:
            watch.tell()
        recorder = Recorder()
        observers = [item for item in self._observers if not isinstance(item, Clock)]
        extra = [recorder] if self._orders and not self._is_last(chunk) else []
        reference = self._owner.reference
        with (
            reference.watched([*observers, *extra]),
            reference.prepared(self._function, self._arguments, self._launch) as kernel,
        ):
            for place, program in enumerate(chunk):
                done = self.how.together + self.how.alone
                if self._over(done):
                    break
                for clock in self._clocks:
                    clock.ended(done)
                    if place and place % _TURN == 0:
                        clock.progress(done)
                kernel(program)
                self.how.alone += 1
        if self._memory.fresh is not None:
            self._memory.fresh.keep()
        for watch in self._orders:
            watch.heard(recorder)

    def _is_last(self, chunk: Sequence[Program]) -> bool:
        done = self.how.together + self.how.alone
        return done + len(chunk) >= self._launch.programs
