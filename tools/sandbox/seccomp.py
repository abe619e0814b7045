"""A system call filter: refuses, with EPERM, what a Triton kernel or its compiler never needs.

Refused are the ways into other processes, into the kernel and out of the sandbox; io_uring, which
would do the rest unseen; and, unless the network is allowed, every socket but a connected pair.
"""

from __future__ import annotations

import ctypes
import errno
import struct

from kernelagent.tools.sandbox import system_calls as kernel

_PR_SET_SECCOMP = 22
_FILTER_MODE = 2

_LOAD_WORD, _JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST, _JUMP_IF_ANY, _AND, _RETURN = (
    0x20,
    0x15,
    0x35,
    0x45,
    0x54,
    0x06,
)
_ALLOW = 0x7FFF_0000
_KILL_PROCESS = 0x8000_0000
_ERRNO = 0x0005_0000
_EPERM = _ERRNO | errno.EPERM
_ENOSYS = _ERRNO | errno.ENOSYS

_OFFSET_NUMBER, _OFFSET_ARCHITECTURE, _OFFSET_ARGUMENTS = 0, 4, 16
_X32_BIT = 0x4000_0000
_AUDIT = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_COLUMN = {"x86_64": 0, "aarch64": 1}

_REFUSED = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "shmget": (29, 194),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
"""Numbers on x86-64 and aarch64."""
_PORT_ACCESS = (172, 173)
"""iopl and ioperm, which only x86-64 has."""
_MEMORY_FILE = (319, 279)
"""memfd_create: memory that no limit on a process counts."""
_CLONE = (56, 220)
_CLONE3 = (435, 435)
_SOCKET = (41, 198)
_SOCKETPAIR = (53, 199)
_NEW_NAMESPACE = (
    kernel.CLONE_NEWNS
    | kernel.CLONE_NEWCGROUP
    | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUSER
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWNET
)
_SOCKET_TYPE_MASK = 0xF
_SOCK_DGRAM = 2

_Instruction = tuple[int, int, int, int]


def supported() -> bool:
    """Whether the filter knows this machine's system call numbers."""
    return kernel.MACHINE in _COLUMN


def restrict(*, network: bool, memory_files: bool) -> None:
    """Filter this thread and its descendants, for good; needs `no_new_privs`, raises `OSError`."""
    lines = program(network=network, memory_files=memory_files)
    text = b"".join(struct.pack("=HBBI", *line) for line in lines)
    instructions = ctypes.create_string_buffer(text, len(text))
    # struct sock_fprog: a count, padding up to the pointer's alignment, a pointer.
    header = struct.pack("@HP", len(text) // 8, ctypes.addressof(instructions))
    kernel.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(_FILTER_MODE), ctypes.c_char_p(header))


def program(*, network: bool, memory_files: bool) -> list[_Instruction]:
    """The filter as (code, jump if true, jump if false, operand)."""
    column = _COLUMN[kernel.MACHINE]
    lines = [
        _load(_OFFSET_ARCHITECTURE),
        (_JUMP_IF_EQUAL, 1, 0, _AUDIT[kernel.MACHINE]),
        _answer(_KILL_PROCESS),
        _load(_OFFSET_NUMBER),
    ]
    refused = [numbers[column] for numbers in _REFUSED.values()]
    if kernel.MACHINE == "x86_64":
        lines += [(_JUMP_IF_AT_LEAST, 0, 1, _X32_BIT), _answer(_EPERM)]
        refused += _PORT_ACCESS
    if not memory_files:
        refused.append(_MEMORY_FILE[column])
    if not network:
        refused.append(_SOCKET[column])
        # Datagrams can be sent from a pair to any named socket, the system log's for one.
        is_datagram = [
            _load(_OFFSET_ARGUMENTS + 8),
            (_AND, 0, 0, _SOCKET_TYPE_MASK),
            (_JUMP_IF_EQUAL, 0, 1, _SOCK_DGRAM),
        ]
        lines += _when(_SOCKETPAIR[column], is_datagram)
    for number in refused:
        lines += [(_JUMP_IF_EQUAL, 0, 1, number), _answer(_EPERM)]
    # A filter cannot read clone3's flags; without it the C library takes clone.
    lines += [(_JUMP_IF_EQUAL, 0, 1, _CLONE3[column]), _answer(_ENOSYS)]
    makes_namespace = [_load(_OFFSET_ARGUMENTS), (_JUMP_IF_ANY, 0, 1, _NEW_NAMESPACE)]
    return [*lines, *_when(_CLONE[column], makes_namespace), _answer(_ALLOW)]


def _when(number: int, test: list[_Instruction]) -> list[_Instruction]:
    """Refuse call `number` if the last line of `test` jumps nowhere, else allow it."""
    return [
        (_JUMP_IF_EQUAL, 0, len(test) + 2, number),
        *test,
        _answer(_EPERM),
        _answer(_ALLOW),
    ]


def _load(offset: int) -> _Instruction:
    return (_LOAD_WORD, 0, 0, offset)


def _answer(action: int) -> _Instruction:
    return (_RETURN, 0, 0, action)
