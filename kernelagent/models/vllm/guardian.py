"""Starts one command and ends it, with all it started, when the holder of the lifeline is gone.

Run as a file by `server.py`; uses the standard library only:
`python -I guardian.py LIFELINE_FD GRACE_S COMMAND...`. The lifeline is the reading end of a
pipe: a controller that closes it, exits or is killed with SIGKILL looks the same from here. Being
the subreaper of its descendants, this process also finds those that left the process group.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.05
_libc = ctypes.CDLL(None, use_errno=True)


def guard(lifeline: int, grace_s: float, command: list[str]) -> int:
    """Wait for the command's end or the lifeline's; returns the command's exit status."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    asked, tell = os.pipe()
    # Ctrl-C in a terminal is the controller's to interpret.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os.write(tell, b"x"))
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        # Only should this process itself be killed; it has one thread, so the fork is safe.
        preexec_fn=lambda: _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
    )
    ended = os.pidfd_open(child.pid)
    ready, _, _ = select.select([lifeline, asked, ended], [], [])
    if ended not in ready:
        _signal_group(child.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(grace_s)
    _signal_group(child.pid, signal.SIGKILL)
    status = child.wait()
    _end_descendants()
    return status if status >= 0 else 128 - status


def _end_descendants() -> None:
    """Orphans of the command are children of this process now; kill until there is none."""
    while True:
        for pid in _children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(_POLL_S)


def _children() -> list[int]:
    """By the parent that each process names, for kernels without lists of children."""
    result = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                after_name = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(after_name[1]) == os.getpid():
                    result.append(int(entry.name))
    return result


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option} failed")


if __name__ == "__main__":
    sys.exit(guard(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
