"""The supervisor of one candidate's process tree: starts it, watches its limits, ends all of it.

It is a fork of the fork server that runs none of the candidate's code. It captures what the tree
prints, and reports to the judge on its own socket. It kills the tree when the judge closes that socket
or when the fork server exits.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NoReturn

from kernelagent.tools.sandbox import limits
from kernelagent.tools.sandbox import system_calls as kernel
from kernelagent.tools.sandbox.capture import Capture
from kernelagent.tools.sandbox.inside import OUT_OF_MEMORY_STATUS, SET_UP, Order, become
from kernelagent.tools.sandbox.mechanisms import Mechanisms
from kernelagent.tools.sandbox.namespaces import Namespaces, enter

FLOOD_BYTES = 16 << 20

_CENSUS_S = 0.05
"""How often processes and memory are counted."""
_SCRATCH_CHECK_S = 1.0
"""How often the size of the scratch folder is checked."""
CENSUS_SHARE = 0.05
"""Largest share of a processor that each of these two may take. One that costs much, for example because the process list
is long, is done less often; one that only waits for a processor is not, or a tree that grows would be counted too late."""
_CHUNK = 1 << 16


def keep(
    order: Order,
    report: socket.socket,
    capture: Capture,
    fds: Sequence[int],
    mechanisms: Mechanisms,
    parent: int,
) -> NoReturn:
    """Process main. Sends `{"fault": ...}`, or `{"running": true}` and later how it ended."""
    os.setsid()
    kernel.adopt_orphans()
    warm = os.pidfd_open(parent)
    try:
        supervisor = Supervisor(order, capture, fds, mechanisms)
    except (OSError, SetUpFailed) as error:
        _tell(report, {"fault": str(error)})
        os._exit(0)
    for fd in fds:
        os.close(fd)
    _tell(report, {"running": True})
    supervisor.watch(until=(report.fileno(), warm))
    _tell(report, supervisor.end())
    os._exit(0)


class SetUpFailed(Exception):
    """The process could not be confined as this machine promised."""


class Regular:
    """Something done every few moments, less often where it costs much processor time."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._due = time.monotonic() + every_s

    @property
    def left_s(self) -> float:
        return max(0.0, self._due - time.monotonic())

    def call_if_due(self, act: Callable[[], None]) -> None:
        if time.monotonic() >= self._due:
            began = time.thread_time()
            act()
            cost_s = time.thread_time() - began
            self._due = time.monotonic() + max(self._every_s, cost_s / CENSUS_SHARE)


class Supervisor:
    """Starts, watches and ends one process tree."""

    def __init__(
        self, order: Order, capture: Capture, fds: Sequence[int], mechanisms: Mechanisms
    ) -> None:
        self._began = time.monotonic()
        self._confinement = order.confinement
        self._capture = capture
        self._why: str | None = None
        self._peak_bytes = 0
        mechanisms = _fitting(mechanisms, order)
        spaces = mechanisms.namespaces
        self._watch = limits.Watch(own_proc=spaces.pid)
        self._namespace = enter(spaces)
        self._output, prints = os.pipe()
        heard, tell = os.pipe()
        parent = 0 if spaces.pid else os.getpid()
        self._child = os.fork()
        if self._child == 0:
            kernel.die_with_parent(parent)
            become(order, fds, prints, tell, mechanisms)
        os.close(prints)
        os.close(tell)
        with os.fdopen(heard, "rb") as line:
            message = line.read()
        if message != SET_UP:
            self.end()
            raise SetUpFailed(message.decode(errors="replace") or "it died while being confined")
        os.set_blocking(self._output, False)

    def watch(self, *, until: Sequence[int]) -> None:
        """Return when the process has ended, passed a limit, or a descriptor of `until` is readable."""
        ended = os.pidfd_open(self._child)
        enough = {ended, *until}
        poller = select.poll()
        for fd in (self._output, *enough):
            poller.register(fd, select.POLLIN)
        counts = self._confinement.sandboxed
        census = Regular(_CENSUS_S)
        scratch = Regular(_SCRATCH_CHECK_S)
        while self._why is None:
            left = min(census.left_s, scratch.left_s) * 1000 if counts else None
            ready = {fd for fd, _ in poller.poll(left)}
            if self._output in ready and not self._take_output():
                poller.unregister(self._output)
            if enough & ready:
                break
            if counts:
                census.call_if_due(self._count)
                scratch.call_if_due(self._check_scratch)
        os.close(ended)

    def end(self) -> dict[str, object]:
        """Kill what is left of the tree, wait until it is gone, and say how its first process ended."""
        ended, status, usage = os.wait4(self._child, os.WNOHANG)
        if self._namespace is not None:
            os.kill(self._namespace, signal.SIGKILL)
        elif not ended:
            os.kill(self._child, signal.SIGKILL)
        if not ended:
            _, status, usage = os.wait4(self._child, 0)
        if self._namespace is not None:
            # Ends only when the kernel has removed every process of the namespace.
            os.waitpid(self._namespace, 0)
        kill_descendants()
        while self._take_output() and self._why != "flood":
            pass
        return {
            "status": status,
            "why": self._why or _why(status),
            "peak_bytes": max(self._peak_bytes, usage.ru_maxrss << 10),
            "seconds": time.monotonic() - self._began,
        }

    def _count(self) -> None:
        usage = self._watch.usage()
        if usage.excess(self._confinement) == "memory":
            usage = self._watch.usage(exact=True)
        self._peak_bytes = max(self._peak_bytes, usage.memory_bytes)
        self._why = usage.excess(self._confinement)

    def _check_scratch(self) -> None:
        self._why = self._why or limits.excess_of_scratch(self._confinement)

    def _take_output(self) -> bool:
        """Read once from the tree's output; False at its end or when nothing is there."""
        try:
            text = os.read(self._output, _CHUNK)
        except BlockingIOError:
            return False
        if self._capture.append(text) > FLOOD_BYTES:
            self._why = "flood"
        return bool(text)


def kill_descendants() -> None:
    """Kill every process that descends from this one, and wait until none is left."""
    while _has_children():
        result = limits.descendants(os.getpid())
        # Those that are born meanwhile inherit it, and so do not outrun this process.
        for pid in result:
            _run_when_idle(pid)
        # Stopped first, so that none forks while the others are being killed.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in result:
                _signal(pid, number)
        time.sleep(0.001)


def _has_children() -> bool:
    """Reap what has ended; whether anything has not."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _run_when_idle(pid: int) -> None:
    """Let it run only where nobody else wants the processor; one that has changed its user stays as it is."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _fitting(mechanisms: Mechanisms, order: Order) -> Mechanisms:
    """What to use of `mechanisms` for this order."""
    if not order.confinement.sandboxed:
        return Mechanisms()
    spaces = replace(
        mechanisms.namespaces, net=mechanisms.namespaces.net and not order.confinement.network
    )
    return replace(mechanisms, namespaces=spaces if spaces.flags else Namespaces())


def _why(status: int) -> str | None:
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        return "cpu"
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == OUT_OF_MEMORY_STATUS:
        return "memory"
    return None


def _tell(report: socket.socket, message: dict[str, object]) -> None:
    try:
        report.send(json.dumps(message).encode())
    except (BrokenPipeError, ConnectionResetError):
        # The judge is gone; the tree has been ended all the same.
        return
