"""What a candidate keeps between calls, as it is: everything that is reachable from its text and its module.

Counters and iterators, caches and buffers look like many things in a text; between two calls they differ in
the same way. Nothing of the candidate's own is called: values are read as the interpreter holds them.
"""

from __future__ import annotations

import builtins
import functools
import gc
import hashlib
import re
import sys
import types
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from kernelagent.tools.candidate_runner.kept_elsewhere import kept_elsewhere
from kernelagent.tools.candidate_runner.kept_tensors import Contents
from kernelagent.tools.state_changes import BEYOND

_MOST_OBJECTS = 300_000
_PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None)})
_SHOWN = 6
_SCALARS: tuple[type, ...] = (bool, int, float, complex, str, bytes, bytearray, range, slice)
_NOBODYS = (torch.dtype, torch.device, torch.layout, torch.memory_format, types.CodeType)
_ITERATING = frozenset(
    {"builtins", "itertools", "collections", "_collections", "random", "_random"}
)
"""Modules whose objects tell what is left in them by `__reduce__`."""
_LAUNCHES_WRITE: Mapping[str, frozenset[str]] = {
    "JITFunction": frozenset("device_caches hash used_global_vals _hash_lock".split()),
    "Autotuner": frozenset("cache best_config nargs bench_time configs_timings restore_copies".split()),
}  # fmt: skip
"""By class of Triton's."""
_SEQUENCES: tuple[Any, ...] = (list, tuple, deque, set, frozenset)
_SUSPENDED = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
_MADE_AT_RUN_TIME = 1 << 9
"""A flag of classes that a `class` statement may have made (`Py_TPFLAGS_HEAPTYPE`)."""

State = Mapping[str, str]
"""By the way to it, what stands there."""


def changed(before: State, after: State) -> tuple[str, ...]:
    """What differs, in the text's own names; a few of many."""
    ways = [way for way in {**before, **after} if before.get(way) != after.get(way)]
    if BEYOND in {*before, *after}:
        ways.insert(0, BEYOND)
    return tuple(dict.fromkeys(_named(way) for way in ways))[:_SHOWN]


def state_of(
    module: types.ModuleType,
    instance: torch.nn.Module | None,
    words: frozenset[str] = frozenset(),
) -> State:
    """Everything that outlives a call; what parameters and saved buffers hold is compared with the reference's instead.

    `words`: of the text, by which it may reach what is not its own.
    """
    return walk(module, instance, words).state


@dataclass(frozen=True)
class Walked:
    """What a candidate keeps at one time."""

    state: State
    bytes: int
    """Of tensors that the judge does not compare with the reference's."""


def walk(
    module: types.ModuleType,
    instance: torch.nn.Module | None,
    words: frozenset[str] = frozenset(),
) -> Walked:
    """`state_of`, and how much memory it is."""
    done = _Walk(module, instance, words)
    return Walked(done.found, done.kept_bytes)


class _Walk:
    def __init__(
        self,
        module: types.ModuleType,
        instance: torch.nn.Module | None,
        words: frozenset[str],
    ) -> None:
        self.found: dict[str, str] = {}
        self._module = module
        self._globals = vars(module)
        self._seen: set[int] = {id(self._globals), id(vars(builtins))}
        self._compared = frozenset(_compared(instance))
        self._alive: list[Any] = []
        self._contents = Contents()
        queue: deque[tuple[str, Any]] = deque()
        if instance is not None:
            queue.append(("self", instance))
        for name, value in [*self._globals.items()]:
            if not _is_of_warnings(name, value):
                queue.append((name, value))
        if words:
            for owner, kept in kept_elsewhere(module, words):
                queue.extend((f"{owner}.{name}", value) for name, value in kept.items())
        while queue and len(self._seen) < _MOST_OBJECTS:
            way, value = queue.popleft()
            queue.extend(self._visit(way, value))
        if queue or not self._contents.is_complete:
            self.found[BEYOND] = ""

    @property
    def kept_bytes(self) -> int:
        return self._contents.kept_bytes

    def _visit(self, way: str, value: Any) -> Iterator[tuple[str, Any]]:
        kind = type(value)
        if value is None or issubclass(kind, _SCALARS):
            self.found[way] = _scalar(kind, value)
            return
        self.found[way] = kind.__name__
        if id(value) in self._seen or issubclass(kind, _NOBODYS):
            return
        self._seen.add(id(value))
        # An object that was made here must not be freed: another would get its number.
        self._alive.append(value)
        if issubclass(kind, torch.Tensor):
            compared = id(value) in self._compared
            self.found[way] = self._contents.of(value, compared=compared)
            yield from self._items(way, _dictionary(value).items())
        elif issubclass(kind, types.ModuleType):
            return
        elif issubclass(kind, types.FrameType):
            if value.f_globals is self._globals:
                yield from self._items(way, [*value.f_locals.items()])
        elif issubclass(kind, types.FunctionType):
            yield from self._function(way, value)
        elif issubclass(kind, type):
            yield from self._class(way, value)
        elif issubclass(kind, dict):
            yield from self._items(way, dict.items(value))
            yield from self._own(way, value)
        elif issubclass(kind, list | tuple | deque | set | frozenset):
            yield from self._elements(way, value)
        elif issubclass(kind, _SUSPENDED):
            self.found[way] = _place(value)
            held = [v for v in gc.get_referents(value) if not isinstance(v, types.FrameType)]
            yield from ((f"{way}({at})", inner) for at, inner in enumerate(held))
        elif issubclass(kind, types.CellType):
            yield from ((way, inner) for inner in gc.get_referents(value))
        elif kind.__module__.partition(".")[0] == "triton":
            yield from self._items(way, _of_triton(value))
        else:
            yield from self._other(way, value)

    def _function(self, way: str, value: types.FunctionType) -> Iterator[tuple[str, Any]]:
        if self._stands_elsewhere(value):
            return
        for name, part in (
            ("closure", value.__closure__),
            ("defaults", value.__defaults__),
            ("defaults", value.__kwdefaults__),
            ("attributes", vars(value)),
        ):
            yield f"{way}.{name}", part

    def _class(self, way: str, value: type) -> Iterator[tuple[str, Any]]:
        if not self._is_foreign(value):
            held = [*type.__dict__["__dict__"].__get__(value).items()]
            hidden = ("__dict__", "__weakref__", "__doc__", "__module__", "__abstractmethods__")
            yield from ((f"{way}.{name}", item) for name, item in held if name not in hidden)
            yield from ((f"{way}.{base.__name__}", base) for base in value.__bases__)

    def _is_foreign(self, value: type) -> bool:
        """A class that stands where it says it does, outside of the candidate's text, or is none of Python's."""
        if not value.__flags__ & _MADE_AT_RUN_TIME:
            return True
        return self._stands_elsewhere(value)

    def _stands_elsewhere(self, value: type | types.FunctionType) -> bool:
        there: Any = sys.modules.get(str(value.__module__))
        for name in str(value.__qualname__).split("."):
            there = getattr(there, "__dict__", {}).get(name)
        return there is value and value.__module__ != self._module.__name__

    def _elements(self, way: str, value: Any) -> Iterator[tuple[str, Any]]:
        base = next(b for b in _SEQUENCES if isinstance(value, b))
        elements = [*base.__iter__(value)]
        if all(type(element) in _PLAIN for element in elements):
            self.found[way] = hashlib.blake2b(repr(elements).encode()).hexdigest()
        else:
            yield from ((f"{way}[{at}]", item) for at, item in enumerate(elements))
        if type(value) is not base:
            yield from self._own(way, value)

    def _items(self, way: str, items: Any) -> Iterator[tuple[str, Any]]:
        for at, (key, item) in enumerate([*items]):
            named = issubclass(type(key), str) and str.isidentifier(key)
            yield (f"{way}.{key}" if named else f"{way}[{at}]"), item
            if not named:
                yield f"{way}[key {at}]", key

    def _own(self, way: str, value: Any) -> Iterator[tuple[str, Any]]:
        """What else an object holds."""
        held = _dictionary(value)
        yield from self._items(way, held.items())
        known = {id(held), *map(id, held.values())}
        for at, inner in enumerate(gc.get_referents(value)):
            if id(inner) not in known and not issubclass(type(inner), type):
                yield f"{way}({at})", inner

    def _other(self, way: str, value: Any) -> Iterator[tuple[str, Any]]:
        kind = type(value)
        if (kind.__module__, kind.__name__) in (("numpy", "ndarray"), ("array", "array")):
            self.found[way] = hashlib.blake2b(value.tobytes()).hexdigest()
        elif issubclass(kind, functools._lru_cache_wrapper):
            told = functools._lru_cache_wrapper.cache_info(value)
            self.found[way] = f"{told.misses} {told.currsize}"
        elif kind.__module__ in _ITERATING and self._is_foreign(kind):
            yield from _reduced(way, value)
        yield from self._own(way, value)


def _compared(instance: torch.nn.Module | None) -> Iterator[int]:
    """Identities of what the judge compares with the reference's state after each call."""
    if instance is None:
        return
    for part in torch.nn.Module.modules(instance):
        held = _dictionary(part)
        apart = held.get("_non_persistent_buffers_set", set())
        for name, tensor in [
            *held.get("_parameters", {}).items(),
            *held.get("_buffers", {}).items(),
        ]:
            if tensor is not None and name not in apart:
                yield id(tensor)


def _scalar(kind: type, value: Any) -> str:
    for plain in _SCALARS:
        if issubclass(kind, plain):
            shown: Any = plain.__repr__
            return f"{kind.__name__} {shown(value)}"
    return kind.__name__


def _dictionary(value: Any) -> dict[str, Any]:
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return held if type(held) is dict else {}


def _place(value: Any) -> str:
    """How far a generator or a coroutine is; what it holds, and what it yields from, is among its referents."""
    frames = (getattr(value, name, None) for name in ("gi_frame", "cr_frame", "ag_frame"))
    frame = next((f for f in frames if f is not None), None)
    return "ended" if frame is None else f"at {frame.f_lasti}"


def _is_of_warnings(name: str, value: Any) -> bool:
    """Python's own note of the warnings that came from a text."""
    return name == "__warningregistry__" and type(value) is dict


def _of_triton(value: Any) -> list[tuple[str, Any]]:
    """The attributes of an object of Triton's, but for what Triton writes into it when it is launched."""
    from triton import compiler

    found = []
    for name, item in [*_dictionary(value).items()]:
        cached = isinstance(vars(type(value)).get(name), functools.cached_property)
        of_a_launch = name in _LAUNCHES_WRITE.get(type(value).__name__, frozenset())
        # Its own functions too are noted in a kernel when it is launched first.
        if not (cached or of_a_launch or (item is not None and item is vars(compiler).get(name))):
            found.append((name, item))
    return found


def _reduced(way: str, value: Any) -> Iterator[tuple[str, Any]]:
    """What an iterator of the library has left, and how far it is."""
    reduce: Any = type(value).__reduce__
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            told = reduce(value)
        except (TypeError, AttributeError):
            return
    if isinstance(told, tuple):
        yield from ((f"{way}(left {at})", part) for at, part in enumerate(told[1:]))


def _named(way: str) -> str:
    """The shortest beginning of a way that a reader finds in the text."""
    inner = re.sub(r"\._(buffers|modules|parameters)\.", ".", way)
    return re.sub(r"(\.(closure|defaults|attributes)\b)?([\[(].*)?$", "", inner)
