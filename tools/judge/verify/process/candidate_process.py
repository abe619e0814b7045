"""What the judge asks of a candidate's process; what the runner sends is read as data.

The launch log comes from the executor, which the candidate cannot reach.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import ValidationError

from kernelagent.domain.serialization import from_data, to_data
from kernelagent.tools.calls.loading import Loading
from kernelagent.tools.calls.result_form import Part
from kernelagent.tools.calls.surroundings import USUAL, Surroundings
from kernelagent.tools.calls.tensors import Malformed, Parcel, open_parcel, parcel
from kernelagent.tools.calls.training_step import TrainingStep
from kernelagent.tools.calls.whereabouts import Whereabouts
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.timing.observed import LaunchRow, rows_of
from kernelagent.tools.judge.verify.process.answers import (
    Answer,
    Kept,
    OnTheHost,
    Replayed,
    host_work,
    names,
    printable,
)
from kernelagent.tools.judge.verify.process.processes import Processes, only_waiting
from kernelagent.tools.judge.verify.specialised import Tuning
from kernelagent.tools.virtual.cost.eager import EagerRow
from kernelagent.tools.wire import Frame


class CandidateProcess(Processes):
    """What is asked of one candidate: each request with what is read from its answer."""

    _calls = 0
    configurations = 1
    """How many an autotuned kernel has to choose from, as the process tells it."""
    tunings: Sequence[Tuning] = ()
    host_work: OnTheHost | None = None
    """Of the call that was accounted last, where that had contents."""
    not_moved: tuple[str, ...] = ()
    """Attributes of the constructed module whose tensors lie on the GPU and are no parameters or buffers."""
    allocated_bytes = 0
    """By torch's operations in the call that was accounted last, as the process tells it."""
    by_original: tuple[str, ...] = ()
    """Why calls so far were answered by the user's module, where an emitted file is put on it."""
    tuned: tuple[str, ...] = ()
    """Kernels that were tuned in the last call, as the process tells it."""

    def load(self) -> dict[str, Any] | None:
        """Import the candidate; returns the envelope it declares."""
        frame = self._ask({"kind": "load", "source": self._source}, None, self._limits.load_s)
        declared = frame.header.get("envelope")
        return declared if isinstance(declared, dict) else None

    def construct(
        self,
        how: str,
        value: Any,
        *,
        training: bool,
        keeps_random_state: bool,
        empty: bool = False,
    ) -> list[Mapping[str, Any]]:
        """Build `ModelNew`; returns name, dtype and shape of each entry of its state.

        `keeps_random_state`: the forward must leave torch's random generator as it is. `empty`: its
        tensors have shapes and hold nothing.
        """
        header = {
            "kind": "construct",
            "how": how,
            "training": training,
            "keeps_random_state": keeps_random_state,
            "empty": empty,
        }
        frame = self._ask(header, parcel(value), self._limits.load_s)
        self.not_moved = names(frame.header.get("left"))
        rows = frame.header.get("state")
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            self._broke_protocol("its state is not a list")
        return rows

    def use_weights(self, weights: Mapping[str, Any], how: Loading = "load") -> None:
        self._ask({"kind": "weights", "how": how}, parcel(dict(weights)), self._limits.load_s)
        self.moved = False
        self.still_holds(weights)

    def start_from(self, weights: Mapping[str, Any], *, anew: bool) -> None:
        """Load these, the latest that were loaded: where asked, or where a call since may have left others."""
        if anew or self.moved:
            self.use_weights(weights)

    def hold(self, weights: Mapping[str, Any]) -> None:
        """Load these, unless they are known to be what it holds."""
        if self._holds is not weights:
            self.use_weights(weights)

    def still_holds(self, weights: Mapping[str, Any]) -> None:
        """What was asked last has left these weights as they were loaded."""
        self._holds = weights

    def call_another(self, arguments: Arguments, *, fresh: bool = False) -> None:
        """Call another instance of the candidate's module, with other weights, in the same process.

        `fresh`: one that has not been called; else, where there is one, it gets other weights in place.
        """
        self._ask({"kind": "beside", "fresh": fresh}, parcel(arguments), self._limits.call_s)
        if self._executor is not None:
            self.take_launches()

    def call(
        self,
        arguments: Arguments,
        *,
        step: TrainingStep | None = None,
        forbidding: bool = False,
        in_place: bool = False,
        configuration: int = 0,
        surroundings: Surroundings = USUAL,
        meanwhile: Callable[[], bool] = only_waiting,
        most_s: float | None = None,
    ) -> Answer:
        """Run the forward once on these inputs, or take the training `step` with them.

        `forbidding`: with nothing computed by torch; `in_place`: where it can be, in the very memory
        of the last call's inputs, which differ from these in tensors only; `configuration`: which of
        those that fit an autotuned kernel takes, on `virtual`; `surroundings`: of a call without `step`.
        `meanwhile`: what the judge does until the answer is there, piece by piece, as long as it is true.
        `most_s`: how long it may take; None: as long as any.
        """
        self._calls += 1
        self.tuned = ()
        header = {
            "kind": "call",
            "call": self._calls,
            "forbidding": forbidding,
            "in_place": in_place,
            "configuration": configuration,
            "surroundings": to_data(surroundings),
        }
        seconds = self._limits.call_s if most_s is None else most_s
        frame = self._ask(header, _call(arguments, step), seconds, meanwhile)
        value = self._open(frame)
        if not isinstance(value, tuple) or len(value) != 2:
            self._broke_protocol("its answer to a call is not an output")
        offered = frame.header.get("configurations")
        self.configurations = max(self.configurations, offered if type(offered) is int else 1)
        self.tuned = names(frame.header.get("tuned"))
        self.by_original = names(frame.header.get("by_original"))
        self.tunings = rows_of(frame.header.get("tunings") or [], list[Tuning])
        reported = frame.header.get("devices")
        devices = tuple(map(str, reported)) if isinstance(reported, list) else None
        launches = rows_of(frame.header.get("launches", []), list[LaunchRow])
        report = frame.header.get("whereabouts")
        whereabouts = None if report is None else rows_of(report, Whereabouts)
        form = rows_of(frame.header.get("form") or [], tuple[Part, ...])
        why = frame.header.get("not_copied")
        not_copied = None if why is None else str(why)[:200]
        reads, changed = (names(frame.header.get(key)) for key in ("reads", "changed"))
        gaps_written = frame.header.get("gaps_written") is True
        copied, kept = names(frame.header.get("copied")), frame.header.get("kept_bytes")
        return Answer(
            value[0],
            value[1],
            devices,
            tuple(launches),
            whereabouts,
            not_copied,
            reads,
            changed,
            form,
            gaps_written,
            copied,
            host_work(frame.header.get("host_work")),
            kept if type(kept) is int else 0,
            frame.header.get("written_meanwhile") is True,
            names(frame.header.get("weights_written")),
            tuple(
                (line, printable(text), ways)
                for line, text, ways in rows_of(
                    frame.header.get("torch_choices") or [], list[tuple[int, str, int]]
                )
            ),
        )

    @property
    def last_call(self) -> int:
        return self._calls

    def held(self, call: int) -> tuple[Any, bool]:
        """The output of an earlier call, read again now, and whether its inputs are as they were."""
        frame = self._ask({"kind": "held", "call": call}, None, self._limits.call_s)
        return self._open(frame), frame.header.get("inputs_kept") is True

    def forget(self) -> Kept:
        """Free what is held of all calls but the last; returns what lives on nevertheless."""
        header = self._ask({"kind": "forget"}, None, self._limits.call_s).header
        return rows_of(header, Kept)

    def state(self, how: Loading = "load") -> dict[str, Any]:
        """Parameters and buffers as they are now, as the module shows them or one around it."""
        value = self._open(self._ask({"kind": "state", "how": how}, None, self._limits.call_s))
        if not isinstance(value, dict):
            self._broke_protocol("its state is not a dictionary")
        return value

    def attributes(self, names: Sequence[str]) -> dict[str, Any]:
        """What the module holds now under these names besides its state, where it holds anything."""
        asked = {"kind": "attributes", "names": [*names]}
        value = self._open(self._ask(asked, None, self._limits.call_s))
        if not isinstance(value, dict):
            self._broke_protocol("its attributes are not a dictionary")
        return value

    def account(
        self,
        arguments: Arguments,
        step: TrainingStep | None = None,
        *,
        contents: bool = False,
        followed: bool = True,
    ) -> list[EagerRow]:
        """Run once on tensors of these shapes; returns what torch computes.

        `contents`: in an ordinary call, on these very tensors; else on tensors that hold nothing. `followed`: its lines
        on the host are counted in such a call, which takes longer for it.
        """
        how = {"contents": contents, "followed": followed}
        request = {"kind": "account", "target": self._target, **how}
        frame = self._ask(request, _call(arguments, step), self._limits.call_s)
        report = frame.header.get("allocated_bytes")
        self.allocated_bytes = report if type(report) is int else 0
        self.host_work = host_work(frame.header.get("host_work"))
        try:
            return from_data(frame.header.get("torch"), list[EagerRow])
        except ValidationError as error:
            self._broke_protocol(f"its torch operations are not rows: {error}")

    def require_nothing_left(self) -> None:
        """Asked last: raises `Rejected` where the candidate replaced what other code uses."""
        self._ask({"kind": "left"}, None, self._limits.call_s)

    def replay(self, arguments: Arguments, hidden: list[Any]) -> Replayed:
        """Run the forward on `arguments` while the executor does it on the `hidden` tensors as well.

        `hidden`: one for each tensor of the arguments, None where it is the same.
        """
        packed = parcel(hidden)
        self.command_executor({"kind": "replay", "parcel": packed.header}, packed.payload)
        try:
            frame = self._ask({"kind": "replay"}, _call(arguments, None), self._limits.call_s)
            value = self._open(frame)
        finally:
            # Also where the forward ended badly: the next call is an ordinary one again.
            answer = self.command_executor({"kind": "replayed"})
        if not isinstance(value, tuple) or len(value) != 2:
            self._broke_protocol("its answer to a call is not an output")
        header = answer.header
        try:
            outputs = open_parcel(header["parcel"], answer.payload)
            rows = from_data(header["torch"], list[EagerRow])
        except (KeyError, Malformed, ValidationError) as error:
            raise self._executor_failure(f"what was replayed cannot be read: {error}") from error
        failure = header.get("failure")
        return Replayed(value[0], outputs, rows, int(header["told"]), failure)

    def ask_about_device(self, header: dict[str, Any], value: Any) -> Mapping[str, Any]:
        """What only its process sees of the device (`observed`), as it tells it."""
        return self._ask(header, parcel(value), self._limits.measure_s).header

    def ask_about_time(self, header: dict[str, Any], body: Parcel | None) -> Frame:
        """`prepare` argument sets, `time` or `chain` a number of calls, for the judge's clock."""
        return self._ask(header, body, self._limits.measure_s)

    def opened(self, frame: Frame) -> Any:
        """The value in one of its answers."""
        return self._open(frame)


def _call(arguments: Arguments, step: TrainingStep | None) -> Parcel:
    return parcel((arguments, None if step is None else step.as_value()))
