"""Limits of one process tree: what the kernel enforces at once, and what is watched for.

The operating system's limits are per process, and one does not apply to root; so the supervisor also counts
processes, memory and processor time of the whole tree, some twenty times a second.
"""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kernelagent.tools.sandbox.confinement import Confinement

_OPEN_FILES = 1024
_GRACE_CPU_S = 2
_THREADS_PER_CORE = 8
_MOST_SCRATCH_ENTRIES = 20_000
_BLOCK_BYTES = 512
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """What a tree of processes uses now."""

    processes: int = 0
    threads: int = 0
    memory_bytes: int = 0
    """Anonymous and shared memory, beyond what the first process began with."""
    cpu_seconds: float = 0.0

    def excess(self, confinement: Confinement) -> str | None:
        """Which limit is passed: `memory`, `cpu`, `processes`; None when none is."""
        if self.processes > confinement.processes or self.threads > most_threads(confinement):
            return "processes"
        if self.memory_bytes > confinement.memory_bytes:
            return "memory"
        if self.cpu_seconds > confinement.cpu_seconds:
            return "cpu"
        return None


def most_threads(confinement: Confinement) -> int:
    """Threads of all processes together: libraries start a pool a core without being asked."""
    return confinement.processes + _THREADS_PER_CORE * (os.cpu_count() or 1)


def apply(confinement: Confinement, *, own_user: bool, uses_gpu: bool) -> None:
    """Set this process's kernel limits; `own_user`: it is in a user namespace of its own.

    `uses_gpu`: leave address space alone, since the CUDA driver reserves far more than it uses.
    """
    _set(resource.RLIMIT_CORE, 0)
    _set(resource.RLIMIT_FSIZE, confinement.file_bytes)
    _set(resource.RLIMIT_NOFILE, _OPEN_FILES)
    _set(resource.RLIMIT_CPU, confinement.cpu_seconds, grace=_GRACE_CPU_S)
    if own_user:
        _set(resource.RLIMIT_NPROC, most_threads(confinement))
    if not uses_gpu:
        status = _status("self")
        _set(resource.RLIMIT_DATA, status["VmData"] + confinement.memory_bytes)


def _set(kind: int, value: int, *, grace: int = 0) -> None:
    _, hard = resource.getrlimit(kind)
    most = hard if hard != resource.RLIM_INFINITY else value + grace
    resource.setrlimit(kind, (min(value, most), min(value + grace, most)))


def excess_of_scratch(confinement: Confinement) -> str | None:
    """`disk` when the scratch folder holds too much, in bytes or in number of files."""
    total = entries = 0
    folders = [confinement.scratch]
    while folders:
        for path in _entries(folders.pop()):
            try:
                result = path.lstat()
            except FileNotFoundError:
                continue
            entries += 1
            total += result.st_blocks * _BLOCK_BYTES
            if entries > _MOST_SCRATCH_ENTRIES or total > confinement.scratch_bytes:
                return "disk"
            if stat.S_ISDIR(result.st_mode):
                folders.append(path)
    return None


def _entries(folder: Path) -> list[Path]:
    """Empty when the process has removed the folder, or closed it to its own user."""
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, PermissionError):
        return []


class Watch:
    """Counts what the process tree under one process uses."""

    def __init__(self, *, own_proc: bool) -> None:
        """`own_proc`: /proc shows exactly the tree and pid 1, which is not counted."""
        self._own_proc = own_proc
        # The tree's first process is a fork of this one: until it writes, this memory is shared.
        self._shared_bytes = _status("self")["RssAnon"]

    def usage(self, *, exact: bool = False) -> Usage:
        """Now; processes that end meanwhile do not count.

        A shared page counts once for each mapping (RssShmem), and with `exact` once in all (Pss_Shmem). For that
        the kernel walks its page tables, which takes milliseconds for each GB.
        """
        processes = threads = memory = 0
        cpu = 0.0
        for pid in self._members():
            try:
                status, seconds = _status(pid), _cpu_seconds(pid)
            except (FileNotFoundError, ProcessLookupError):
                continue
            processes += 1
            threads += status["Threads"]
            memory += max(0, status.get("RssAnon", 0) - self._shared_bytes)
            shared = status.get("RssShmem", 0)
            memory += min(shared, _proportional_shared(pid, shared)) if exact else shared
            cpu += seconds
        return Usage(processes, threads, memory, cpu)

    def _members(self) -> Iterator[str]:
        if self._own_proc:
            return (pid for pid in _listed() if pid != "1")
        return (str(pid) for pid in descendants(os.getpid()))


def _proportional_shared(pid: str, otherwise: int) -> int:
    """Shared memory in bytes, a page with several mappings counting once; `otherwise` if the kernel does not report it."""
    try:
        lines = Path("/proc", pid, "smaps_rollup").read_text().splitlines()
    except OSError:
        return otherwise
    sizes = (line.split() for line in lines if line.startswith("Pss_Shmem:"))
    return next((int(words[1]) << 10 for words in sizes), otherwise)


def descendants(ancestor: int) -> list[int]:
    """All processes that descend from `ancestor`, as the kernel lists them now."""
    children: dict[int, list[int]] = {}
    for pid in _listed():
        children.setdefault(_parent(pid), []).append(int(pid))
    result: list[int] = []
    new = [ancestor]
    while new:
        new = [child for parent in new for child in children.get(parent, ())]
        result += new
    return result


def tree_seconds() -> float:
    """Processor time of this process and of all that descend from it, which no busy machine lengthens."""
    result = 0.0
    for pid in (os.getpid(), *descendants(os.getpid())):
        try:
            result += _cpu_seconds(str(pid))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return result


def _listed() -> list[str]:
    return [entry.name for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _parent(pid: str) -> int:
    try:
        return int(_stat(pid)[1])
    except (FileNotFoundError, ProcessLookupError):
        return -1


def _cpu_seconds(pid: str) -> float:
    """User and system time, with that of its children that were waited for."""
    return sum(int(ticks) for ticks in _stat(pid)[11:15]) / _TICKS_PER_S


def _stat(pid: str) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may hold any character."""
    return Path("/proc", pid, "stat").read_text(errors="replace").rpartition(")")[2].split()


def _status(pid: str) -> dict[str, int]:
    """Sizes in bytes and counts of /proc/PID/status."""
    values: dict[str, int] = {}
    for line in Path("/proc", pid, "status").read_text(errors="replace").splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if name.startswith(("Vm", "Rss")) and len(words) == 2:
            values[name] = int(words[0]) << 10
        elif name == "Threads":
            values[name] = int(words[0])
    return values
