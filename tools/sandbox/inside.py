"""Set-up of a candidate's process: applies the sandbox to a fork of the fork server and runs the entry."""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import random
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TextIO

from kernelagent.tools.sandbox import environment, landlock, limits, seccomp
from kernelagent.tools.sandbox import file_access as reach
from kernelagent.tools.sandbox import system_calls as kernel
from kernelagent.tools.sandbox.confinement import Confinement
from kernelagent.tools.sandbox.mechanisms import Mechanisms

SET_UP = b"set up"
FAILED_STATUS = 1
OUT_OF_MEMORY_STATUS = 71

_PYTHON_IGNORES = {signal.SIGPIPE, signal.SIGXFSZ}


@dataclass(frozen=True)
class Order:
    """What to run, with what, and how confined."""

    entry: str
    """`package.module:function`, called with `settings` and the descriptors."""
    settings: dict[str, Any]
    confinement: Confinement

    def to_bytes(self) -> bytes:
        data = {
            "entry": self.entry,
            "settings": self.settings,
            "confinement": self.confinement.to_data(),
        }
        return json.dumps(data).encode()

    @classmethod
    def from_bytes(cls, text: bytes) -> Order:
        data = json.loads(text)
        return cls(data["entry"], data["settings"], Confinement.from_data(data["confinement"]))


def become(
    order: Order, fds: Sequence[int], output: int, tell: int, mechanisms: Mechanisms
) -> NoReturn:
    """Turn this fork into the process `order` describes, and end it; never returns.

    `output`: where it prints; `tell`: gets `SET_UP`, or the reason why it cannot run confined.
    """
    # Bound now: a candidate may replace `os._exit`.
    leave = os._exit
    try:
        _set_up(order.confinement, fds, output, tell, mechanisms)
    except Exception as error:  # noqa: BLE001 - the judge is told; without its sandbox nothing runs
        os.write(tell, f"{type(error).__name__}: {error}".encode()[:2000])
        leave(FAILED_STATUS)
    os.write(tell, SET_UP)
    os.close(tell)
    leave(_call(order, fds, (sys.stdout.flush, sys.stderr.flush)))


def _call(order: Order, fds: Sequence[int], flush: Sequence[Callable[[], None]]) -> int:
    """Run the entry; returns the exit status."""
    status = FAILED_STATUS
    try:
        module, _, name = order.entry.partition(":")
        getattr(importlib.import_module(module), name)(order.settings, list(fds))
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except MemoryError:
        status = OUT_OF_MEMORY_STATUS
    except BaseException:  # noqa: BLE001 - the process ends here; the traceback is in its output
        traceback.print_exc()
    for item in flush:
        try:
            item()
        except BaseException:  # noqa: BLE001 - nothing is left that could be told
            status = status or FAILED_STATUS
    return status & 0xFF


def _set_up(
    confinement: Confinement, fds: Sequence[int], output: int, tell: int, mechanisms: Mechanisms
) -> None:
    os.setsid()
    kernel.set_inspectable(True)
    _take_streams(output)
    _close_all_but([*fds, tell])
    _reset_signals()
    os.environ.update(environment.private(confinement.scratch))
    os.chdir(confinement.scratch)
    tempfile.tempdir = str(confinement.scratch)
    _seed_afresh()
    if confinement.sandboxed:
        _confine(confinement, mechanisms)


def _confine(confinement: Confinement, mechanisms: Mechanisms) -> None:
    uses_gpu = bool(reach.gpu_nodes() if confinement.devices is None else confinement.devices)
    limits.apply(confinement, own_user=mechanisms.namespaces.user, uses_gpu=uses_gpu)
    version = mechanisms.landlock_abi
    # Root may need CAP_DAC_READ_SEARCH to read the interpreter's files; kept only where Landlock limits access.
    kernel.drop_capabilities(keep_reading=version > 0)
    kernel.forbid_new_privileges()
    if version:
        grants = reach.grants(confinement, own_proc=mechanisms.namespaces.pid)
        landlock.restrict(grants, version, network=confinement.network)
    if mechanisms.seccomp:
        seccomp.restrict(network=confinement.network, memory_files=uses_gpu)


def _take_streams(output: int) -> None:
    empty = os.open(os.devnull, os.O_RDONLY)
    for stream, source in ((0, empty), (1, output), (2, output)):
        os.dup2(source, stream)
    # sys.stdout and sys.stderr were inherited and still refer to the fork server's /dev/null.
    sys.stdout = _line_writer(1)
    sys.stderr = _line_writer(2)
    faulthandler.enable(all_threads=False)


def _line_writer(fd: int) -> TextIO:
    return os.fdopen(fd, "w", buffering=1, errors="backslashreplace", closefd=False)


def _close_all_but(kept: Sequence[int]) -> None:
    for fd in kept:
        os.set_inheritable(fd, False)
    low = 3
    for fd in sorted(kept):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))


def _reset_signals() -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP} - _PYTHON_IGNORES:
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _seed_afresh() -> None:
    """Give this fork random numbers of its own."""
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    if "torch" in sys.modules:
        sys.modules["torch"].seed()
