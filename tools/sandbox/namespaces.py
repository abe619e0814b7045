"""Namespaces of a candidate's process: its own processes and /proc, network, System V objects."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from kernelagent.tools.sandbox import system_calls as kernel

_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000


@dataclass(frozen=True)
class Namespaces:
    """Which namespaces a process is put into."""

    user: bool = False
    """One that gives the right to make the others; needed by everyone but root."""
    pid: bool = False
    """With a /proc that shows just these processes: under another, NVIDIA's tools crash."""
    net: bool = False
    ipc: bool = False

    @property
    def flags(self) -> int:
        chosen = (
            (self.user, kernel.CLONE_NEWUSER),
            (self.pid, kernel.CLONE_NEWPID | kernel.CLONE_NEWNS),
            (self.net, kernel.CLONE_NEWNET),
            (self.ipc, kernel.CLONE_NEWIPC),
        )
        return sum(flag for wanted, flag in chosen if wanted)


def enter(namespaces: Namespaces) -> int | None:
    """Make them; processes forked from now on live inside. Raises `OSError`.

    Returns the pid of the first process of the pid namespace: it reaps what is orphaned inside, and
    when it is killed the kernel kills everything inside with it. None without a pid namespace.
    """
    if not namespaces.flags:
        return None
    user, group = os.getuid(), os.getgid()
    if namespaces.user:
        # The maps of a process that may not be inspected belong to root.
        kernel.set_inspectable(True)
    kernel.unshare(namespaces.flags)
    if namespaces.user:
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
        kernel.set_inspectable(False)
    return _first_process() if namespaces.pid else None


def _first_process() -> int:
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ready)
        _reap_for_ever(tell)
    os.close(tell)
    with os.fdopen(ready, "rb") as line:
        answer = line.read()
    if answer != b"\0":
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise OSError(int(answer or 0), "the new process namespace could not be set up")
    return pid


def _reap_for_ever(tell: int) -> NoReturn:
    try:
        kernel.die_with_parent(0)
        # The kernel then reaps in our place.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        kernel.mount("none", "/", "", _MS_REC | _MS_PRIVATE)
        kernel.mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
        os.write(tell, b"\0")
    except OSError as error:
        os.write(tell, str(error.errno).encode())
        os._exit(1)
    os.closerange(0, os.sysconf("SC_OPEN_MAX"))
    while True:
        signal.pause()
