"""What a candidate's process might do, well or badly behaved; each function runs in a confined fork."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import errno
import json
import mmap
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kernelagent.tools.virtual.device.storages.hollow import AliasedRange

Settings = dict[str, Any]
_libc = ctypes.CDLL(None, use_errno=True)


def _answer(fds: list[int], value: Any) -> None:
    os.write(fds[0], json.dumps(value).encode())


def _outcome(attempt: Callable[[], Any]) -> str:
    """The name of the error an attempt ends with, or what it returned."""
    try:
        return f"done: {attempt()!r:.200}"
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, type(error).__name__)


def _raw(number: int, *arguments: int) -> int:
    result = int(_libc.syscall(ctypes.c_long(number), *(ctypes.c_long(a) for a in arguments)))
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


def return_at_once(settings: Settings, fds: list[int]) -> None:
    pass


def answer_with_settings(settings: Settings, fds: list[int]) -> None:
    _answer(fds, settings)


def raise_an_error(settings: Settings, fds: list[int]) -> None:
    raise ValueError("the candidate is wrong")


def segfault(settings: Settings, fds: list[int]) -> None:
    ctypes.string_at(0)


def abort(settings: Settings, fds: list[int]) -> None:
    os.abort()


def leave_early(settings: Settings, fds: list[int]) -> None:
    os._exit(0)


def exit_with_3(settings: Settings, fds: list[int]) -> None:
    sys.exit(3)


def hang(settings: Settings, fds: list[int]) -> None:
    while True:
        time.sleep(60)


def hang_in_every_handler(settings: Settings, fds: list[int]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGXCPU):
        signal.signal(number, hang)
    os.kill(os.getpid(), signal.SIGTERM)


def hang_at_exit(settings: Settings, fds: list[int]) -> None:
    atexit.register(hang, {}, [])
    os._exit = hang  # type: ignore[assignment]
    threading.Thread(target=hang, args=({}, [])).start()


def spin(settings: Settings, fds: list[int]) -> None:
    while True:
        pass


def fork_bomb(settings: Settings, fds: list[int]) -> None:
    while True:
        try:
            os.fork()
        except OSError:
            time.sleep(0.01)


def thread_bomb(settings: Settings, fds: list[int]) -> None:
    while True:
        try:
            threading.Thread(target=hang, args=({}, []), daemon=True).start()
        except RuntimeError:
            time.sleep(0.01)


def leave_a_daemon(settings: Settings, fds: list[int]) -> None:
    heard, tell = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.write(tell, b"alive")
            hang({}, [])
        os._exit(0)
    os.read(heard, 5)


def hang_with_a_daemon(settings: Settings, fds: list[int]) -> None:
    leave_a_daemon(settings, fds)
    os.write(fds[0], b"x")
    hang(settings, fds)


def fill_the_scratch(settings: Settings, fds: list[int]) -> None:
    for number in range(settings["files"]):
        Path(str(number)).write_bytes(b"x" * settings["bytes"])
    hang(settings, fds)


def hog_memory(settings: Settings, fds: list[int]) -> None:
    kept = []
    while True:
        kept.append(bytearray(os.urandom(1 << 20)) * 16)


def hog_memory_in_children(settings: Settings, fds: list[int]) -> None:
    for _ in range(8):
        if os.fork() == 0:
            kept = bytearray(os.urandom(1 << 20)) * 100
            time.sleep(60)
            del kept
    time.sleep(60)


def one_window_at_many_addresses(settings: Settings, fds: list[int]) -> None:
    many = AliasedRange(4 << 30)
    for at in range(0, many.size, mmap.PAGESIZE):
        many.memory[at] = b"1"
    time.sleep(1)


def print_a_gigabyte(settings: Settings, fds: list[int]) -> None:
    line = b"x" * (1 << 20)
    for _ in range(1024):
        os.write(1, line)


def print_100_kb(settings: Settings, fds: list[int]) -> None:
    sys.stdout.write("the beginning\n")
    for _ in range(100):
        sys.stdout.write("x" * 1023 + "\n")
    sys.stdout.write("the end\n")


def print_on_both_streams(settings: Settings, fds: list[int]) -> None:
    sys.stdout.write("out\n")
    sys.stderr.write("err\n")


def write_10_gigabytes(settings: Settings, fds: list[int]) -> None:
    def attempt() -> None:
        with Path("big").open("wb") as file:
            for _ in range(10 << 10):
                file.write(b"x" * (1 << 20))

    _answer(fds, [_outcome(attempt), Path("big").stat().st_size])


def read_files(settings: Settings, fds: list[int]) -> None:
    _answer(
        fds, [_outcome(lambda path=path: Path(path).read_bytes()) for path in settings["paths"]]
    )


def open_files(settings: Settings, fds: list[int]) -> None:
    paths = settings["paths"]
    _answer(fds, [_outcome(lambda path=path: os.open(path, os.O_RDONLY)) for path in paths])


def read_into_output(settings: Settings, fds: list[int]) -> None:
    sys.stdout.write(Path(settings["path"]).read_text())


def write_files(settings: Settings, fds: list[int]) -> None:
    _answer(
        fds, [_outcome(lambda path=path: Path(path).write_text("x")) for path in settings["paths"]]
    )


def list_folders(settings: Settings, fds: list[int]) -> None:
    _answer(
        fds,
        [_outcome(lambda path=path: sorted(Path(path).iterdir())) for path in settings["paths"]],
    )


def show_environment(settings: Settings, fds: list[int]) -> None:
    initial = Path("/proc/self/environ").read_text()
    _answer(fds, {"now": dict(os.environ), "initial": initial})


def show_surroundings(settings: Settings, fds: list[int]) -> None:
    held = []
    for number in range(3, 1024):
        with contextlib.suppress(OSError):
            os.fstat(number)
            held.append(number)
    _answer(
        fds,
        {
            "cwd": str(Path.cwd()),
            "temporary": tempfile.gettempdir(),
            "session": os.getsid(0) == os.getpid(),
            "stdin": sys.stdin.read(),
            "descriptors": held,
            "path": sys.path,
            "writes_bytecode": not sys.dont_write_bytecode,
        },
    )


def show_processes(settings: Settings, fds: list[int]) -> None:
    _answer(fds, [entry.name for entry in Path("/proc").iterdir() if entry.name.isdecimal()])


def show_random_numbers(settings: Settings, fds: list[int]) -> None:
    _answer(fds, [random.random(), np.random.rand(), torch.rand(1).item()])


def reach_the_network(settings: Settings, fds: list[int]) -> None:
    def connect(family: int, kind: int, address: Any) -> None:
        with socket.socket(family, kind) as end:
            end.settimeout(2)
            if kind == socket.SOCK_DGRAM:
                end.sendto(b"x", address)
            else:
                end.connect(address)

    local = ("127.0.0.1", settings["port"])
    _answer(
        fds,
        {
            "tcp": _outcome(lambda: connect(socket.AF_INET, socket.SOCK_STREAM, local)),
            "udp": _outcome(lambda: connect(socket.AF_INET, socket.SOCK_DGRAM, local)),
            "unix": _outcome(lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, settings["unix"])),
            "dns": _outcome(lambda: socket.getaddrinfo("localhost.localdomain.invalid", 80)),
            "listen": _outcome(lambda: socket.create_server(("127.0.0.1", 0))),
        },
    )


def use_a_socket_pair(settings: Settings, fds: list[int]) -> None:
    left, right = socket.socketpair()
    left.send(b"hello")
    _answer(fds, right.recv(5).decode())


def signal_others(settings: Settings, fds: list[int]) -> None:
    outcomes = [_outcome(lambda pid=pid: os.kill(pid, signal.SIGKILL)) for pid in settings["pids"]]
    _answer(fds, outcomes)


def kill_everything_visible(settings: Settings, fds: list[int]) -> None:
    os.kill(-1, signal.SIGKILL)
    _answer(fds, "survived")


def look_into_others(settings: Settings, fds: list[int]) -> None:
    pid = settings["pid"]
    _answer(
        fds,
        {
            "environ": _outcome(lambda: Path(f"/proc/{pid}/environ").read_bytes()),
            "memory": _outcome(lambda: os.open(f"/proc/{pid}/mem", os.O_RDONLY)),
            "descriptors": _outcome(lambda: sorted(Path(f"/proc/{pid}/fd").iterdir())),
            "attach": _outcome(lambda: _raw(settings["ptrace"], 16, pid, 0, 0)),
        },
    )


def call_the_kernel(settings: Settings, fds: list[int]) -> None:
    _answer(fds, {name: _outcome(lambda call=call: _raw(*call)) for name, call in settings.items()})


def close_every_descriptor(settings: Settings, fds: list[int]) -> None:
    os.closerange(0, 4096)


def exhaust_descriptors(settings: Settings, fds: list[int]) -> None:
    held = []

    def attempt() -> None:
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))

    _answer(fds, [_outcome(attempt), len(held)])


def use_threads(settings: Settings, fds: list[int]) -> None:
    left = torch.randn(400, 400, dtype=torch.float64)
    both = left @ left, torch.from_numpy(left.numpy() @ left.numpy())
    _answer(fds, bool(torch.allclose(*both)))


def compile_a_kernel(settings: Settings, fds: list[int]) -> None:
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    Path("kernel.py").write_text(
        "import triton\nimport triton.language as tl\n@triton.jit\n"
        "def double(x, n, B: tl.constexpr):\n"
        "    i = tl.program_id(0) * B + tl.arange(0, B)\n"
        "    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)\n"
    )
    sys.path.insert(0, str(Path.cwd()))
    import kernel  # type: ignore[import-not-found]

    assert tl
    source = ASTSource(
        fn=kernel.double,
        signature={"x": "*fp32", "n": "i32", "B": "constexpr"},
        constexprs={"B": 128},
    )
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    Path("kernel.cubin").write_bytes(compiled.asm["cubin"])
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    listing = subprocess.run(
        [str(tool), "-sass", "kernel.cubin"], capture_output=True, text=True, check=True
    )
    cached = [path.name for path in Path(os.environ["TRITON_CACHE_DIR"]).rglob("*.cubin")]
    _answer(fds, ["EXIT" in listing.stdout, cached])


def name_a_thread(settings: Settings, fds: list[int]) -> None:
    """As `pthread_setname_np` does it for another thread, which the CUDA driver calls in `cuInit`."""
    done = threading.Event()
    thread = threading.Thread(target=done.wait, daemon=True)
    thread.start()
    task = f"/proc/self/task/{thread.native_id}/comm"
    _answer(
        fds, {path: _outcome(partial(_write_over, path)) for path in (task, *settings["paths"])}
    )
    done.set()


def _write_over(path: str) -> str:
    opened = os.open(path, os.O_RDWR)
    os.write(opened, b"1")
    return "written"
