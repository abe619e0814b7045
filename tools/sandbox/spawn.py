"""The judge's side of the fork server: start it, fork from it, wait, kill."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

from kernelagent.domain.errors import EnvironmentFault
from kernelagent.tools.closing import Closing
from kernelagent.tools.sandbox import environment as environments
from kernelagent.tools.sandbox.capture import Capture
from kernelagent.tools.sandbox.confinement import ROOT, Confinement, SandboxReport
from kernelagent.tools.sandbox.file_access import first_lines, package_folders
from kernelagent.tools.sandbox.fork_server import MOST_FDS, import_all, serve_as_fork
from kernelagent.tools.sandbox.inside import Order
from kernelagent.tools.sandbox.mechanisms import Mechanisms

_BOOT = (
    first_lines(3) + "sys.path.insert(0, sys.argv[1]); "
    "from kernelagent.tools.sandbox.fork_server import main; main(int(sys.argv[2]), sys.argv[1])"
)
_ALWAYS_IMPORTED = ("torch", "triton")
_MESSAGE_BYTES = 1 << 16
_NO_ANSWER: dict[str, Any] = {"fault": "it does not answer"}
_IMPORT_S = 180.0
_FORK_S = 20.0
_DEATH_S = 20.0
_REAPED_S = 2.0


@dataclass(frozen=True)
class Exit:
    """How a process ended."""

    code: int | None
    """Its exit status; None when a signal ended it."""
    signal: str | None
    why: str | None
    """The limit it was stopped for: `memory`, `cpu`, `processes`, `flood`, `disk`; else None."""
    peak_bytes: int
    seconds: float = 0.0

    def describe(self) -> str:
        """For a sentence after "it"."""
        if self.why:
            return f"was stopped ({self.why})"
        return f"was killed by {self.signal}" if self.signal else f"exited with status {self.code}"


class Child:
    """A process tree forked from the fork server, seen from outside."""

    def __init__(self, pid: int, report: socket.socket, capture: Capture) -> None:
        self.pid = pid
        """Of the supervisor, which dies last."""
        self.report = report
        self._capture = capture
        self._exit: Exit | None = None
        self._printed = ""
        self._flooded = False

    @property
    def flooded(self) -> bool:
        """Whether it printed more than is kept."""
        return self._flooded if self._exit else self._capture.flooded

    def output(self) -> str:
        """What it printed so far on both streams: at most the first and the last 32 KiB."""
        return self._printed if self._exit else self._capture.text()

    def wait(self, timeout: float) -> Exit | None:
        """How it ended, once nothing is left of its tree; None if it has not after `timeout` seconds."""
        if self._exit is None and _readable(self.report, timeout):
            self._settle(_received(self.report))
        return self._exit

    def end(self) -> None:
        """Tell the whole tree to end; `kill` waits for it. Harmless when it has ended already."""
        if self._exit is None:
            self.report.shutdown(socket.SHUT_WR)

    def kill(self) -> Exit:
        """End the whole tree and wait until it is gone; harmless when it has ended already."""
        self.end()
        ended = self.wait(_DEATH_S)
        if ended is None:
            raise EnvironmentFault(
                f"process {self.pid} is still there {_DEATH_S:g} s after it was killed; it may hang "
                f"in a driver: look at `dmesg` and at `ps -o stat,wchan -p {self.pid}`"
            )
        return ended

    def _settle(self, record: dict[str, Any] | None) -> None:
        """Keep what is known and let go of the line; no record: the supervisor itself was killed."""
        self._printed, self._flooded = self._capture.text(), self._capture.flooded
        if record is None:
            self._exit = Exit(None, signal.SIGKILL.name, None, 0)
        else:
            status = int(record["status"])
            killed = os.WIFSIGNALED(status)
            self._exit = Exit(
                None if killed else os.WEXITSTATUS(status),
                _signal_name(os.WTERMSIG(status)) if killed else None,
                record["why"],
                int(record["peak_bytes"]),
                float(record["seconds"]),
            )
        self.report.close()
        self._capture.close()
        self._await_reaped()

    def _await_reaped(self) -> None:
        """Wait until the supervisor is no process any more; what it kept is gone already."""
        deadline = time.monotonic() + _REAPED_S
        while time.monotonic() < deadline:
            try:
                os.kill(self.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.0005)


@dataclass(frozen=True)
class Starting:
    """A process that was forked and is being confined; it ends when this is dropped."""

    pid: int
    report: socket.socket
    capture: Capture
    entry: str

    def child(self) -> Child:
        """Wait until it runs; raises `EnvironmentFault` when it cannot be started or confined."""
        answer = _received(self.report) if _readable(self.report, _FORK_S) else _NO_ANSWER
        if answer is None or "fault" in answer:
            self.report.close()
            self.capture.close()
            why = answer["fault"] if answer else "it was killed"
            raise EnvironmentFault(
                f"the process for {self.entry} could not be started and confined: {why}; "
                f"`kernelagent doctor` shows what this machine can enforce"
            )
        return Child(self.pid, self.report, self.capture)


class FirstCache(Protocol):
    """A triton cache in which nothing is a candidate's."""

    def copy_to(self, cache: Path) -> None:
        """Fill the cache of a process that is about to start."""

    def learn(self, reported: object) -> None:
        """Take note of what a candidate's process tells of its launchers; it may tell anything."""


class Awaited(Protocol):
    """What is asked of the fork server's process; `subprocess.Popen` has it."""

    @property
    def pid(self) -> int: ...

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, a signal as a negative number; raises `subprocess.TimeoutExpired`."""
        ...

    def kill(self) -> None: ...


class _Forked:
    """A fork of this process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)
        self._status: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        if self._status is None:
            poller = select.poll()
            poller.register(self._descriptor, select.POLLIN)
            if not poller.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired("the fork server", timeout or 0.0)
            try:
                self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            except ChildProcessError:
                # Somebody else in this process has waited for it, or lets the system do so.
                self._status = 0
            os.close(self._descriptor)
        return self._status

    def kill(self) -> None:
        if self._status is None:
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)


class ForkServer(Closing):
    """A process with torch and triton imported, from which candidates' processes are forked."""

    def __init__(self, process: Awaited, line: socket.socket, enforceable: Mechanisms) -> None:
        self._process = process
        self._line = line
        self._lock = threading.Lock()
        self._enforceable = enforceable
        self._forgone: tuple[str, ...] = ()
        self.sandbox = SandboxReport(enforceable.tiers, enforceable.missing)
        """What confines the processes forked from here."""
        self.triton_cache: FirstCache | None = None
        """What a candidate's triton cache begins with."""

    @property
    def pid(self) -> int:
        return self._process.pid

    @classmethod
    def start(
        cls,
        *,
        preload: Sequence[str],
        environment: Mapping[str, str] | None = None,
        forgo: Sequence[str] = (),
        meanwhile: Callable[[], object] = lambda: None,
    ) -> Self:
        """Import `preload` too; `environment`: added to what of ours may be seen.

        `forgo`: tiers of the sandbox not to use, as on a machine that lacks them. `meanwhile`: done
        here while it imports. Raises `EnvironmentFault` when an import fails.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BOOT, ROOT, str(theirs.fileno()), *package_folders()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env=environments.allowed(os.environ) | dict(environment or {}),
            )
        wanted = {"modules": [*_ALWAYS_IMPORTED, *preload], "forgo": list(forgo)}
        ours.send(json.dumps(wanted).encode())
        try:
            meanwhile()
        except BaseException:  # the caller's own work, ended by anything; it is raised again
            process.kill()
            process.wait()
            ours.close()
            raise
        return cls(process, ours, _started(process, ours))

    @classmethod
    def split_off(cls, *, preload: Sequence[str], keep_out: Sequence[socket.socket] = ()) -> Self:
        """Import `preload` in this process, once for both, and fork the fork server from it.

        This process may have done nothing yet but import, and hold nothing that a candidate must not see: a candidate
        finds its memory and its environment as they are now. `keep_out`: what the fork closes. Raises `EnvironmentFault`
        when an import fails, or the fork.
        """
        try:
            import_all([*_ALWAYS_IMPORTED, *preload])
        except Exception as error:  # libraries raise anything while they are imported
            raise EnvironmentFault(f"the fork server could not start: {error!r}") from error
        here = os.getpid()
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            pid = os.fork()
        except OSError as error:
            raise EnvironmentFault(f"the fork server could not start: {error}") from error
        if pid == 0:
            status = 1
            try:
                for end in (ours, *keep_out):
                    end.close()
                serve_as_fork(theirs, here)
                status = 0
            finally:
                # Whatever went wrong, the fork must not go on as this process.
                os._exit(status)
        theirs.close()
        process = _Forked(pid)
        return cls(process, ours, _started(process, ours))

    def go_on_without(self, tiers: Sequence[str], why: str) -> None:
        """Leave these tiers of the sandbox out of whatever is forked from now on; `why`: one sentence."""
        self._forgone = tuple(dict.fromkeys((*self._forgone, *tiers)))
        left = self._enforceable.without(self._forgone)
        self.sandbox = SandboxReport(left.tiers, self.sandbox.missing | dict.fromkeys(tiers, why))

    def fork(
        self, entry: str, settings: dict[str, Any], fds: Sequence[int], confinement: Confinement
    ) -> Child:
        """Run `package.module:function` as `function(settings, fds)` in a new confined process.

        It gets `fds` and no other descriptor; the caller closes its own copies. Raises
        `EnvironmentFault` when it cannot be started or confined.
        """
        return self.begin(entry, settings, fds, confinement).child()

    def begin(
        self, entry: str, settings: dict[str, Any], fds: Sequence[int], confinement: Confinement
    ) -> Starting:
        """As `fork`, without waiting until it runs: several may start side by side."""
        if len(fds) + 3 > MOST_FDS:
            raise ValueError(f"{len(fds)} descriptors are more than {MOST_FDS - 3}")
        forgo = tuple(dict.fromkeys((*confinement.forgo, *self._forgone)))
        confinement = replace(confinement, forgo=forgo)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        capture = Capture.create()
        order = os.memfd_create("kernelagent-order", os.MFD_CLOEXEC)
        try:
            os.write(order, Order(entry, settings, confinement).to_bytes())
            with self._lock, theirs:
                pid = self._ask([order, theirs.fileno(), capture.fd, *fds])
        except BaseException:
            ours.close()
            capture.close()
            raise
        finally:
            os.close(order)
        return Starting(pid, ours, capture, entry)

    def _ask(self, fds: Sequence[int]) -> int:
        try:
            socket.send_fds(self._line, [b"fork"], fds)
            answer = _received(self._line) if _readable(self._line, _FORK_S) else None
        except BrokenPipeError:
            answer = None
        if answer is None:
            raise EnvironmentFault(
                "the fork server is gone or hangs; the system may be out of memory: see `dmesg`"
            )
        return int(answer["forked"])

    def close(self) -> None:
        """End it and everything forked from it."""
        self._line.close()
        try:
            self._process.wait(_DEATH_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _started(process: Awaited, line: socket.socket) -> Mechanisms:
    """What the fork server can enforce, once it is there; raises `EnvironmentFault` if it does not come."""
    answer = _received(line) if _readable(line, _IMPORT_S) else _NO_ANSWER
    if answer is not None and "ready" in answer:
        return Mechanisms.from_data(answer["ready"])
    process.kill()
    status = process.wait()
    line.close()
    why = answer["fault"] if answer else f"it ended with status {status}"
    raise EnvironmentFault(f"the fork server could not start: {why}")


def _readable(end: socket.socket, timeout: float) -> bool:
    """Whether something (or the end) can be read within `timeout` seconds."""
    poller = select.poll()
    poller.register(end, select.POLLIN)
    return bool(poller.poll(max(0.0, timeout) * 1000))


def _received(end: socket.socket) -> dict[str, Any] | None:
    """One message; None when the other side is gone."""
    try:
        text = end.recv(_MESSAGE_BYTES)
    except ConnectionResetError:
        return None
    return json.loads(text) if text else None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        # Real-time signals between the first and the last have no name.
        return f"signal {number}"
