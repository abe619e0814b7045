"""What a candidate may keep in things that are not its own: in modules, classes and functions that its text names."""

from __future__ import annotations

import re
import sys
import types
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from kernelagent.tools.candidate_runner.kept.kept_values import module_of

_WORD = re.compile(r"[A-Za-z_]\w*")
_ALWAYS = (
    "torch",
    "torch.nn",
    "torch.nn.functional",
    "torch.autograd",
    "triton",
    "triton.language",
)
_KEEPING = (bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, deque)
_KEEPING_OF_TORCH = (torch.Tensor, torch.dtype, torch.device, torch.Size)
_NOT_TO_KEEP = ("torch", "triton")
"""Packages whose other objects are not a candidate's."""


def words_of(source: str) -> frozenset[str]:
    """Every name that a text could use, those in its strings too."""
    return frozenset(_WORD.findall(source))


def kept_elsewhere(
    module: types.ModuleType, words: frozenset[str]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """By the name of each owner that is reached by these words alone: what of theirs could be kept there."""
    waiting = [sys.modules[name] for name in _ALWAYS if name in sys.modules]
    waiting += [sys.modules[name] for name in words if name in sys.modules]
    waiting += [v for v in vars(module).values() if _is_owner(v)]
    seen = {id(module)}
    while waiting:
        owner = waiting.pop()
        if id(owner) in seen or getattr(owner, "__module__", "") == module.__name__:
            continue
        seen.add(id(owner))
        held = owner.__dict__
        named = {n: held[n] for n in sorted(words & held.keys()) if not n.startswith("__")}
        waiting += [value for value in named.values() if _is_owner(value)]
        kept = {n: v for n, v in named.items() if _may_keep(v, module)}
        if kept:
            yield owner.__name__.rpartition(".")[2], kept


def _is_owner(value: Any) -> bool:
    return isinstance(value, types.ModuleType | types.FunctionType | type)


def _may_keep(value: Any, module: types.ModuleType) -> bool:
    """Whether it could be what a candidate put there: its own, or a thing in which a number or a choice is kept."""
    kind = type(value)
    if kind in (*_KEEPING, *_KEEPING_OF_TORCH):
        return True
    if isinstance(value, types.ModuleType):
        return False
    if _is_owner(value):
        return module_of(value) == module.__name__
    if module_of(kind) == module.__name__:
        return True
    return not callable(value) and module_of(kind).partition(".")[0] not in _NOT_TO_KEEP
