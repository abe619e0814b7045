"""Executes launches on the shared memory, watched and within a time budget; logs each."""

from __future__ import annotations

import mmap
import secrets
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from triton.backends.compiler import GPUTarget

from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from kernelagent.tools.virtual.batched.job import FIRST_CHUNK
from kernelagent.tools.virtual.compiled.compiling import (
    check_cooperative,
    check_grid,
    check_registers,
)
from kernelagent.tools.virtual.compiled.disassembling import read_ahead
from kernelagent.tools.virtual.compiled.fetched_ahead import Loop, ahead_of
from kernelagent.tools.virtual.cost.ceilings import ceilings_for
from kernelagent.tools.virtual.device.binding import Bound, Kernel
from kernelagent.tools.virtual.device.storages.arena import Arena
from kernelagent.tools.virtual.device.storages.fresh_memory import Bytes, Fill
from kernelagent.tools.virtual.device.storages.hollow import AliasedRange
from kernelagent.tools.virtual.executor.brief_counting import (
    ENOUGH_S,
    FIRST_TOGETHER,
    BriefCounting,
)
from kernelagent.tools.virtual.executor.compared_launches import before, compare
from kernelagent.tools.virtual.executor.deadline import Clock, TimeIsUp, deadline
from kernelagent.tools.virtual.executor.launch import MemoryFault, Observer, Unsupported
from kernelagent.tools.virtual.executor.launch_log import LaunchLog, Logged
from kernelagent.tools.virtual.executor.requests import LaunchRequest, StorageRow, launch_request
from kernelagent.tools.virtual.executor.sampling import (
    BRIEF_RUN,
    BRIEF_RUNS,
    DRAWN_RUN,
    RUN,
    RUNS,
    sampled,
)
from kernelagent.tools.virtual.executor.source import FILE_NAME
from kernelagent.tools.virtual.interpreter.interleaving import AllWait, Order
from kernelagent.tools.virtual.interpreter.memory import StoreMode
from kernelagent.tools.virtual.kernel_text.choices import Choices
from kernelagent.tools.virtual.kernel_text.omissions import Omitting
from kernelagent.tools.virtual.provenance.altering import Altering
from kernelagent.tools.virtual.provenance.never_written import NeverWritten
from kernelagent.tools.virtual.provenance.replay import Replay
from kernelagent.tools.virtual.provenance.stored_to import StoredTo
from kernelagent.tools.virtual.races.bounds import BoundsChecker

Mode = Literal["execute", "poison", "suppress", "alter", "account"]
"""`alter`: a launch runs as it is, and what it stored is exchanged for plausible values afterwards."""
_IN_TURNS_S = 10.0
"""How long the programs of one launch may take turns."""
_COUNTED_S = 6.0
"""How long the programs of one launch are interpreted for counting; fewer of them count as well."""


class NoContents(Exception):
    """A launch on tensors without memory where kernels are executed."""


class FalseHint(Exception):
    """The compiler was told what does not hold, and made other code for it."""

    def __init__(self, false: Mapping[int, str]) -> None:
        line, hint = min(false.items())
        super().__init__(
            f"the hint {hint} at line {line} is false for these values, and the compiled code relies on "
            f"it: on a GPU it loads or stores other elements; leave the hint out"
        )
        self.detail = {"line": line}


class Launcher(LaunchLog):
    """Holds the shared memory of one candidate, and runs its launches on it."""

    def __init__(self, arena: int, target: GPUTarget, seconds: float) -> None:
        super().__init__(target)
        self.interpreter = BatchedInterpreter()
        self.mode: Mode = "execute"
        self.only: frozenset[int] | None = None
        """Indices of the launches, since the last reset, to which `poison` and `alter` apply; None: all."""
        self.altering: Altering | None = None
        """What `alter` does; set with the mode."""
        self.non_synchronizing_atomics: frozenset[int] = frozenset()
        """Lines of atomics that put no programs in order."""
        self.loops: tuple[Loop, ...] = ()
        """Of the candidate's source."""
        self.watch_bounds = True
        self.watch_races = True
        self.count_traffic = False
        self.dropped_atomics: frozenset[int] = frozenset()
        """Lines of atomics whose value nobody looks at."""
        self.in_turns: Order | None = None
        """Not None: launches in which an atomic's value was used run in this order."""
        self.numbers_in_lanes = False
        """Whether the lanes that a load leaves undefined hold numbers; zeros otherwise."""
        self.order: str | None = None
        """Not None: sums have this order (`orders.Order.name`), and products are fused with the sums they go into."""
        self.errs: int | None = None
        """The key of errors in what a GPU approximates; None: there are none."""
        self._errs_in_counting = secrets.randbits(32)
        self.omitting: Omitting | None = None
        """Not None: launches run without a part of theirs, or note which they have."""
        self.replay: Replay | None = None
        """Where the forward is done once more, on values that the candidate does not hold."""
        self.sample = 0
        """Draws, with a launch's number, which programs of a large grid are run."""
        self.whole_grids = False
        """Under `account` every program is counted."""
        self.part: Literal["all", "drawn", "none"] = "all"
        """Which programs of a grid run where launches are executed."""
        self.brief: BriefCounting | None = None
        """Under `account` less is counted than for a verdict."""
        self.arena = Arena(arena)
        self._seconds = self._seconds_left = seconds
        self._never_written = NeverWritten()
        self._unfilled: dict[int, AliasedRange] = {}
        self._counter: Any = None

    def launch(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run one launch; a fault is logged and told."""
        parameters = [len(kernel.function.arg_names) for kernel in self.kernels]
        wanted = launch_request(request, len(self.kernels), parameters)
        kernel = self.kernels[wanted.handle]
        x, y, z = wanted.grid
        check_grid(kernel.compiled.kernel, (x, y, z))
        if kernel.compiled.metadata["maxnreg"]:
            check_registers(kernel.compiled, self._facts(kernel.compiled).resident_programs)
        if kernel.compiled.metadata["launch_cooperative_grid"]:
            facts = self._facts(kernel.compiled)
            resident = facts.resident_programs * ceilings_for(f"sm_{self._target.arch}").sms
            check_cooperative(kernel.compiled, x * y * z, resident, facts.occupancy_limiter)
        if self.mode != "account" and any(row.empty for row in wanted.storages):
            raise NoContents(
                f"`{kernel.compiled.kernel}` is launched on a tensor that holds nothing (device meta)"
            )
        self.arena.ensure(wanted.arena_bytes)
        bound = Bound(self.memory_of, kernel, wanted)
        if self.replay is not None:
            # Before anything is stored: what is named for the first time begins as the runner has it.
            for row in wanted.storages:
                self.replay.know(row, self.arena.memory)
        launch = bound.record(len(self.log), (x, y, z))
        logged = Logged(launch, kernel)
        self.log.append(logged)
        altering = self.altering if self._mode_of(launch.index, self.mode) == "alter" else None
        try:
            if altering is not None:
                # Its facts are asked for next, in another process that begins with this one's cache.
                read_ahead(kernel.compiled.cubin)
                altering.launch_begins(launch, bound.storages)
            kept = before(self, wanted)
            self._run(logged, bound, wanted.storages)
            if kept is not None:
                compare(self, kept, logged, wanted)
            if altering is not None:
                logged.altered = altering.launch_ends(launch, bound.storages)
        except MemoryFault as fault:
            detail = fault.detail | _place(fault)
            logged.fault = {"code": fault.code, "message": str(fault), "detail": detail}
        except AllWait:
            message = f"`{launch.kernel}`: programs that begin in a drawn order wait for others"
            logged.fault = {
                "code": "unverifiable",
                "message": message,
                "detail": {"all_wait": True},
            }
        except TimeIsUp as late:
            logged.fault = {"code": late.code, "message": str(late), "detail": late.detail}
            if kernel.compiled.metadata["launch_cooperative_grid"]:
                message = (
                    f"`{launch.kernel}` waits for other programs of its grid, and on the virtual "
                    f"device they run one after another; evaluate it with --device cuda"
                )
                logged.fault = {"code": "unverifiable", "message": message, "detail": {}}
        except FalseHint as error:
            message = f"`{launch.kernel}`: {error}"
            logged.fault = {"code": "runtime_error", "message": message, "detail": error.detail}
        except Unsupported as error:
            message = f"`{launch.kernel}` cannot be executed: {error}"
            logged.fault = {"code": "unverifiable", "message": message, "detail": {}}
        except Exception as error:  # noqa: BLE001 - the interpreted kernel may raise anything
            detail = _place(error)
            where = f" at line {detail['line']}" if detail else ""
            message = f"`{launch.kernel}` raised {type(error).__name__}{where}: {error}"
            logged.fault = {"code": "runtime_error", "message": message[:2000], "detail": detail}
        if logged.fault is not None:
            return {"kind": "failed", **logged.fault}
        if self.replay is not None and self.replay.failure is None:
            self._run_hidden(self.replay, kernel, wanted, launch.index)
        return {"kind": "done", "stored": list(logged.stored)}

    def _run_hidden(
        self, replay: Replay, kernel: Kernel, wanted: LaunchRequest, index: int
    ) -> None:
        """The same launch in memory that no other process sees."""
        private = mmap.mmap(-1, max(wanted.arena_bytes, mmap.PAGESIZE))
        replay.fill(wanted.storages, private)
        bound = Bound(lambda row: (private, row.at), kernel, wanted)
        launch = bound.record(index, wanted.grid)
        spent = self._seconds - self._seconds_left
        clock = Clock(launch, self._seconds_left, spent, projects=True)
        self.interpreter.store_as("execute", one_value_each=False)
        self.interpreter.watch_fresh(None)
        began = time.perf_counter()
        try:
            self.interpreter.run(
                kernel.function,
                bound.arguments,
                launch,
                programs=None,
                observers=[clock, BoundsChecker()],
                limit=deadline(self._seconds_left, clock.late),
                enough_s=None,
            )
        except Exception as error:  # noqa: BLE001 - the interpreted kernel may raise anything
            replay.failure = f"`{launch.kernel}`: {type(error).__name__}: {error}"[:300]
        finally:
            self._seconds_left -= time.perf_counter() - began
        replay.take(wanted.storages, private)

    def allow(self, seconds: float) -> None:
        """From now on launches may take so many seconds in all."""
        self._seconds = self._seconds_left = seconds

    def reset(self) -> None:
        """Forget the log; the next forward finds cold caches."""
        self.log.clear()
        if self.altering is not None:
            self.altering.next_call()
        if self._counter is not None:
            self._counter.clear()

    def _run(self, logged: Logged, bound: Bound, storages: Sequence[StorageRow]) -> None:
        launch = logged.launch
        counting = self.mode == "account"
        brief = self.brief if counting and all(row.empty for row in storages) else None
        handle = self.kernels.index(logged.kernel)
        if brief is not None and (known := brief.repeated(handle, launch)) is not None:
            logged.traffic = known
            return
        if self.part == "none":
            return
        careful = self.watch_races and not counting
        mode = self._mode_of(launch.index, self.mode)
        stores: StoreMode = "execute" if mode == "alter" or mode == "account" else mode
        self.interpreter.store_as(stores, one_value_each=careful)
        self.interpreter.reference.builder.memory.own.non_synchronizing_atomics = (
            self.non_synchronizing_atomics
        )
        self.interpreter.reference.builder.memory.dropped_atomics = self.dropped_atomics
        # What is counted or exchanged has been executed as it is before.
        watched = careful and mode == "execute"
        self.interpreter.spread_lanes(logged.kernel.compiled.threads)
        self.interpreter.fetch_ahead(
            ahead_of(logged.kernel.compiled.ahead, self.loops) if watched else {}
        )
        self.interpreter.run_as_compiled(logged.kernel.compiled.regions)
        self.interpreter.fill_lanes(numbers=self.numbers_in_lanes)
        compiled, otherwise = logged.kernel.compiled, self.order is not None
        self.interpreter.round_as(
            self.order,
            compiled.layouts,
            fuses=otherwise and bool(compiled.metadata["enable_fp_fusion"]),
            errs=self._errors(counting=counting),
        )
        self.interpreter.multiply(values=brief is None)
        logged.choices = Choices() if watched else None
        self.interpreter.note_choices(logged.choices)
        self.interpreter.omit(self.omitting)
        logged.fresh = self._never_written.watch(self._fresh(storages)) if watched else None
        self.interpreter.watch_fresh(logged.fresh)
        # Exchanged or poisoned values need not be what a kernel asserts.
        debug = bool(compiled.metadata["debug"]) and mode == "execute" and careful
        overflow = bool(compiled.metadata["sanitize_overflow"])
        warps = int(compiled.metadata["num_warps"])
        self.interpreter.compiled_with(debug=debug, overflow=overflow, warps=warps)
        hints = self.interpreter.hints
        # Exchanged or poisoned values of earlier launches may be indices that no hint was meant for.
        hints.watched = careful and self.mode == "execute"
        hints.clear()
        drawn = self.part == "drawn"
        sampling = drawn or (counting and not self.whole_grids)
        runs, run = (RUNS, RUN) if brief is None else (BRIEF_RUNS, BRIEF_RUN)
        run = DRAWN_RUN if drawn else run
        programs, share = sampled(launch, self.sample, runs, run) if sampling else (None, 1.0)
        if counting:
            self._forget_pages()
        spent = self._seconds - self._seconds_left
        clock = Clock(launch, self._seconds_left, spent, projects=not counting)
        observers: list[Observer] = [clock]
        races = None
        # Beside the addresses of a tensor without contents there is no memory: what goes there would end this process.
        if self.watch_bounds or any(row.empty for row in storages):
            observers.append(BoundsChecker())
        if self.watch_races and self.mode != "account":
            from kernelagent.tools.virtual.races.races import RaceChecker

            barriers = logged.kernel.compiled.threads.barriers
            races = RaceChecker(self.non_synchronizing_atomics, barriers)
            observers.append(races)
        stored = StoredTo(self._held_in(storages)) if watched else None
        if stored is not None:
            observers.append(stored)
        counter = self._traffic_counter(share) if self.count_traffic else None
        if counter is not None:
            observers.append(counter)
        most_s = _COUNTED_S if brief is None else ENOUGH_S
        began = time.perf_counter()
        try:
            if self.in_turns is not None and handle in self.order_matters:
                self._run_in_turns(logged, bound, self.in_turns)
                return
            self.interpreter.run(
                logged.kernel.function,
                bound.arguments,
                launch,
                programs=programs,
                observers=observers,
                limit=deadline(self._seconds_left, clock.late),
                # What is counted of a part is scaled up.
                enough_s=min(most_s, self._seconds_left / 4) if sampling or counting else None,
                after_chunk=self._forget_pages if counting else None,
                first_chunk=FIRST_CHUNK if brief is None else FIRST_TOGETHER,
            )
        finally:
            logged.seconds = time.perf_counter() - began
            self._seconds_left -= logged.seconds
            logged.printed = self.interpreter.printed
            logged.how = self.interpreter.how
            logged.stored = () if stored is None else tuple(stored.numbers)
        if self.interpreter.order_matters or (races is not None and races.order_matters):
            self.order_matters.add(handle)
        if self.interpreter.undefined_lanes:
            self._undefined_lanes.add(handle)
        if self.interpreter.addresses_as_numbers:
            self._addresses_as_numbers.add(handle)
        if self.interpreter.float_sums and races is not None and races.updated_by_several:
            self._float_sums.add(handle)
        if hints.false and logged.kernel.needs_hints(hints.where()):
            raise FalseHint(dict(hints.false))
        if counter is not None:
            logged.traffic = counter.result(launch)
            if brief is not None:
                brief.count(handle, launch, logged.traffic)

    def _errors(self, *, counting: bool) -> int | None:
        """The key of errors: what is counted is compared with nothing, and decides perhaps how much is done."""
        if not counting:
            return self.errs
        return self._errs_in_counting if self.brief is None else None

    def _fresh(self, storages: Sequence[StorageRow]) -> Iterator[tuple[int, Bytes, Fill | None]]:
        """Address, contents and fill of each storage that was made fresh and holds anything."""
        for row in storages:
            if row.fill is not None and not row.empty and row.bytes:
                contents = np.frombuffer(self.arena.memory, np.uint8, row.bytes, row.at)
                yield contents.ctypes.data, contents, row.fill

    def _held_in(self, storages: Sequence[StorageRow]) -> Iterator[tuple[int, int, int]]:
        """Number, address and size of each storage that holds anything."""
        for number, row in enumerate(storages):
            if not row.empty and row.bytes:
                contents = np.frombuffer(self.arena.memory, np.uint8, row.bytes, row.at)
                yield number, contents.ctypes.data, row.bytes

    def _forget_pages(self) -> None:
        """Pages of tensors without contents count again at each of their addresses."""
        for addresses in self._unfilled.values():
            addresses.forget_pages()

    def _run_in_turns(self, logged: Logged, bound: Bound, order: Order) -> None:
        seconds = min(_IN_TURNS_S, self._seconds_left / 2)

        def late() -> TimeIsUp:
            message = f"`{logged.launch.kernel}` did not end with programs that take turns"
            return TimeIsUp("unverifiable", message, {"means": "time"})

        self.interpreter.store_as("execute", one_value_each=False)
        self.interpreter.watch_fresh(None)
        self.interpreter.run_in_turns(
            logged.kernel.function,
            bound.arguments,
            logged.launch,
            order,
            deadline(seconds, late),
        )

    def _mode_of(self, index: int, mode: Mode) -> Mode:
        return "execute" if self.only is not None and index not in self.only else mode

    def _traffic_counter(self, share: float) -> Any:
        from kernelagent.tools.virtual.cost.traffic import TrafficCounter

        if self._counter is None:
            self._counter = TrafficCounter(f"sm_{self._target.arch}", share)
        self._counter.sampled_share = share
        return self._counter

    def memory_of(self, row: StorageRow) -> tuple[Any, int]:
        """The buffer a storage lives in, and its offset there."""
        if not row.empty:
            return self.arena.memory, row.at
        key, size = row.identity, max(row.bytes, 1)
        known = self._unfilled.get(key)
        if known is None or known.size < size:
            self._unfilled[key] = AliasedRange(size)
            if known is not None:
                known.close()
        return self._unfilled[key].memory, 0


def _place(error: BaseException) -> dict[str, int]:
    """The candidate's line in which a kernel was when this happened."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == FILE_NAME and frame.lineno]
    return {"line": lines[-1]} if lines else {}
