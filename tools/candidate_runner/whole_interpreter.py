"""Every function and class that was loaded before a candidate, compared once when it has been judged.

Imported last by the fork server, so that the list is made once for all candidates (tens of thousands of
entries, about 40 ms). `Integrity` looks at the few that matter to the judge around every request; this
finds what would go on in the user's program: an optimizer's step, a default argument, a method added.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from kernelagent.tools.candidate_runner.candidate import CandidateFailure, candidate_file

_WRAPPED = (property, staticmethod, classmethod)


@dataclass(frozen=True)
class _Entry:
    owner: ModuleType | type
    name: str
    value: Any


@dataclass(frozen=True)
class _Function:
    function: FunctionType
    code: Any
    defaults: Any
    keywords: Any


class WholeInterpreter:
    """What is replaced already counts as ours; made after the runner has put its own parts in place."""

    def __init__(self) -> None:
        self._ours = frozenset(_replaced())

    def require_as_it_was(self) -> None:
        """Raises `CandidateFailure` for the first function or class that is another now, or was added."""
        file = str(candidate_file())
        changed = [name for name in _replaced() if name not in self._ours]
        changed += [name for name in _added(file) if name not in self._ours]
        if changed:
            raise CandidateFailure(
                "tampering",
                f"the candidate leaves {changed[0]} replaced, which other code uses too",
                {"names": changed[:10]},
            )


def _entries() -> Iterator[_Entry]:
    """Functions and classes of all modules, and what those classes define; each class once."""
    seen: set[int] = set()
    for module in list(sys.modules.values()):
        for name, value in list(vars(module).items()) if isinstance(module, ModuleType) else ():
            kind = type(value)
            if kind is FunctionType or kind is BuiltinFunctionType:
                yield _Entry(module, name, value)
            elif issubclass(kind, type):
                yield _Entry(module, name, value)
                if id(value) not in seen:
                    seen.add(id(value))
                    yield from _of_class(value)


def _of_class(kind: type) -> Iterator[_Entry]:
    for name, value in list(vars(kind).items()):
        if type(value) is FunctionType or type(value) in _WRAPPED:
            yield _Entry(kind, name, value)


def _replaced() -> list[str]:
    result = [
        f"{entry.owner.__name__}.{entry.name}"
        for entry in _TAKEN
        if entry.owner.__dict__.get(entry.name) is not entry.value
    ]
    result += [
        f"{known.function.__module__}.{known.function.__qualname__}"
        for known in _FUNCTIONS
        if known.function.__code__ is not known.code
        or known.function.__defaults__ is not known.defaults
        or known.function.__kwdefaults__ is not known.keywords
    ]
    return result


def _added(file: str) -> list[str]:
    """The candidate's own functions as methods of classes, or functions of modules, that are not its own."""
    owners = {id(entry.owner): entry.owner for entry in _TAKEN}
    return [
        f"{owner.__name__}.{name}"
        for owner in owners.values()
        for name, value in list(owner.__dict__.items())
        if type(value) is FunctionType and value.__code__.co_filename == file
    ]


with warnings.catch_warnings():
    # Looking at a deprecated class warns.
    warnings.simplefilter("ignore")
    _TAKEN = tuple(_entries())
_FUNCTIONS = tuple(
    _Function(f, f.__code__, f.__defaults__, f.__kwdefaults__)
    for f in {id(e.value): e.value for e in _TAKEN if type(e.value) is FunctionType}.values()
)
