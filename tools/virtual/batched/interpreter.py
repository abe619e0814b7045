"""Runs all programs of a launch at once, in chunks; programs that cannot be batched run one by one."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from triton.runtime.jit import JITFunction

from kernelagent.tools.virtual.arithmetic.orders import ORDER
from kernelagent.tools.virtual.batched.accesses import NotBatchable, TooManyTogether
from kernelagent.tools.virtual.batched.conflicts import require_no_conflicts
from kernelagent.tools.virtual.batched.counting import touches_of
from kernelagent.tools.virtual.batched.language import BatchedLanguage
from kernelagent.tools.virtual.batched.memory import MOST_RUNS
from kernelagent.tools.virtual.batched.order import OrderWatch, Recorder
from kernelagent.tools.virtual.batched.overlaps import may_overlap
from kernelagent.tools.virtual.batched.overwrites import (
    require_changes_in_order,
    require_copies_in_order,
)
from kernelagent.tools.virtual.compiled.code_regions import Regions
from kernelagent.tools.virtual.compiled.fetched_ahead import Ahead
from kernelagent.tools.virtual.compiled.memory_operations import Threads
from kernelagent.tools.virtual.compiled.thread_layouts import Layouts
from kernelagent.tools.virtual.cost.traffic import TrafficCounter
from kernelagent.tools.virtual.executor.deadline import Clock, TimeIsUp
from kernelagent.tools.virtual.executor.launch import Launch, Observer
from kernelagent.tools.virtual.interpreter.interleaving import Order, run_in_turns
from kernelagent.tools.virtual.interpreter.interpreter import (
    Interpreter,
    Program,
    all_programs,
    argument_values,
    captured_prints,
    untraced,
)
from kernelagent.tools.virtual.interpreter.memory import StoreMode
from kernelagent.tools.virtual.kernel_text.choices import Choices
from kernelagent.tools.virtual.provenance.never_written import Watch
from kernelagent.tools.virtual.provenance.stored_to import StoredTo
from kernelagent.tools.virtual.races.bounds import BoundsChecker
from kernelagent.tools.virtual.races.races import RaceChecker

_FIRST_CHUNK = 64
_LANES_TOGETHER = 1 << 19
"""Lanes of an operation over a chunk: few enough that its arrays stay in the caches."""
_MOST_PROGRAMS = 1 << 15
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


class BatchedInterpreter:
    """Has the interface of `Interpreter`, which it keeps as its reference and asks where it must."""

    def __init__(self, most_together: int = _MOST_PROGRAMS, *, most_runs: int = MOST_RUNS) -> None:
        self.reference = Interpreter()
        self.most_together = most_together
        """The most programs of a chunk; 0: the reference runs everything."""
        self.how = HowRun()
        """How the last launch was run."""
        self.printed = ""
        """The beginning of what the last launch printed."""
        self._language = BatchedLanguage()
        self._language.builder.memory.most_runs = most_runs
        self.hints = self.reference.builder.hints = self._language.builder.hints
        """What the kernel of the last launch told the compiler."""
        self._sizes: dict[Any, int] = {}
        self._refused: dict[Any, str] = {}

    def store_as(self, mode: StoreMode, *, one_value_each: bool) -> None:
        """What the next launches' stores do; whether lanes of one store may disagree."""
        self.reference.builder.memory.mode = self._language.builder.memory.mode = mode
        for memory in (self.reference.builder.memory, self._language.builder.memory):
            memory.watch_lanes = one_value_each
        self.reference.builder.memory.own.watched = one_value_each

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
    ) -> int:
        """Run the grid, or the given programs of it; returns how many ran. Observers may raise.

        `enough_s`: after so many seconds no further program is begun; the first runs in any case.
        `after_chunk`: called when some programs have run together, or one by one.
        """
        self.reference.builder.pointees = self._language.builder.pointees = launch.pointees
        job = _Job(self, function, arguments, launch, observers, enough_s, after_chunk)
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

    def spread_lanes(self, threads: Threads) -> None:
        """Which threads have the lanes of the next launches' accesses."""
        self.reference.builder.memory.own.threads = threads
        self._language.builder.memory.threads = threads

    def run_as_compiled(self, regions: Regions) -> None:
        """What the compiled code of the next launches takes."""
        for builder in (self.reference.builder, self._language.builder):
            builder.run_as_compiled(regions)

    def fetch_ahead(self, ahead: Ahead) -> None:
        """Which loads of the next launches are made rounds ahead, among stores of their loop."""
        self.reference.builder.memory.own.ahead = ahead

    def fill_lanes(self, *, numbers: bool) -> None:
        """What the next launch's loads leave in undefined lanes: numbers, or zeros."""
        for builder in (self.reference.builder, self._language.builder):
            builder.numbers_in_lanes, builder.undefined_lanes = numbers, False
            builder.updates, builder.addresses_as_numbers = {}, False
            builder.foreign_nans = False
        self.reference.builder.memory.lanes_meet = False

    def watch_fresh(self, fresh: Watch | None) -> None:
        """Who is told of the next launches' loads and stores, to know which loads find what nobody has written."""
        self.reference.builder.memory.fresh = self._language.builder.memory.fresh = fresh

    def note_choices(self, choices: Choices | None) -> None:
        """Where the next launches' conditions are noted; None: nowhere."""
        for builder in (self.reference.builder, self._language.builder):
            builder.choices = choices

    def compiled_with(self, *, debug: bool, overflow: bool, warps: int) -> None:
        """Whether the next launches' `tl.device_assert` are compiled in, with them those against overflow; and their warps."""
        for builder in (self.reference.builder, self._language.builder):
            builder.compiled_with(debug=debug, overflow=overflow, warps=warps)

    def round_as(
        self, order: str | None, layouts: Layouts, *, fuses: bool, errs: int | None = None
    ) -> None:
        """How the next launches round: in which order they add, and whether products are fused with sums.

        `errs`: the key of errors in what a GPU approximates.
        """
        ORDER.name, ORDER.layouts = order, layouts
        for builder in (self.reference.builder, self._language.builder):
            builder.fuses, builder.approximates = fuses, errs

    @property
    def undefined_lanes(self) -> bool:
        """Whether the last launch had lanes that a load left undefined."""
        return self.reference.builder.undefined_lanes or self._language.builder.undefined_lanes

    @property
    def addresses_as_numbers(self) -> bool:
        """Whether the last launch made a pointer a number."""
        builders = (self.reference.builder, self._language.builder)
        return any(builder.addresses_as_numbers for builder in builders)

    @property
    def float_sums(self) -> bool:
        """Whether atomics of the last launch added up floating point numbers."""
        return self.reference.builder.float_sums or self._language.builder.float_sums

    @property
    def order_matters(self) -> bool:
        """Whether programs of the last launch used an atomic's value, as far as they ran together, or changed
        the same places by atomics of different kinds, or by several lanes of one whose value was used."""
        mixed = self.reference.builder.mixes_updates or self._language.builder.mixes_updates
        lanes = self.reference.builder.memory.lanes_meet
        return mixed or lanes or self._language.builder.memory.order_matters

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


class _Job:
    """One launch."""

    def __init__(
        self,
        owner: BatchedInterpreter,
        function: JITFunction[Any],
        arguments: Mapping[str, Any],
        launch: Launch,
        observers: Sequence[Observer],
        enough_s: float | None,
        after_chunk: Callable[[], None] | None,
    ) -> None:
        self.how = HowRun()
        self._after_chunk = after_chunk
        self._until = None if enough_s is None else time.perf_counter() + enough_s
        self._owner = owner
        self._language = owner._language
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
                    self._owner._sizes[self._key] = self._memory.largest
                    continue
                except NotBatchable as refusal:
                    self._failed += 1
                    self._alone(chunk, str(refusal))
                    if refusal.always or self._failed >= _FAILED_CHUNKS:
                        why = str(refusal)
                    if refusal.always:
                        self._owner._refused[self._key] = why
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
        if self._owner.reference.builder.memory.own.ahead:
            return "loads are fetched ahead in a loop that stores"
        known = (Clock, TrafficCounter, RaceChecker, BoundsChecker, StoredTo)
        for item in self._observers:
            if not isinstance(item, known):
                return f"{type(item).__name__} watches programs one by one"
        return self._owner._refused.get(self._key, "")

    def _chunk_size(self) -> int:
        known = self._owner._sizes.get(self._key)
        fitting = _FIRST_CHUNK if known is None else max(1, _LANES_TOGETHER // known)
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
                kernel = self._language.function(self._function)
                values = argument_values(self._function, self._arguments)
                builder.set_grid_dim(*self._launch.grid)
                kernel(**values)
            builder.count_chains(len(chunk))
            pairs = may_overlap(memory.accesses)
            require_no_conflicts(memory.accesses, pairs)
            if memory.watch_lanes and memory.mode == "execute":
                require_changes_in_order(memory.accesses, pairs, memory.threads)
                require_copies_in_order(memory.accesses, pairs, memory.threads)
            for watch in self._orders:
                watch.require_new_ground(memory.accesses)
        except (NotBatchable, TimeIsUp):
            memory.take_back()
            raise
        except Exception as error:
            # Any exception: the one-by-one interpreter runs the chunk again and reports the error and its line.
            memory.take_back()
            raise NotBatchable(f"{type(error).__name__}: {error}"[:200]) from error
        finally:
            builder.count = None
            builder.flow.detach()
        self._owner._sizes[self._key] = memory.largest
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
                counter.running.programs += len(chunk)
                counter.running.accesses(touches)
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
