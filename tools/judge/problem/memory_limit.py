"""How much memory judging may take on this machine, and the limits that hold the processes to it."""

from __future__ import annotations

import contextlib
import re
import resource
from pathlib import Path

from kernelagent.domain.configuration.judge_settings import JudgeSettings, bytes_of
from kernelagent.tools.heap import keep_freed

_SHARE = 0.5
_CGROUP = Path("/sys/fs/cgroup")
_FIRST_TO_GO = 700
"""Written to oom_score_adj (at most 1000), so that the OOM killer prefers these processes."""
_GIVEN_BACK = 8 << 20
"""Bytes of a block from which on memory is given back as soon as it is freed."""
_KEPT = 128 << 20
"""Of smaller blocks, so much is kept."""
_NO_ROOM = re.compile(r"can't allocate memory|not enough memory|Cannot allocate memory", re.I)


def memory_limit(settings: JudgeSettings) -> int:
    """Bytes for all processes of the judge together: what was given, else half of what is free."""
    return limit_of(settings.memory_limit)


def limit_of(text: str | None) -> int:
    """The same of what `--memory-limit` says; None where nothing was given."""
    return int(_SHARE * available_bytes()) if text is None else bytes_of(text)


def available_bytes() -> int:
    """What this machine could still give, within the control group this process is in."""
    free = _meminfo()
    for most, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        limit, now = _number(_CGROUP / most), _number(_CGROUP / used)
        if limit is not None and now is not None:
            free = min(free, max(0, limit - now))
    return free


def hold_to(limit: int) -> None:
    """This process's data may grow by `limit` bytes; past it an allocation fails here, as an error.

    What was freed does not count: weights of all sizes, made and freed in turn, would else leave holes in
    the heap until the limit is reached. Should the machine run out all the same, the kernel takes this
    process and its children first.
    """
    keep_freed(_GIVEN_BACK, _KEPT)
    now = _kilobytes(Path("/proc/self/status"), "VmData")
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = now + limit if hard == resource.RLIM_INFINITY else min(now + limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    first_to_go()


def first_to_go(pid: int | str = "self") -> None:
    """Raise oom_score_adj where the kernel allows it; for its own process it always does."""
    path = Path("/proc", str(pid), "oom_score_adj")
    with contextlib.suppress(OSError, ValueError):
        if int(path.read_text()) < _FIRST_TO_GO:
            path.write_text(str(_FIRST_TO_GO))


def is_lack_of_memory(error: BaseException) -> bool:
    """An allocation that failed, in Python, in torch or under a limit."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError | OSError) and bool(_NO_ROOM.search(str(error)))
    )


def lack_of_memory(limit: int, what: str = "judging") -> str:
    """The error message for a process that reached its memory limit, doing `what`."""
    return (
        f"{what} this problem needs more memory than the {limit / 1e9:.1f} GB it may have: raise "
        f"--memory-limit, give smaller inputs with --inputs FUNCTION, or use a machine with a GPU "
        f"and --device cuda"
    )


def _meminfo() -> int:
    return _kilobytes(Path("/proc/meminfo"), "MemAvailable")


def _kilobytes(path: Path, name: str) -> int:
    for line in path.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    return 0


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
