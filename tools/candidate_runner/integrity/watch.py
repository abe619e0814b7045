"""Detects, with Python's audit hooks, use of the network, other processes and files outside the scratch.

Audit hooks cannot be removed. They run in the candidate's own process,
so what they see explains a rejection; what keeps the candidate from it is the sandbox.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import triton

from kernelagent.tools.candidate_runner.candidate import CandidateFailure, candidate_file
from kernelagent.tools.sandbox.confinement import Confinement
from kernelagent.tools.sandbox.file_access import grants

_COMPILERS = frozenset(
    "gcc cc clang g++ c++ ptxas ptxas-blackwell ldconfig nvcc cuobjdump nvdisasm file".split()
)
"""What triton itself starts on a GPU machine; `file` by Python's `platform.architecture()`."""
if "CC" in os.environ:
    # The compiler that Triton was told to use; read before any candidate can change it.
    _COMPILERS |= {os.path.basename(os.environ["CC"])}  # noqa: PTH119 - a program's name
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC
_COMPILER_FOLDERS = tuple(
    str(Path(torch.__file__).with_name(name)) + os.sep
    for name in ("_dynamo", "_inductor", "_functorch")
)
_LIBRARIES = tuple(
    # Either may open one of its own when it is first asked for something.
    str(Path(str(module.__file__)).parent) + os.sep
    for module in (torch, triton)
)
_DEPTH = 200
"""How far up the stack the candidate's own file is looked for."""


@dataclass(frozen=True)
class Sighting:
    """Something the candidate did, as a rejection would say it."""

    code: str
    did: str

    def as_failure(self) -> CandidateFailure:
        return CandidateFailure(self.code, f"the candidate {self.did}; a kernel needs none of that")


class Watch:
    """The hook and what it saw since it was last asked."""

    def __init__(self, *, may_compile: bool = False) -> None:
        """From now on the whole process is watched, for good.

        `may_compile`: what torch.compile does for its own reasons is no doing of the candidate's.
        """
        self._may_compile = may_compile
        self._file = str(candidate_file())
        self._reach = Reach.of_this_process()
        self._seen: Sighting | None = None
        self._listening = _Listening()
        self.compiles = False
        """True once torch.compile has been put to work."""
        sys.addaudithook(self._hear)

    def take(self) -> Sighting | None:
        """The first sighting since the last call."""
        seen, self._seen = self._seen, None
        return seen

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        judge = _EVENTS.get(event)
        if judge is None or self._seen is not None or self._listening.active:
            return
        # Looking at the stack is itself an event.
        self._listening.active = True
        try:
            self._judge(event, arguments, judge, sys._getframe(1))
        finally:
            self._listening.active = False

    def _judge(
        self, event: str, arguments: tuple[Any, ...], judge: Judged, caller: FrameType
    ) -> None:
        if event in _ASKED_DIRECTLY:
            if caller.f_code.co_filename != self._file:
                return
        else:
            if event == "import" and arguments[0] == "torch._inductor.compile_fx":
                self.compiles = self.compiles or self._is_candidates(caller, stop=())
            stop = _COMPILER_FOLDERS if self._may_compile else ()
            if event == "ctypes.dlopen":
                stop = _LIBRARIES
            if not self._is_candidates(caller, stop=stop):
                return
        self._seen = judge(self._reach, arguments)

    def _is_candidates(self, frame: FrameType | None, *, stop: tuple[str, ...]) -> bool:
        """Whether the candidate's file is on the stack, before any code that lies in `stop`."""
        for _ in range(_DEPTH):
            if frame is None:
                return False
            if frame.f_code.co_filename == self._file:
                return True
            if frame.f_code.co_filename.startswith(stop):
                return False
            frame = frame.f_back
        return False


class _Listening(threading.local):
    active = False


@dataclass(frozen=True)
class Reach:
    """Which files a candidate has any business with."""

    scratch: Path
    readable: tuple[str, ...]

    @classmethod
    def of_this_process(cls) -> Reach:
        scratch = Path(tempfile.gettempdir()).resolve()
        allowed = {str(grant.path) for grant in grants(Confinement(scratch), own_proc=False)}
        resolved = {os.path.realpath(path) for path in allowed}
        return cls(scratch, tuple(allowed | resolved))

    def may_write(self, path: Any) -> bool:
        place = _absolute(path)
        return place is None or place.startswith((str(self.scratch), "/dev/null", "/dev/nvidia"))

    def may_read(self, path: Any) -> bool:
        place = _absolute(path)
        if place is None:
            return True
        if place.startswith("/proc/"):
            return not place.endswith(("/mem", "/environ", "/cmdline", "/fd")) and (
                place.startswith(("/proc/self", f"/proc/{os.getpid()}/"))
                or not place.split("/")[2].isdigit()
            )
        return place.startswith(self.readable) or place in _FOLDERS_OF_THE_PATH


_FOLDERS_OF_THE_PATH = frozenset({"/", "/etc/os-release", "/etc/passwd", "/etc/nsswitch.conf"})
"""Read by the standard library in ordinary use."""


def _absolute(path: Any) -> str | None:
    """None for descriptors and what is no path."""
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if not isinstance(path, str | os.PathLike):
        return None
    # Not resolved: the sandbox follows links, and a link to a forbidden place is refused there.
    return os.path.normpath(os.path.join(os.getcwd(), os.fspath(path)))  # noqa: PTH109, PTH118


Judged = Callable[[Reach, tuple[Any, ...]], Sighting | None]


def _network(_: Reach, arguments: tuple[Any, ...]) -> Sighting:
    return Sighting("forbidden_access", "uses the network")


def _socket(_: Reach, arguments: tuple[Any, ...]) -> Sighting | None:
    family = int(arguments[1])
    return None if family == 1 else Sighting("forbidden_access", "opens a network socket")


def starting_a_process(_: Reach, arguments: tuple[Any, ...]) -> Sighting | None:
    """What an audit event about a new program shows; None for those that torch and triton start."""
    first = arguments[0] if arguments else ""
    program = os.fsdecode(first) if isinstance(first, str | bytes | os.PathLike) else ""
    name = os.path.basename(program)  # noqa: PTH119 - a program's name, not a file of ours
    if name in _COMPILERS:
        return None
    return Sighting("forbidden_access", f"starts another process {name}".rstrip())


def _signal(_: Reach, arguments: tuple[Any, ...]) -> Sighting | None:
    if arguments[0] == os.getpid():
        return None
    return Sighting("forbidden_access", "sends a signal to another process")


def _open(reach: Reach, arguments: tuple[Any, ...]) -> Sighting | None:
    path, _, flags = arguments
    if isinstance(flags, int) and flags & _WRITES:
        return _change(reach, (path,))
    if not reach.may_read(path):
        return Sighting("forbidden_access", f"reads {_shown(path)}")
    return None


def _change(reach: Reach, arguments: tuple[Any, ...]) -> Sighting | None:
    for path in arguments[:2]:
        if not reach.may_write(path):
            return Sighting("tampering", f"writes to {_shown(path)}, outside its own folder")
    return None


def _objects(_: Reach, arguments: tuple[Any, ...]) -> Sighting:
    return Sighting(
        "calls_reference", "searches the interpreter's objects (gc.get_objects or the like)"
    )


def _frames(_: Reach, arguments: tuple[Any, ...]) -> Sighting:
    return Sighting("calls_reference", "walks the call stack for somebody else's values")


def _import(_: Reach, arguments: tuple[Any, ...]) -> Sighting | None:
    name = str(arguments[0])
    if name.partition(".")[0] in {"kernelagent", "kernelagent_problem"}:
        return Sighting("calls_reference", f"imports {name}, which is the judge's side")
    return None


def _library(_: Reach, arguments: tuple[Any, ...]) -> Sighting:
    name = "the process's own symbols" if arguments[0] is None else _shown(arguments[0])
    return Sighting("forbidden_access", f"opens a library of machine code ({name})")


def _tracing(_: Reach, arguments: tuple[Any, ...]) -> Sighting:
    return Sighting("tampering", "hooks into the interpreter's own tracing")


def _shown(path: Any) -> str:
    text = os.fsdecode(path) if isinstance(path, bytes) else str(path)
    return text if len(text) <= 80 else "…" + text[-79:]


_EVENTS: dict[str, Judged] = {
    **dict.fromkeys(
        """socket.connect socket.bind socket.getaddrinfo socket.gethostbyname socket.sendto
        socket.sendmsg urllib.Request""".split(),
        _network,
    ),
    "socket.__new__": _socket,
    **dict.fromkeys(
        "subprocess.Popen os.system os.exec os.posix_spawn os.spawn os.fork os.forkpty pty.spawn".split(),
        starting_a_process,
    ),
    **dict.fromkeys("os.kill os.killpg signal.pthread_kill".split(), _signal),
    "open": _open,
    **dict.fromkeys(
        "os.remove os.rename os.mkdir os.rmdir os.link os.symlink os.chmod os.chown os.truncate".split(),
        _change,
    ),
    **dict.fromkeys("gc.get_objects gc.get_referrers gc.get_referents".split(), _objects),
    "sys._getframe": _frames,
    "import": _import,
    "ctypes.dlopen": _library,
    **dict.fromkeys(
        "sys.setprofile sys.settrace sys.addaudithook sys.monitoring.register_callback".split(),
        _tracing,
    ),
}
_ASKED_DIRECTLY = frozenset(
    {"sys._getframe", "gc.get_objects", "gc.get_referrers", "gc.get_referents"}
)
"""Libraries do these for reasons of their own; only the candidate's own line counts."""
