"""The judge's side of one candidate's processes: the runner, on `virtual` the executor too, and how they fail.

Every way in which the processes can fail becomes a `Rejected` with its own code; what the runner
sends is read as data, and the launch log comes from the executor, which the candidate cannot reach.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import torch
from msgspec import ValidationError

from kernelagent.domain.serialization import from_data, to_data
from kernelagent.domain.tables.rejection_codes import CODES
from kernelagent.tools.calls.loading import Loading
from kernelagent.tools.calls.result_form import Part
from kernelagent.tools.calls.surroundings import USUAL, Surroundings
from kernelagent.tools.calls.tensors import Malformed, Parcel, open_parcel, parcel
from kernelagent.tools.calls.torch_dtypes import name_of
from kernelagent.tools.calls.training_step import TrainingStep
from kernelagent.tools.calls.whereabouts import Whereabouts
from kernelagent.tools.closing import Closing
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.timing.observed import LaunchRow, rows_of
from kernelagent.tools.judge.verify.answers import (
    Answer,
    Kept,
    OnTheHost,
    Replayed,
    host_work,
    names,
)
from kernelagent.tools.judge.verify.compiled_kernels import CompiledKernels
from kernelagent.tools.judge.verify.deaths import DOING, death_of, out_of_time
from kernelagent.tools.judge.verify.limits import Deadline, Limits
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.judge.verify.specialised import Tuning
from kernelagent.tools.sandbox.confinement import Confinement
from kernelagent.tools.sandbox.environment import private
from kernelagent.tools.sandbox.spawn import Child, ForkServer, Starting
from kernelagent.tools.sandbox.sweeping import sweep
from kernelagent.tools.virtual.cost.eager import EagerRow
from kernelagent.tools.wire import (
    Channel,
    ChannelClosed,
    ChannelTimeout,
    ChannelViolation,
    Frame,
    pair,
)

_RUNNER = "kernelagent.tools.candidate_runner.main:serve"
_EXECUTOR = "kernelagent.tools.virtual.executor.executor:serve"
_HANGS_S = 30.0
"""After this many seconds without an answer a call counts as hung, unless its executor is busy."""
_LOOKED_AT_S = 10.0
"""Within this time an executor that is at work compiles or launches something."""
_AT_WORK_S = 2.0
_REPLAYED = 1 << 36
"""Most bytes of outputs that the executor may send."""


def only_waiting() -> bool:
    """The judge waits for the answer and does nothing else."""
    return False


class CandidateProcess(Closing):
    """A fresh runner (and executor) for one candidate; a context manager that leaves nothing behind."""

    _ended: Rejected | None = None
    """Why the judge itself ended the process; whatever is asked of it later has the same answer."""

    def __init__(
        self,
        fork_server: ForkServer,
        *,
        source: str,
        device: str,
        target: str,
        scratch: Path,
        limits: Limits,
        sandboxed: bool,
        torch_device: str = "cpu",
        forgo: tuple[str, ...] = (),
        may_compile: bool = False,
        deadline: Deadline | None = None,
        compiled: CompiledKernels | None = None,
    ) -> None:
        """`scratch`: an empty folder of its own; `torch_device`: where the judge wants answers to lie.

        `forgo`: tiers of the sandbox it is to do without; `may_compile`: it may use torch.compile.
        `deadline`: of the whole judging; None: only each request has its limit.
        `compiled`: what earlier processes have compiled of its kernels on `virtual`; None: everything is compiled.
        """
        self._deadline = deadline
        self._unread = 0
        self._answered = 0
        self._limits = limits
        self._sandboxed = sandboxed
        self._forgo = forgo
        self._target = target
        self._torch_device = torch_device
        # Without a GPU no device node is needed; None grants those of the GPUs that are there.
        self._devices: tuple[Path, ...] | None = () if device == "virtual" else None
        self._source = source
        self._scratch = scratch
        self._compiled = compiled
        self._children: list[Child] = []
        self._executor: Channel | None = None
        self._executor_child: Child | None = None
        executor: Starting | None = None
        self._calls = 0
        self.configurations = 1
        """How many an autotuned kernel has to choose from, as the process tells it."""
        self.tunings: list[Tuning] = []
        self.host_work: OnTheHost | None = None
        """Of the call that was accounted last, where that had contents."""
        self.allocated_bytes = 0
        """By torch's operations in the call that was accounted last, as the process tells it."""
        self.tuned: tuple[str, ...] = ()
        """Kernels that were tuned in the last call, as the process tells it."""
        self.failures: list[dict[str, Any]] = []
        """Kernels that failed to compile before the last `take_launches`, as reported by the executor."""
        self.compiles = False
        """The candidate has used torch.compile, as its own process reports."""
        self._judge, theirs = pair()
        fds = [theirs.socket]
        arena: int | None = None
        if device == "virtual":
            self._executor, arena, line, executor = self._begin_executor(
                fork_server, target, scratch
            )
            fds.append(line)
        confinement = self._confinement(scratch / "runner")
        self._cache = fork_server.triton_cache
        if self._cache is not None:
            self._cache.copy_to(_cache_of(confinement.scratch))
        numbers = [end.fileno() for end in fds] + ([] if arena is None else [arena])
        index = int(torch_device.partition(":")[2] or 0)
        settings: dict[str, Any] = {"device": device, "index": index, "target": target}
        settings["may_compile"] = may_compile
        # A file that sets it does so before its module is imported, and so does the user's program.
        settings["default_dtype"] = name_of(torch.get_default_dtype())
        runner = fork_server.begin(_RUNNER, settings, numbers, confinement)
        if executor is not None:
            self._executor_child = executor.child()
            self._children.append(self._executor_child)
        self._runner = runner.child()
        self._children.append(self._runner)
        for end in fds:
            end.close()
        if arena is not None:
            os.close(arena)

    def _begin_executor(
        self, fork_server: ForkServer, target: str, scratch: Path
    ) -> tuple[Channel, int, socket.socket, Starting]:
        ours, theirs = pair()
        runner_line, executor_line = pair()
        arena = os.memfd_create("kernelagent-arena", os.MFD_CLOEXEC)
        settings = {"source": self._source, "target": target, "seconds": self._limits.launch_s}
        confinement = self._confinement(scratch / "executor")
        if self._compiled is not None:
            self._compiled.copy_to(_cache_of(confinement.scratch), self._source)
        executor = fork_server.begin(
            _EXECUTOR,
            settings,
            [executor_line.socket.fileno(), theirs.socket.fileno(), arena],
            confinement,
        )
        executor_line.close()
        theirs.close()
        return ours, arena, runner_line.socket, executor

    def _confinement(self, scratch: Path) -> Confinement:
        scratch.mkdir(parents=True, exist_ok=True)
        return Confinement(
            scratch=scratch,
            memory_bytes=self._limits.memory_bytes,
            cpu_seconds=self._limits.cpu_s,
            file_bytes=self._limits.file_bytes,
            processes=self._limits.processes,
            devices=self._devices,
            forgo=self._forgo,
            sandboxed=self._sandboxed,
        )

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
        rows = frame.header.get("state")
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            self._broke_protocol("its state is not a list")
        return rows

    def use_weights(self, weights: Mapping[str, Any], how: Loading = "load") -> None:
        self._ask({"kind": "weights", "how": how}, parcel(dict(weights)), self._limits.load_s)

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
    ) -> Answer:
        """Run the forward once on these inputs, or take the training `step` with them.

        `forbidding`: with nothing computed by torch; `in_place`: where it can be, in the very memory
        of the last call's inputs, which differ from these in tensors only; `configuration`: which of
        those that fit an autotuned kernel takes, on `virtual`; `surroundings`: of a call without `step`.
        `meanwhile`: what the judge does until the answer is there, piece by piece, as long as it is true.
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
        frame = self._ask(header, _call(arguments, step), self._limits.call_s, meanwhile)
        value = self._open(frame)
        if not isinstance(value, tuple) or len(value) != 2:
            self._broke_protocol("its answer to a call is not an output")
        offered = frame.header.get("configurations")
        self.configurations = max(self.configurations, offered if type(offered) is int else 1)
        self.tuned = names(frame.header.get("tuned"))
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

    def launches_with_facts(self) -> list[dict[str, Any]]:
        """The log with what the machine code of each kernel says."""
        frame = self.command_executor({"kind": "log", "facts": True})
        return list(frame.header.get("launches", []))

    def command_executor(
        self, command: Mapping[str, Any], payload: Sequence[memoryview | bytes] = ()
    ) -> Frame:
        """One command on the line that only judge and executor share."""
        if self._executor is None:
            raise Rejected("unverifiable", "there is no launch log on this device")
        if self._ended is not None:
            raise self._ended
        seconds = self._limits.launch_s if self._deadline is None else self._deadline.left_s
        try:
            self._executor.send(dict(command), payload, timeout=seconds)
            while self._unread:
                self._executor.receive(timeout=seconds, max_header=1 << 26, max_payload=_REPLAYED)
                self._unread -= 1
            return self._executor.receive(
                timeout=seconds, max_header=1 << 26, max_payload=_REPLAYED
            )
        except ChannelTimeout as error:
            # The candidate cannot reach this line: whoever is late here is the machine.
            limit = self._limits.launch_s if self._deadline is None else self._deadline.seconds
            self._ended = out_of_time("the executor gave no answer", limit)
            raise self._ended from error
        except (ChannelClosed, ChannelViolation) as error:
            raise self._executor_failure(str(error)) from error

    def take_launches(self) -> list[dict[str, Any]]:
        """The executor's log since the last time, which is then forgotten."""
        header = self.command_executor({"kind": "log"}).header
        self.command_executor({"kind": "reset"})
        if header.get("forged"):
            raise Rejected(
                "tampering",
                f"the candidate's process sent the executor a request of its own: {header['forged']}",
            )
        rows, self.failures = list(header.get("launches", [])), list(header.get("failures", []))
        return rows

    def ask_about_device(self, header: dict[str, Any], value: Any) -> Mapping[str, Any]:
        """What only its process sees of the device (`observed`), as it tells it."""
        return self._ask(header, parcel(value), self._limits.measure_s).header

    def ask_about_time(self, header: dict[str, Any], body: Parcel | None) -> Frame:
        """`prepare` argument sets, `time` or `chain` a number of calls, for the judge's clock."""
        return self._ask(header, body, self._limits.measure_s)

    def opened(self, frame: Frame) -> Any:
        """The value in one of its answers."""
        return self._open(frame)

    def printed(self) -> str:
        """What the candidate wrote to its standard streams, capped."""
        return self._runner.output()

    def close(self) -> None:
        for child in self._children:
            child.end()
        for child in self._children:
            child.kill()
        self._judge.close()
        if self._executor is not None:
            self._executor.close()
        if self._compiled is not None and self._executor is not None:
            self._compiled.keep(_cache_of(self._scratch / "executor"), self._source)
        # Removed now: a later process could otherwise count how many ran before it.
        sweep(self._scratch)

    def _ask(
        self,
        header: dict[str, Any],
        body: Parcel | None,
        seconds: float,
        meanwhile: Callable[[], bool] = only_waiting,
    ) -> Frame:
        if self._ended is not None:
            raise self._ended
        payload: tuple[memoryview, ...] = ()
        if body is not None:
            header = header | {"parcel": body.header}
            payload = body.payload
        if self._deadline is not None and seconds > self._deadline.left_s:
            seconds = self._deadline.left_s
        try:
            self._judge.send(header, payload, timeout=seconds)
            while not self._judge.readable(0.0) and meanwhile():
                pass
            # From now on: what took long until here may have been the judge.
            frame = self._receive(seconds)
        except ChannelClosed as error:
            raise self._death(header["kind"]) from error
        except ChannelTimeout as error:
            self._runner.kill()
            self._ended = self._late(DOING[header["kind"]], seconds)
            raise self._ended from error
        except ChannelViolation as error:
            self._broke_protocol(str(error))
        self.compiles = self.compiles or frame.header.get("compiles") is True
        if self._cache is not None:
            self._cache.learn(frame.header.get("signatures"))
        if frame.kind == "failed":
            self._failed(frame.header)
        return frame

    def _late(self, doing: str, seconds: float) -> Rejected:
        if self._deadline is not None and not self._deadline.left_s:
            return out_of_time(doing, self._deadline.seconds)
        limit = min(seconds, _HANGS_S) if self._executor else seconds
        return Rejected("timeout", f"no answer within {limit:g} s ({doing})", {"limit_s": seconds})

    def _receive(self, seconds: float) -> Frame:
        """The runner's answer; on `virtual` it is waited for longer while the executor is at work."""
        began = time.monotonic()
        limits = {"max_header": 1 << 26, "max_payload": self._limits.answer_bytes}
        if self._executor is None or seconds <= _HANGS_S:
            return self._judge.receive(timeout=seconds, **limits)
        if not self._judge.readable(_HANGS_S - _LOOKED_AT_S):
            # What it has done until now belongs to earlier calls as well.
            self._executor_at_work()
        while not self._judge.readable(_LOOKED_AT_S):
            if time.monotonic() - began >= seconds or not self._executor_at_work():
                raise ChannelTimeout("no answer in time")
        return self._judge.receive(timeout=seconds, **limits)

    def _executor_at_work(self) -> bool:
        """Whether the executor is too busy to answer in time (a late answer is discarded), or has compiled or launched
        kernels since it was asked last."""
        assert self._executor is not None
        try:
            self._executor.send({"kind": "ask"}, timeout=_AT_WORK_S)
            self._unread += 1
            frame = self._executor.receive(timeout=_AT_WORK_S, max_header=1 << 26)
        except ChannelTimeout:
            return True
        except (ChannelClosed, ChannelViolation):
            return False
        self._unread -= 1
        before, self._answered = self._answered, int(frame.header.get("answered", self._answered))
        return self._unread > 0 or self._answered > before

    def _open(self, frame: Frame) -> Any:
        try:
            header = frame.header.get("parcel", {})
            return open_parcel(header, frame.payload, device=self._torch_device)
        except Malformed as error:
            self._broke_protocol(str(error))

    def _failed(self, header: Mapping[str, Any]) -> NoReturn:
        code, detail = str(header.get("code")), header.get("detail")
        if code == "runtime_error" and self._executor is not None and not self._executor_alive():
            # The candidate saw no more than a closed line.
            raise self._executor_failure("its process ended")
        if code not in CODES:
            self._broke_protocol(f"it reports the unknown failure {code!r:.60}")
        raise Rejected(
            code, str(header.get("message"))[:4000], detail if isinstance(detail, dict) else {}
        )

    def _broke_protocol(self, what: str) -> NoReturn:
        raise Rejected(
            "tampering", f"the candidate's process sent the judge an invalid message: {what}", {}
        )

    def _death(self, doing: str) -> Rejected:
        if self._executor_child is not None and not self._executor_alive():
            return self._executor_failure("its process ended")
        ended = self._runner.wait(5.0) or self._runner.kill()
        return death_of(ended, DOING[doing], self._runner.output())

    def _executor_alive(self) -> bool:
        return self._executor_child is not None and self._executor_child.wait(0.0) is None

    def _executor_failure(self, what: str) -> Rejected:
        ended = self._executor_child.wait(1.0) if self._executor_child is not None else None
        how = f" ({ended.describe()})" if ended is not None else ""
        code = "out_of_memory" if ended is not None and ended.why == "memory" else "unverifiable"
        return Rejected(code, f"the kernel could not be executed: {what}{how}", {})


def _cache_of(scratch: Path) -> Path:
    """Triton's cache in a process that has this scratch."""
    return Path(private(scratch)["TRITON_CACHE_DIR"])


def _call(arguments: Arguments, step: TrainingStep | None) -> Parcel:
    return parcel((arguments, None if step is None else step.as_value()))
