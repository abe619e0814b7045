"""The processes of one candidate: the runner, on `virtual` the executor too, how they are asked and how they fail.

Every way in which they can fail becomes a `Rejected` with its own code.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import torch

from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.serialization import to_data
from kernelagent.domain.tables.rejection_codes import CODES
from kernelagent.tools.calls.tensors import Malformed, Parcel, open_parcel
from kernelagent.tools.calls.torch_dtypes import name_of
from kernelagent.tools.closing import Closing
from kernelagent.tools.judge.problem.places import at_home, places_of
from kernelagent.tools.judge.verify.process.compiled_kernels import CompiledKernels
from kernelagent.tools.judge.verify.process.deaths import DOING, death_of, out_of_time
from kernelagent.tools.judge.verify.process.limits import Deadline, Limits
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.sandbox.confinement import Confinement
from kernelagent.tools.sandbox.environment import private
from kernelagent.tools.sandbox.spawn import Child, ForkServer, Starting
from kernelagent.tools.sandbox.sweeping import sweep
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


class Processes(Closing):
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
        problem: ProblemSpec | None = None,
    ) -> None:
        """`scratch`: an empty folder of its own; `torch_device`: where the judge wants answers to lie.

        `forgo`: tiers of the sandbox it is to do without; `may_compile`: it may use torch.compile.
        `deadline`: of the whole judging; None: only each request has its limit.
        `problem`: the user's, where `source` is an emitted file that is to be put on it.
        `compiled`: what earlier processes have compiled of its kernels on `virtual`; None: everything is compiled.
        """
        self._deadline = deadline
        self._unread = 0
        self._asked_since = False
        """Whether the runner has been asked anything since launches were taken."""
        self._holds: Mapping[str, Any] | None = None
        """The weights that it is known to hold."""
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
        self._readable = () if problem is None else places_of(problem)
        self._children: list[Child] = []
        self._executor: Channel | None = None
        self._executor_child: Child | None = None
        executor: Starting | None = None
        self.failures: list[dict[str, Any]] = []
        """Kernels that failed to compile before the last `take_launches`, as reported by the executor."""
        self.compiles = False
        """The candidate has used torch.compile, as its own process reports."""
        self.moved = False
        """Whether a call since weights were loaded last may have left others."""
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
        if problem is not None:
            settings["problem"] = to_data(at_home(problem))
            settings["path"] = sys.path
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
            readable=self._readable,
            forgo=self._forgo,
            sandboxed=self._sandboxed,
        )

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

    def launches_with_facts(self) -> list[dict[str, Any]]:
        """The log with what the machine code of each kernel says."""
        frame = self.command_executor({"kind": "log", "facts": True})
        return list(frame.header.get("launches", []))

    @property
    def has_ended(self) -> bool:
        """Whether nothing more can be asked of it."""
        return self._ended is not None

    def take_launches(self) -> list[dict[str, Any]]:
        """The executor's log since the last time, which is then forgotten."""
        if not self._asked_since:
            return []
        header = self.command_executor({"kind": "log", "forget": True}).header
        self._asked_since = False
        if header.get("forged"):
            raise Rejected(
                "tampering",
                f"the candidate's process sent the executor a request of its own: {header['forged']}",
            )
        rows, self.failures = list(header.get("launches", [])), list(header.get("failures", []))
        return rows

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
        self._asked_since, self._holds = True, None
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
        closed = isinstance(detail, dict) and detail.get("error") == ChannelClosed.__name__
        if (
            code == "runtime_error"
            and self._executor is not None
            and (closed or not self._executor_alive())
        ):
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
