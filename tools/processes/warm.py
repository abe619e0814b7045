"""The warm parent: torch and triton imported once, forked for each candidate; runs no tensor operation."""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import resource
import selectors
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

_PDEATHSIG, _SUBREAPER = 1, 36


def main(fd: int) -> None:
    """Serve fork requests on `fd` until it is closed."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PDEATHSIG, signal.SIGKILL)
    libc.prctl(_SUBREAPER, 1)
    line = socket.socket(fileno=fd)
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with selectors.DefaultSelector() as selector:
        selector.register(line, selectors.EVENT_READ)
        selector.register(wake, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if wake in ready:
                os.read(wake, 4096)
                _reap(line)
            if line in ready and not _request(line):
                return


def _reap(line: socket.socket) -> None:
    while True:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _send(line, {"kind": "exit", "pid": pid, "status": status, "rss": usage.ru_maxrss << 10})


def _send(line: socket.socket, message: dict[str, Any]) -> None:
    line.sendall(json.dumps(message).encode() + b"\n")


def _request(line: socket.socket) -> bool:
    data, fds, _, _ = socket.recv_fds(line, 1 << 20, 32)
    if not data:
        return False
    request = json.loads(data)
    if request["kind"] == "import":
        for name in request["modules"]:
            importlib.import_module(name)
        _send(line, {"kind": "ready"})
        return True
    pid = os.fork()
    if pid == 0:
        _become(request, fds)
    for fd in fds:
        os.close(fd)
    _send(line, {"kind": "forked", "pid": pid})
    return True


def _become(request: dict[str, Any], fds: list[int]) -> None:
    code = 70
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(fds[0], 1)
        os.dup2(fds[0], 2)
        kept = fds[1:]
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2 and int(name) not in kept:
                try:
                    os.close(int(name))
                except OSError:
                    continue
        scratch = Path(request["scratch"])
        os.chdir(scratch)
        for key in ("TMPDIR", "TRITON_CACHE_DIR", "TRITON_HOME"):
            os.environ[key] = str(scratch)
        tempfile.tempdir = str(scratch)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["file_bytes"],) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (request["cpu_seconds"],) * 2)
        resource.setrlimit(resource.RLIMIT_DATA, (request["memory_bytes"],) * 2)
        module, _, name = request["entry"].partition(":")
        getattr(importlib.import_module(module), name)(request["settings"], kept)
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
