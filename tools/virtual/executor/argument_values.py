"""How many values Triton looks at in each launch: arguments, what tuples hold, and numbers of many words.

Its launcher reads the type of every argument, of a tuple every item's, and compares constants with those it has
compiled for, before anything runs on a GPU. On `virtual` a launch is done otherwise, so that no clock tells.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from triton.runtime.jit import JITCallable

_MOST = 100_000
"""Counted no further."""
_WORD_BITS = 64


def values_of(arguments: Iterable[Any]) -> int:
    """Of one launch; constants count as well, whose key is made anew each time."""
    count, waiting = 0, list(arguments)
    while waiting and count < _MOST:
        value = waiting.pop()
        count += 1
        kind = type(value)
        if kind is int:
            count += value.bit_length() // _WORD_BITS
        elif isinstance(value, tuple | list | frozenset):
            waiting.extend(value)
        elif isinstance(value, dict):
            waiting.extend(value.values())
        elif not _is_one(value):
            waiting.extend(_held(value))
    return count


def _is_one(value: Any) -> bool:
    """Tensors, types and other kernels are looked at as a whole."""
    simple = (bool, float, str, bytes, torch.Tensor, torch.dtype, type, JITCallable)
    library = type(value).__module__.partition(".")[0]
    return value is None or isinstance(value, simple) or library in ("torch", "triton")


def _held(value: Any) -> list[Any]:
    """What an object of another class keeps, whose key is made of it."""
    slots = getattr(type(value), "__slots__", ())
    names = [slots] if isinstance(slots, str) else list(slots)
    own = getattr(value, "__dict__", {})
    return [*own.values(), *(getattr(value, name) for name in names if hasattr(value, name))]
