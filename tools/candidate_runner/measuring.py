"""Requests that measure a candidate: its work is counted, the device observed, its calls timed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from kernelagent.domain.serialization import to_data
from kernelagent.tools.calls.tensors import open_parcel
from kernelagent.tools.calls.training_step import TrainingStep
from kernelagent.tools.candidate_runner.candidate import (
    CandidateFailure,
    candidate_file,
    failure_of,
)
from kernelagent.tools.candidate_runner.device import Scope, counts_of, launching, values_launched
from kernelagent.tools.candidate_runner.host.host_time import HostTime
from kernelagent.tools.candidate_runner.host.host_work import HostWork
from kernelagent.tools.candidate_runner.launches import Launches
from kernelagent.tools.candidate_runner.turns import Turns, step_of
from kernelagent.tools.candidate_runner.unwritten import Unwritten
from kernelagent.tools.wire import Frame

if TYPE_CHECKING:
    from kernelagent.tools.candidate_runner.repeat import Repeated


class Measuring(Turns):
    """What is asked of a candidate besides its answers."""

    def __init__(
        self,
        device: str,
        scope: Scope,
        launches: Launches,
        *,
        may_compile: bool,
        unwritten: Unwritten | None,
        with_users_code: bool = False,
    ) -> None:
        super().__init__(
            device,
            scope,
            launches,
            may_compile=may_compile,
            unwritten=unwritten,
            with_users_code=with_users_code,
        )
        self._repeated: Repeated | None = None
        self._host = HostTime(launching if device != "cuda" else float)

    def account(self, frame: Frame) -> tuple[dict[str, Any], Any]:
        """Run once and count torch's operations, unless `contents` on tensors that hold nothing."""
        (args, kwargs), given = open_parcel(frame.header["parcel"], frame.payload)
        from kernelagent.tools.virtual.cost.eager import watched
        from kernelagent.tools.virtual.device.fake_cuda import WithoutContents

        loaded, target, reported = self._loaded(), frame.header["target"], None
        if frame.header["contents"]:
            called = partial(loaded.call_counted, args, kwargs, step_of(given))
            work = self._followed() if frame.header["followed"] else None
            launched = values_launched()
            with self._scope(), self._host.call():
                with work or contextlib.nullcontext():
                    seen = watched(called, (), {}, target)
                self._host.elsewhere += seen.clock.seconds
            if work is not None:
                reported = counts_of(work, launched)
        else:
            with self._scope(), WithoutContents():
                loaded.drop_contents()
                if given is None:
                    seen = watched(loaded.forward_without_contents, args, kwargs, target)
                else:
                    step = TrainingStep.from_value(given)
                    called = partial(loaded.step_without_contents, (args, kwargs), step)
                    seen = watched(called, (), {}, target)
        answer = {"torch": to_data(seen.rows), "allocated_bytes": seen.allocated_bytes}
        return {"kind": "done", **answer, "host_work": reported}, ()

    def _followed(self) -> HostWork | None:
        """What counts a call's work on the host; None where that is not looked at."""
        if self._device == "cuda" or self._may_compile:
            return None
        return HostWork(str(candidate_file()), launching)

    def observe(self, frame: Frame) -> tuple[dict[str, Any], Any]:
        """What only this process sees of the device: launches, traces, graphs, machine code."""
        from kernelagent.tools.candidate_runner.observing import observed

        if frame.header.get("of") == "host":
            return {"kind": "done", "host": self._host.take()}, ()
        given = open_parcel(frame.header["parcel"], frame.payload, device=self._device)
        forward = None if given is None else partial(self._loaded().forward, *given)
        with self._scope():
            answer = observed(frame, forward, self._launches, self._device)
        return {"kind": "done", **answer}, ()

    def prepare(self, frame: Frame) -> tuple[dict[str, Any], Any]:
        from kernelagent.tools.candidate_runner.repeat import Repeated

        # What is timed is Triton's own launch, as in the user's program.
        self._launches.stand_aside()
        sets, step = self._opened(frame)
        module = self._loaded().instance
        self._repeated = Repeated(module, self._device)
        with self._timed("the calls before the clock"):
            self._repeated.prepare(sets, step, module)
        return {"kind": "done"}, ()

    def time(self, frame: Frame) -> tuple[dict[str, Any], Any]:
        repeated = self._prepared()
        with self._timed("a timed call"):
            repeated.run(int(frame.header["calls"]))
        return {"kind": "done", "peak_bytes": repeated.peak_bytes}, ()

    def chain(self, frame: Frame) -> tuple[dict[str, Any], Any]:
        repeated = self._prepared()
        calls, secret = int(frame.header["calls"]), int(frame.header["secret"])
        with self._timed("a chained call"):
            digests = repeated.chain(calls, secret, empty=False)
        return self._sent("digests", digests)

    def _prepared(self) -> Repeated:
        if self._repeated is None:
            raise CandidateFailure("unverifiable", "timing was asked for before it was prepared")
        return self._repeated

    @contextlib.contextmanager
    def _timed(self, doing: str) -> Iterator[None]:
        with self._scope():
            try:
                yield
            except CandidateFailure:
                raise
            except BaseException as error:  # a candidate raises anything
                raise failure_of(error, doing) from error
