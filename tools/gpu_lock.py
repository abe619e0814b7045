"""Which physical GPU a device name means, how much memory it has, and the lock for its time.

The lock is a file that anybody can honour: `flock FILE COMMAND` waits for our timings, and our
timings wait for that command. Timing holds it alone; generation by models shares it.
"""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kernelagent.domain.errors import EnvironmentFault

LOCKS = "KERNELAGENT_LOCKS"
"""Where lock files stand, if not in the system's folder for temporary files."""
_QUERY = ("--query-gpu=index,uuid,memory.total", "--format=csv,noheader,nounits")
_QUERY_S = 30.0
_POLL_S = 0.05
_EVERYBODY = 0o666


@dataclass(frozen=True)
class Gpu:
    """One physical GPU."""

    id: str
    """Its UUID where the driver's tool tells it, else what `CUDA_VISIBLE_DEVICES` calls it."""
    memory_bytes: int | None
    """All of it; None where the driver's tool is missing."""


def gpu_of(device: str, environment: Mapping[str, str] = os.environ) -> Gpu:
    """The GPU that `cuda` or `cuda:N` means in this process's environment."""
    ordinal = int(device.partition(":")[2] or 0)
    visible = [item.strip() for item in environment.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    named = visible[ordinal] if any(visible) and ordinal < len(visible) else str(ordinal)
    return chosen(_asked_of_the_driver(), named)


def chosen(table: str, named: str) -> Gpu:
    """From `index, uuid, MiB` lines the one whose index, or beginning of UUID, is `named`."""
    for line in table.splitlines():
        index, uuid, mebibytes = (part.strip() for part in line.split(","))
        if named == index or (not named.isdigit() and uuid.startswith(named)):
            memory = int(mebibytes) << 20 if mebibytes.isdigit() else None
            return Gpu(uuid, memory)
    return Gpu(named, None)


def _asked_of_the_driver() -> str:
    try:
        done = subprocess.run(
            ["nvidia-smi", *_QUERY], capture_output=True, text=True, timeout=_QUERY_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


class GpuLock:
    """The lock of one GPU across processes: `alone` for timing, `shared` for generating."""

    def __init__(self, gpu: str, folder: Path | None = None) -> None:
        safe = "".join(c if c.isalnum() or c == "-" else "_" for c in gpu)
        where = folder or Path(os.environ.get(LOCKS) or tempfile.gettempdir())
        self.path = where / f"kernelagent-gpu-{safe}.lock"

    @contextmanager
    def alone(self, on_wait: Callable[[str], None] = lambda _: None) -> Iterator[None]:
        """Nobody else holds it; `on_wait` is told once whom this waits for."""
        with self._held(fcntl.LOCK_EX, on_wait):
            yield

    @contextmanager
    def shared(self, on_wait: Callable[[str], None] = lambda _: None) -> Iterator[None]:
        """Nobody holds it alone."""
        with self._held(fcntl.LOCK_SH, on_wait):
            yield

    @contextmanager
    def _held(self, kind: int, on_wait: Callable[[str], None]) -> Iterator[None]:
        descriptor = self._open()
        try:
            if not _taken(descriptor, kind):
                on_wait(f"the GPU is in use by {_holders(descriptor)} ({self.path}); waiting")
                while not _taken(descriptor, kind):
                    time.sleep(_POLL_S)
            yield
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        """A regular file, never a link; made for every user of the machine, for all share the GPU."""
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            try:
                descriptor = os.open(self.path, flags)
            except FileNotFoundError:
                descriptor = os.open(self.path, flags | os.O_CREAT, _EVERYBODY)
        except OSError as error:
            raise EnvironmentFault(
                f"the GPU's lock {self.path} cannot be opened: {error.strerror}. Make it readable, "
                f"or name another folder for locks with {LOCKS}"
            ) from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise EnvironmentFault(f"the GPU's lock {self.path} is no file; remove it")
        return descriptor


def _taken(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holders(descriptor: int) -> str:
    """The processes that hold the file, from the kernel's own table."""
    inode = str(os.fstat(descriptor).st_ino)
    pids = set()
    try:
        for line in Path("/proc/locks").read_text(encoding="utf-8").splitlines():
            words = line.split()
            if "->" not in words and len(words) > 5 and words[5].rpartition(":")[2] == inode:
                pids.add(words[4])
    except OSError:
        return "another process"
    return "process " + ", ".join(sorted(pids)) if pids else "another process"
