"""Every function and class that was loaded before a candidate, compared once when it has been judged.

Imported last by the fork server, so that the list is made once for all candidates (tens of thousands of
entries). It is walked once a judging, and only where a word tells of a change (`object_words`): a look at each
would copy the pages that all processes share, 0.3 s of processor time. `Integrity` looks at the few that matter to the judge around every request; this
finds what would go on in the user's program: an optimizer's step, a default argument, a method added.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from kernelagent.tools.candidate_runner.candidate import CandidateFailure, candidate_file
from kernelagent.tools.candidate_runner.kept.object_words import (
    words_of_functions,
    words_of_namespaces,
)

_WRAPPED = (property, staticmethod, classmethod)
_RUNNERS = (
    ("atexit", "register"),
    ("codecs", "register"),
    ("codecs", "register_error"),
    ("triton", "compile"),
    ("triton.compiler", "compile"),
    ("triton.runtime.autotuner", "Autotuner.prune_configs"),
)
"""Module and name of all that the runner of `virtual` replaces after the fork."""

_FILLED_IN = "torch.compiler._cache", "CacheInfo", "CacheArtifactFactory", "register"
"""A class of torch's for reports, whose properties its module makes anew as parts of the compiler are imported, which
`torch.library.wrap_triton` does in a call: module, class, and the class and method that make them."""


_NOBODYS = object()
_Place = tuple[ModuleType | type, str]


@dataclass(frozen=True, slots=True)
class _Owner:
    """A module or class and the functions and classes in it."""

    owner: ModuleType | type
    values: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class _Function:
    function: FunctionType
    code: Any
    defaults: Any
    keywords: Any


class WholeInterpreter:
    """Made after the runner has put its own parts in place, which then count as loaded before."""

    def __init__(self, native: bool) -> None:
        """`native`: the runner works without a driver, so that it is known what it replaces.

        Creating a context on a GPU may replace more: without `native` everything is scanned here, too, and what is
        replaced by now counts as the runner's.
        """
        places = _of_the_runner() if native else _replaced()
        self._ours = {(id(owner), name): owner.__dict__.get(name) for owner, name in places}

    def require_as_it_was(self) -> None:
        """Raises `CandidateFailure` for the first function or class that is another now, or was added."""
        changed = [
            f"{owner.__name__}.{name}"
            for owner, name in _replaced(str(candidate_file()))
            if self._ours.get((id(owner), name), _NOBODYS) is not owner.__dict__.get(name)
            and not is_filled_in(owner, name)
        ]
        changed += _altered()
        if changed:
            raise CandidateFailure(
                "tampering",
                f"the candidate leaves {changed[0]} replaced, which other code uses too",
                {"names": changed[:10]},
            )


def _of_the_runner() -> Iterator[_Place]:
    for module, path in _RUNNERS:
        if module in sys.modules:
            *outer, name = path.split(".")
            yield reduce(getattr, outer, sys.modules[module]), name


def _replaced(file: str | None = None) -> Iterator[_Place]:
    """Where another function or class stands than before, none, or one that was written in `file`."""
    for number in _NAMESPACES.changed():
        known = _TAKEN[number]
        namespace = known.owner.__dict__
        for name, value in known.values:
            if namespace.get(name) is not value:
                yield known.owner, name
        for name, value in list(namespace.items()):
            if type(value) is FunctionType and value.__code__.co_filename == file:
                yield known.owner, name


def is_filled_in(owner: ModuleType | type, name: str) -> bool:
    """Whether it is a property of `_FILLED_IN` whose code is the one that stands in the method that makes them."""
    module, of, maker, method = _FILLED_IN
    if (getattr(owner, "__module__", None), owner.__name__) != (module, of):
        return False
    made = owner.__dict__.get(name)
    making = vars(getattr(sys.modules[module], maker))[method].__func__.__code__
    read = getattr(made, "fget", None)
    own = type(read) is FunctionType and any(read.__code__ is item for item in making.co_consts)
    return type(made) is property and own and made.fset is None and made.fdel is None


def _altered() -> list[str]:
    """Functions that are the same and do something else."""
    return [
        f"{item.function.__module__}.{item.function.__qualname__}"
        for item in map(_FUNCTIONS.__getitem__, _CODES.changed())
        if item.function.__code__ is not item.code
        or item.function.__defaults__ is not item.defaults
        or item.function.__kwdefaults__ is not item.keywords
    ]


def _owners() -> Iterator[_Owner]:
    """All modules, and the classes in them, each class once."""
    seen: set[int] = set()
    for module in list(sys.modules.values()):
        if not isinstance(module, ModuleType):
            continue
        values = tuple(
            (name, value) for name, value in list(vars(module).items()) if _is_code(value)
        )
        yield _Owner(module, values)
        for _, kind in values:
            if isinstance(kind, type) and id(kind) not in seen:
                seen.add(id(kind))
                yield _Owner(kind, tuple(_of_class(kind)))


def _is_code(value: Any) -> bool:
    kind = type(value)
    return kind is FunctionType or kind is BuiltinFunctionType or issubclass(kind, type)


def _of_class(kind: type) -> Iterator[tuple[str, Any]]:
    for name, value in list(vars(kind).items()):
        if type(value) is FunctionType or type(value) in _WRAPPED:
            yield name, value


with warnings.catch_warnings():
    # Looking at a deprecated class warns.
    warnings.simplefilter("ignore")
    _TAKEN = tuple(_owners())
_FUNCTIONS = tuple(
    _Function(f, f.__code__, f.__defaults__, f.__kwdefaults__)
    for f in {
        id(value): value
        for known in _TAKEN
        for _, value in known.values
        if type(value) is FunctionType
    }.values()
)
_NAMESPACES = words_of_namespaces(known.owner for known in _TAKEN)
_CODES = words_of_functions(item.function for item in _FUNCTIONS)
