"""What a candidate keeps between calls, as it is: everything that is reachable from its text and its module.

Counters and iterators, caches and buffers look like many things in a text; between two calls they differ in
the same way. Nothing of the candidate's own is called: values are read as the interpreter holds them.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import re
import sys
import types
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import torch

_MOST_OBJECTS = 50_000
_MOST_BYTES = 64 << 20
"""Of tensors; of what is beyond, the ends are compared."""
_END_BYTES = 1 << 16
_SHOWN = 6
_SCALARS: tuple[type, ...] = (bool, int, float, complex, str, bytes, bytearray, range, slice)
_NOBODYS = (torch.dtype, torch.device, torch.layout, torch.memory_format, types.CodeType)
_ITERATING = frozenset(
    {"builtins", "itertools", "collections", "_collections", "random", "_random"}
)
"""Modules whose objects tell what is left in them by `__reduce__`."""
_MADE_AT_RUN_TIME = 1 << 9
"""A flag of classes that a `class` statement may have made (`Py_TPFLAGS_HEAPTYPE`)."""

State = Mapping[str, str]
"""By the way to it, what stands there."""


def changed(before: State, after: State) -> tuple[str, ...]:
    """What differs, in the text's own names; a few of many."""
    ways = [way for way in {**before, **after} if before.get(way) != after.get(way)]
    return tuple(dict.fromkeys(_named(way) for way in ways))[:_SHOWN]


def state_of(module: types.ModuleType, instance: torch.nn.Module | None) -> State:
    """Everything that outlives a call; parameters and saved buffers are compared with the reference's instead."""
    return _Walk(module, instance).found


class _Walk:
    def __init__(self, module: types.ModuleType, instance: torch.nn.Module | None) -> None:
        self.found: dict[str, str] = {}
        self._module = module
        self._globals = vars(module)
        self._seen: set[int] = set(_compared(instance))
        self._alive: list[Any] = []
        self._bytes = 0
        queue: deque[tuple[str, Any]] = deque()
        for name, value in [*self._globals.items()]:
            if not (name.startswith("__") and name.endswith("__")):
                queue.append((name, value))
        if instance is not None:
            queue.append(("self", instance))
        while queue and len(self._seen) < _MOST_OBJECTS:
            way, value = queue.popleft()
            queue.extend(self._visit(way, value))

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
            self.found[way] = self._tensor(value)
        elif issubclass(kind, types.ModuleType):
            return
        elif issubclass(kind, types.FunctionType):
            yield from self._function(way, value)
        elif issubclass(kind, type):
            yield from self._class(way, value)
        elif issubclass(kind, dict):
            yield from self._items(way, dict.items(value))
            yield from self._own(way, value)
        elif issubclass(kind, list | tuple | deque):
            yield from ((f"{way}[{at}]", item) for at, item in enumerate(kind.__iter__(value)))
            yield from self._own(way, value)
        elif issubclass(kind, set | frozenset):
            self.found[way] = str(sorted(_scalar(type(v), v) for v in set(value)))
        elif issubclass(kind, types.GeneratorType):
            yield from _generator(way, value, self.found)
        elif issubclass(kind, types.CellType):
            yield from ((way, inner) for inner in gc.get_referents(value))
        elif kind.__module__.partition(".")[0] == "triton":
            yield from _added(way, value)
        else:
            yield from self._other(way, value)

    def _function(self, way: str, value: types.FunctionType) -> Iterator[tuple[str, Any]]:
        if value.__globals__ is not self._globals:
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
        there: Any = sys.modules.get(str(value.__module__))
        for name in str(value.__qualname__).split("."):
            there = getattr(there, "__dict__", {}).get(name)
        return there is value and value.__module__ != self._module.__name__

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

    def _tensor(self, value: torch.Tensor) -> str:
        plain = value.detach()
        form = f"{plain.dtype} {tuple(plain.shape)}"
        if plain.is_meta or plain.layout != torch.strided or not plain.numel():
            return form
        flat = plain.contiguous().reshape(-1).view(torch.uint8)
        self._bytes += flat.numel()
        if self._bytes > _MOST_BYTES:
            flat = torch.cat([flat[:_END_BYTES], flat[-_END_BYTES:]])
        digest = hashlib.blake2b(flat.cpu().numpy().tobytes()).hexdigest()
        return f"{form} {digest}"


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


def _generator(
    way: str, value: types.GeneratorType[Any, Any, Any], found: dict[str, str]
) -> Iterator[tuple[str, Any]]:
    frame = value.gi_frame
    found[way] = "ended" if frame is None else f"at {frame.f_lasti}"
    if frame is not None:
        yield from ((f"{way}.{name}", inner) for name, inner in frame.f_locals.items())


def _added(way: str, kernel: Any) -> Iterator[tuple[str, Any]]:
    """Attributes that a kernel has and Triton's own have not; what Triton keeps in one is its business."""
    from triton.language import standard

    usual = vars(standard.cdiv)
    for name, item in [*_dictionary(kernel).items()]:
        # Triton notes some of its own functions in a kernel when it is launched first.
        of_triton = str(getattr(item, "__module__", "")).partition(".")[0] == "triton"
        if type(kernel) is type(standard.cdiv) and name not in usual and not of_triton:
            yield f"{way}.{name}", item


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
        yield from ((f"{way}({at})", part) for at, part in enumerate(told[1:]))


def _named(way: str) -> str:
    """The shortest beginning of a way that a reader finds in the text."""
    inner = re.sub(r"\._(buffers|modules|parameters)\.", ".", way)
    return re.sub(r"(\.(closure|defaults|attributes)\b)?([\[(].*)?$", "", inner)
