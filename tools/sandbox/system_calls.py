"""The few system calls the sandbox needs that Python does not offer; failures are `OSError`s."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
from pathlib import Path

CLONE_NEWNS = 0x0002_0000
CLONE_NEWCGROUP = 0x0200_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000
CLONE_NEWTIME = 0x0000_0080

MACHINE = platform.machine()

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x2008_0522
_HIGHEST_CAPABILITY = 63
_CAP_SETPCAP = 8
_CAP_DAC_READ_SEARCH = 2

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def syscall(number: int, *arguments: object) -> int:
    """The result of a raw system call; raises `OSError` with the kernel's reason."""
    return _checked(int(_libc.syscall(ctypes.c_long(number), *arguments)))


def prctl(option: int, *arguments: object) -> int:
    padded = [*arguments, *[ctypes.c_ulong(0)] * (4 - len(arguments))]
    return _checked(int(_libc.prctl(ctypes.c_int(option), *padded)))


def unshare(flags: int) -> None:
    _checked(int(_libc.unshare(ctypes.c_int(flags))))


def mount(source: str, target: str, kind: str, flags: int) -> None:
    _checked(
        int(
            _libc.mount(
                source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), None
            )
        )
    )


def die_with_parent(parent: int) -> None:
    """Be killed when the parent ends; `parent`: its pid, 0 when it is out of this pid namespace."""
    prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1))


def set_inspectable(inspectable: bool) -> None:
    """Whether processes of the same user may read this one's memory, environment and descriptors."""
    prctl(_PR_SET_DUMPABLE, ctypes.c_ulong(int(inspectable)))


def forbid_new_privileges() -> None:
    prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1))


def drop_capabilities(*, keep_reading: bool) -> None:
    """Give up every capability; `keep_reading`: but the one to read files of other owners."""
    kept = {_CAP_DAC_READ_SEARCH} if keep_reading else set()
    effective, permitted = _capabilities()
    if effective >> _CAP_SETPCAP & 1:
        for number in range(_HIGHEST_CAPABILITY + 1):
            if number not in kept:
                _drop_from_bounding_set(number)
    prctl(_PR_CAP_AMBIENT, ctypes.c_ulong(_PR_CAP_AMBIENT_CLEAR_ALL))
    mask = sum(1 << number for number in kept)
    _set_capabilities(effective & mask, permitted & mask)


def _drop_from_bounding_set(number: int) -> None:
    try:
        prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(number))
    except OSError:
        # Beyond the last capability this kernel knows.
        if number <= _last_capability():
            raise


def _last_capability() -> int:
    return int(Path("/proc/sys/kernel/cap_last_cap").read_text(encoding="ascii"))


def _capabilities() -> tuple[int, int]:
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()
    _checked(int(_libc.capget(header, data)))
    return data[0] | data[3] << 32, data[1] | data[4] << 32


def _set_capabilities(effective: int, permitted: int) -> None:
    low, high = 0xFFFF_FFFF, 32
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)(
        effective & low, permitted & low, 0, effective >> high, permitted >> high, 0
    )
    _checked(int(_libc.capset(header, data)))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
