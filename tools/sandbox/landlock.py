"""Landlock: what a process and all its descendants may still read, write and connect to.

Needs kernel 5.19 (ABI 2): before it, files cannot be renamed between folders, which triton's cache
does. Rights are given per file or folder; whatever is not named is refused.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntFlag
from pathlib import Path

from kernelagent.tools.sandbox import system_calls as kernel

OLDEST_ABI = 2
SIGNAL_SCOPE_ABI = 6
_NETWORK_ABI = 4

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_BENEATH = 1
_BIND_AND_CONNECT_TCP = 0b11
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11


class Right(IntFlag):
    """LANDLOCK_ACCESS_FS_*."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13
    TRUNCATE = 1 << 14
    IOCTL_DEV = 1 << 15


READ = Right.READ_FILE | Right.READ_DIR
RUN = READ | Right.EXECUTE
DEVICE = READ | Right.WRITE_FILE | Right.IOCTL_DEV
WRITE = (
    READ
    | Right.WRITE_FILE
    | Right.REMOVE_DIR
    | Right.REMOVE_FILE
    | Right.MAKE_DIR
    | Right.MAKE_REG
    | Right.MAKE_SOCK
    | Right.MAKE_FIFO
    | Right.MAKE_SYM
    | Right.REFER
    | Right.TRUNCATE
)
_ON_A_FILE = Right.EXECUTE | Right.WRITE_FILE | Right.READ_FILE | Right.TRUNCATE | Right.IOCTL_DEV
_RIGHTS_UP_TO_ABI = {2: Right.REFER, 3: Right.TRUNCATE, 4: Right.TRUNCATE, 5: Right.IOCTL_DEV}


@dataclass(frozen=True)
class Grant:
    """These rights on this file, or on this folder and everything in it."""

    path: Path
    rights: Right


def abi() -> int:
    """The kernel's version of Landlock, 0 when it is absent or switched off."""
    try:
        return kernel.syscall(
            _CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION)
        )
    except OSError:
        return 0


def restrict(grants: Iterable[Grant], version: int, *, network: bool) -> None:
    """Keep this thread and its descendants to `grants`, for good; paths that do not exist are passed over.

    `version`: from `abi()`. From ABI 4 TCP is refused too unless `network`; from ABI 6 signals and
    abstract sockets reach only processes restricted together with this one. Needs `no_new_privs`.
    """
    handled = _handled(version)
    tcp = 0 if network or version < _NETWORK_ABI else _BIND_AND_CONNECT_TCP
    scope = 0 if version < SIGNAL_SCOPE_ABI else _ABSTRACT_SOCKETS_AND_SIGNALS
    words = (int(handled), tcp, scope)[: _words(version)]
    attributes = struct.pack(f"={len(words)}Q", *words)
    ruleset = kernel.syscall(
        _CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0)
    )
    try:
        for grant in grants:
            _allow(ruleset, grant, handled)
        kernel.syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def _handled(version: int) -> Right:
    newest = _RIGHTS_UP_TO_ABI[min(version, max(_RIGHTS_UP_TO_ABI))]
    return Right((newest << 1) - 1)


def _words(version: int) -> int:
    if version < _NETWORK_ABI:
        return 1
    return 2 if version < SIGNAL_SCOPE_ABI else 3


def _allow(ruleset: int, grant: Grant, handled: Right) -> None:
    try:
        opened = os.open(grant.path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        # Absent, or out of this user's reach already: there is nothing to allow.
        return
    try:
        rights = grant.rights & handled
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            rights &= _ON_A_FILE
        rule = struct.pack("=Qi", int(rights), opened)
        kernel.syscall(
            _ADD_RULE,
            ctypes.c_int(ruleset),
            ctypes.c_int(_PATH_BENEATH),
            rule,
            ctypes.c_uint32(0),
        )
    finally:
        os.close(opened)
