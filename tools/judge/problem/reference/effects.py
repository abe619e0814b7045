"""What a reference's forwards do besides computing: they warn, log, print, put into queues, write to sets and deques.

No candidate is held to it, and few do the same: it is told. Warnings, loggers and queues are read off the code, because a
warning may concern inputs that nobody draws; containers are compared before and after the first forwards.
"""

from __future__ import annotations

import array
import builtins
import collections
import copy
import io
import logging
import queue
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import torch

from kernelagent.domain.problem import Remark
from kernelagent.tools.judge.problem.reference.read_from_outside import is_torchs, names_in, reached

_LOGGERS = (logging.Logger, logging.LoggerAdapter)
_SIGNALS = (
    queue.Queue,
    queue.SimpleQueue,
    threading.Event,
    threading.Condition,
    threading.Semaphore,
    threading.Thread,
    io.IOBase,
)
"""Others wait for these or read them; what is in them cannot be looked at without taking it out."""
_CONTAINERS = (set, collections.deque, collections.Counter, bytearray, array.array)
_WARNS = {"warn", "warn_explicit"}


@dataclass(frozen=True)
class Effects:
    """What there was before the first forward."""

    module: torch.nn.Module
    before: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    """By name: a container and a copy of it."""

    @classmethod
    def of(cls, module: torch.nn.Module) -> Effects:
        held = {n: v for n, v in _held(module) if isinstance(v, _CONTAINERS)}
        return cls(module, {name: (value, copy.copy(value)) for name, value in held.items()})

    def remarks(self) -> tuple[Remark, ...]:
        """One that names all of it, once forwards were made; none where there is nothing."""
        written = (
            f"writes to `{name}` (a {type(value).__name__})"
            for name, (value, then) in self.before.items()
            if value != then
        )
        result = tuple(dict.fromkeys([*_by_code(self.module), *written]))
        if not result:
            return ()
        message = (
            f"besides its answer your module {', '.join(result)}: whether a candidate does the same was not judged, and the "
            f"emitted module does what the candidate does"
        )
        return (Remark("effects_not_judged", message),)


def _by_code(module: torch.nn.Module) -> Iterator[str]:
    for function in _functions(module):
        names = names_in(function.__code__)
        known = {name: function.__globals__.get(name) for name in names}
        warning = known.get("warnings") is warnings and names & _WARNS
        if warning or any(
            known.get(name) in (warnings.warn, warnings.warn_explicit) for name in _WARNS
        ):
            yield "warns (`warnings.warn`)"
        if known.get("logging") is logging:
            yield "logs, or asks what is logged (`logging`)"
        if "print" in names and known["print"] in (None, builtins.print):
            yield "prints"
        if known.get("sys") is sys and names & {"stdout", "stderr"}:
            yield "writes to `sys.stdout` or `sys.stderr`"
    for name, value in _held(module):
        if isinstance(value, _LOGGERS):
            yield f"logs, or asks what is logged (`{name}`)"
        elif isinstance(value, _SIGNALS):
            yield f"uses `{name}` (a {type(value).__name__})"


def _held(module: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    """What its forwards name: variables of their files and functions, and attributes of the module's parts."""
    named: set[str] = set()
    for function in _functions(module):
        names = names_in(function.__code__)
        named |= names
        for name in sorted(names & function.__globals__.keys()):
            yield name, function.__globals__[name]
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            yield name, cell.cell_contents
    for path, part in module.named_modules():
        if is_torchs(type(part)):
            continue
        for name, value in vars(part).items():
            if name in named:
                yield ".".join(filter(None, (path, name))), value


def _functions(module: torch.nn.Module) -> Iterator[FunctionType]:
    for kind in dict.fromkeys(type(part) for part in module.modules()):
        if not is_torchs(kind):
            yield from reached(kind, kind.forward)
