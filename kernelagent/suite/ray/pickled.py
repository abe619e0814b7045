"""Which modules a pickle names, read from its opcodes: nothing of it is run."""

from __future__ import annotations

import pickletools
from collections.abc import Iterator

_SILENT = frozenset({"PROTO", "FRAME"})
_STRINGS = frozenset({"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE"})
_FROM_MEMO = frozenset({"BINGET", "LONG_BINGET", "GET"})
_INTO_MEMO = frozenset({"BINPUT", "LONG_BINPUT", "PUT"})


def modules_named(pickle: bytes) -> tuple[str, ...]:
    """Names of the modules whose classes and functions it refers to, each once, in order."""
    return tuple(dict.fromkeys(_modules(pickle)))


def _modules(pickle: bytes) -> Iterator[str]:
    memo: dict[int, object] = {}
    pushed: list[object] = []
    for opcode, argument, _ in pickletools.genops(pickle):
        name = opcode.name
        if name in _SILENT:
            continue
        if name == "GLOBAL":
            yield str(argument).partition(" ")[0]
        elif name == "STACK_GLOBAL" and len(pushed) > 1 and isinstance(pushed[-2], str):
            yield pushed[-2]
        if name == "MEMOIZE":
            memo[len(memo)] = pushed[-1] if pushed else None
        elif name in _INTO_MEMO and argument is not None:
            memo[int(argument)] = pushed[-1] if pushed else None
        elif name in _FROM_MEMO and argument is not None:
            pushed.append(memo.get(int(argument)))
        else:
            pushed.append(argument if name in _STRINGS else None)
