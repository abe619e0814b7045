"""The judge's side of the warm parent: start it, fork from it, wait, kill."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import kernelagent
from kernelagent.errors import EnvironmentFault
from kernelagent.tools.processes.confinement import Confinement

_ROOT = str(Path(kernelagent.__file__).resolve().parent.parent)
_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from kernelagent.tools.processes.warm import main; main(int(sys.argv[2]))"
)
_KEPT_OUTPUT = 64 << 10
_FLOOD = 16 << 20


@dataclass(frozen=True)
class Exit:
    """How a process ended."""

    code: int | None
    signal: str | None
    why: str | None
    peak_bytes: int

    def describe(self) -> str:
        if self.why:
            return f"was stopped ({self.why})"
        return f"was killed by {self.signal}" if self.signal else f"exited with status {self.code}"


class Child:
    def __init__(self, parent: WarmParent, pid: int, output: int) -> None:
        self.pid = pid
        self._parent = parent
        self._text = bytearray()
        self._flooded = False
        self._reader = threading.Thread(target=self._read, args=(output,), daemon=True)
        self._reader.start()

    def _read(self, fd: int) -> None:
        total = 0
        while chunk := os.read(fd, 1 << 16):
            total += len(chunk)
            if len(self._text) < _KEPT_OUTPUT:
                self._text += chunk
            if total > _FLOOD and not self._flooded:
                self._flooded = True
                self._kill_group()
        os.close(fd)

    def output(self) -> str:
        return bytes(self._text).decode(errors="replace")

    def wait(self, timeout: float) -> Exit | None:
        raw = self._parent.exit_of(self.pid, timeout)
        if raw is None:
            return None
        status, rss = raw
        why = "flood" if self._flooded else None
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            if number == signal.SIGXCPU:
                why = "cpu"
            return Exit(None, signal.Signals(number).name, why, rss)
        return Exit(os.WEXITSTATUS(status), None, why, rss)

    def kill(self) -> Exit:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            self._kill_group()
            ended = self.wait(0.2)
            if ended is not None:
                self._kill_group()
                return ended
        raise EnvironmentFault(f"process {self.pid} does not die")

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


class WarmParent:
    def __init__(self, process: subprocess.Popen[bytes], line: socket.socket) -> None:
        self._process = process
        self._line = line
        self._buffer = b""
        self._exits: dict[int, tuple[int, int]] = {}

    @classmethod
    def start(cls, *, preload: Sequence[str], environment: Mapping[str, str] | None = None) -> Self:
        ours, theirs = socket.socketpair()
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _BOOT, _ROOT, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
            env={
                k: v
                for k, v in os.environ.items()
                if k in {"PATH", "LANG", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES"}
            }
            | dict(environment or {}),
        )
        theirs.close()
        warm = cls(process, ours)
        ours.sendall(json.dumps({"kind": "import", "modules": ["torch", "triton", *preload]}).encode())
        warm._wait_for("ready", 120.0)
        return warm

    def fork(
        self, entry: str, settings: dict[str, Any], fds: Sequence[int], confinement: Confinement
    ) -> Child:
        read, write = os.pipe()
        request = {
            "kind": "fork",
            "entry": entry,
            "settings": settings,
            "scratch": str(confinement.scratch),
            "file_bytes": confinement.file_bytes,
            "cpu_seconds": confinement.cpu_seconds,
            "memory_bytes": confinement.memory_bytes,
        }
        socket.send_fds(self._line, [json.dumps(request).encode()], [write, *fds])
        os.close(write)
        return Child(self, int(self._wait_for("forked", 10.0)["pid"]), read)

    def exit_of(self, pid: int, timeout: float) -> tuple[int, int] | None:
        deadline = time.monotonic() + timeout
        while pid not in self._exits:
            if not self._pump(max(0.0, deadline - time.monotonic())):
                return None
        return self._exits[pid]

    def close(self) -> None:
        self._line.close()
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _wait_for(self, kind: str, timeout: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout
        self._answer: dict[str, Any] | None = None
        while self._answer is None:
            if not self._pump(max(0.0, deadline - time.monotonic())):
                raise EnvironmentFault(f"the warm parent gave no answer ({kind})")
        return self._answer

    def _pump(self, timeout: float) -> bool:
        self._line.settimeout(timeout or 0.000001)
        try:
            chunk = self._line.recv(1 << 16)
        except (TimeoutError, BlockingIOError):
            return False
        finally:
            self._line.settimeout(None)
        if not chunk:
            raise EnvironmentFault("the warm parent is gone")
        self._buffer += chunk
        while b"\n" in self._buffer:
            line, _, self._buffer = self._buffer.partition(b"\n")
            message = json.loads(line)
            if message["kind"] == "exit":
                self._exits[message["pid"]] = (message["status"], message["rss"])
            else:
                self._answer = message
        return True
