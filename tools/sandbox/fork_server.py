"""The fork server: torch and triton imported once, forked for each candidate.

It runs no tensor operation and opens no device: after either, a fork of it could hang.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from kernelagent.tools.sandbox import environment, limits, mechanisms
from kernelagent.tools.sandbox import system_calls as kernel
from kernelagent.tools.sandbox.capture import Capture
from kernelagent.tools.sandbox.inside import Order
from kernelagent.tools.sandbox.supervisor import keep, kill_descendants

MOST_FDS = 32

_MESSAGE_BYTES = 1 << 16
_CREATOR_CHECK_MS = 2000
_STRAY_PAUSE_S = 0.001
_PTXAS_ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)


def main(fd: int, root: str) -> None:
    """Serve requests on `fd` until its other end closes; `root`: taken off the path again."""
    creator = os.getppid()
    sys.path.remove(root)
    _withdraw()
    line = socket.socket(fileno=fd)
    enforceable = mechanisms.find()
    try:
        wanted = json.loads(line.recv(_MESSAGE_BYTES))
        enforceable = enforceable.without(wanted["forgo"])
        import_all(wanted["modules"])
    except Exception:  # noqa: BLE001 - told to the starter, who raises it
        _send_fault(line)
        return
    _serve(line, creator, enforceable)


def serve_as_fork(line: socket.socket, creator: int) -> None:
    """The same in a fork of a process that has done nothing but import everything."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    os.close(nothing)
    try:
        _withdraw()
        enforceable = mechanisms.find()
    except Exception:  # noqa: BLE001 - told to the process it was forked from, which raises it
        _send_fault(line)
        return
    _serve(line, creator, enforceable)


def _send_fault(line: socket.socket) -> None:
    line.send(json.dumps({"fault": traceback.format_exc()[-8000:]}).encode())


def _withdraw() -> None:
    # Where packages were installed without compiling them, a library's first import would write its
    # bytecode beside it, and the candidate in whose turn that happens would be blamed for the file.
    sys.dont_write_bytecode = True
    kernel.set_inspectable(False)
    kernel.adopt_orphans()


def _serve(line: socket.socket, creator: int, enforceable: mechanisms.Mechanisms) -> None:
    for name in os.environ.keys() - environment.allowed(os.environ).keys():
        del os.environ[name]
    line.send(json.dumps({"ready": asdict(enforceable)}).encode())
    WarmLoop(line, creator, enforceable).serve()
    kill_descendants()


class WarmLoop:
    """Forks a supervisor for each request, and ends what a supervisor that was killed left behind."""

    def __init__(
        self, line: socket.socket, creator: int, enforceable: mechanisms.Mechanisms
    ) -> None:
        self._line = line
        self._creator = creator
        self._enforceable = enforceable
        self._keepers: dict[int, int] = {}
        """From a supervisor's process descriptor to its pid."""
        self._poller = select.poll()
        self._poller.register(line, select.POLLIN)

    def serve(self) -> None:
        """Until the creator is gone: its death signal would also fire when one of its threads ends."""
        while os.getppid() == self._creator:
            for fd, _ in self._poller.poll(_CREATOR_CHECK_MS):
                if fd in self._keepers:
                    self._reap(fd)
                elif not self._answer():
                    return

    def _answer(self) -> bool:
        data, fds, _, _ = socket.recv_fds(self._line, _MESSAGE_BYTES, MOST_FDS)
        if not data:
            return False
        here = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                self._become_keeper(fds, here)
            finally:
                # Whatever went wrong, a fork must not go on as a second fork server.
                os._exit(1)
        for fd in fds:
            os.close(fd)
        supervisor = os.pidfd_open(pid)
        self._keepers[supervisor] = pid
        self._poller.register(supervisor, select.POLLIN)
        self._line.send(json.dumps({"forked": pid}).encode())
        return True

    def _become_keeper(self, fds: Sequence[int], parent: int) -> NoReturn:
        self._line.close()
        for supervisor in self._keepers:
            os.close(supervisor)
        order, report, output, *kept = fds
        text = os.pread(order, os.fstat(order).st_size, 0)
        os.close(order)
        line = socket.socket(fileno=report)
        wanted = Order.from_bytes(text)
        tiers = self._enforceable.without(wanted.confinement.forgo)
        keep(wanted, line, Capture(output), kept, tiers, parent)

    def _reap(self, supervisor: int) -> None:
        pid = self._keepers.pop(supervisor)
        self._poller.unregister(supervisor)
        os.close(supervisor)
        _, status = os.waitpid(pid, 0)
        if status:
            self._end_strays()

    def _end_strays(self) -> None:
        """Kill descendants of this process that have no living supervisor."""
        while True:
            ours = {
                pid
                for supervisor in self._keepers.values()
                for pid in limits.descendants(supervisor)
            }
            ours |= set(self._keepers.values())
            strays = set(limits.descendants(os.getpid())) - ours
            if not strays:
                return
            for pid in strays:
                _kill_and_reap(pid)
            time.sleep(_STRAY_PAUSE_S)


def _kill_and_reap(pid: int) -> None:
    """Without waiting: the first process of a namespace ends only when the others are reaped."""
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, os.WNOHANG)
    except (ProcessLookupError, ChildProcessError):
        # Not our child yet: it becomes ours when its parent is killed.
        return


def import_all(modules: Sequence[str]) -> None:
    """Raises what an import raises, and `RuntimeError` if a library leaves threads running."""
    # Imports make only objects that stay: looking at them again and again takes a sixth of the time.
    gc.disable()
    try:
        imported = [importlib.import_module(name) for name in modules]
        _prime(imported)
        # Else each fork's first collection copies every page that holds an object.
        gc.freeze()
    finally:
        gc.enable()
    # Libraries with a pool of threads (OpenBLAS) end it before a fork, until it is used again.
    pid = os.fork()
    if pid == 0:
        os._exit(_poisoned())
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise RuntimeError(
            f"importing {', '.join(modules)} has asked CUDA for its devices, after which no fork of "
            f"the fork server can use a GPU"
        )
    threads = list(Path("/proc/self/task").iterdir())
    if len(threads) > 1:
        raise RuntimeError(
            f"after importing {', '.join(modules)} {len(threads)} threads run in the fork server; "
            f"it can only be forked with one"
        )


def _poisoned() -> int:
    """In a fork: 1 if CUDA was initialised before the fork, according to torch."""
    torch = sys.modules.get("torch")
    return int(torch is not None and torch.cuda._is_in_bad_fork())


def _prime(imported: Sequence[ModuleType]) -> None:
    """Compute what triton otherwise computes at the first compilation of every process."""
    if "triton" not in {module.__name__ for module in imported}:
        return
    cache = importlib.import_module("triton.runtime.cache")
    build = importlib.import_module("triton.runtime.build")
    nvidia = importlib.import_module("triton.backends.nvidia.compiler")
    cache.triton_key()
    # It starts the program `file`, which in a candidate's turn would look like the candidate's doing.
    build.platform_key()
    for architecture in _PTXAS_ARCHITECTURES:
        nvidia.get_ptxas_version(architecture)
