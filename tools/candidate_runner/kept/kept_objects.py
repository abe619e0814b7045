"""A walk over everything that is reachable from a candidate's text and its module: what is kept, and which object it is."""

from __future__ import annotations

import builtins
import functools
import gc
import sys
import types
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from kernelagent.tools.candidate_runner.kept.kept_elsewhere import kept_elsewhere
from kernelagent.tools.candidate_runner.kept.kept_tensors import Contents
from kernelagent.tools.candidate_runner.kept.kept_values import (
    digest,
    members_of,
    module_of,
    name_of,
    number_or_text,
    path_of,
    plain,
    read,
    written_in_c,
)

_MOST_OBJECTS = 300_000
_PLAIN = frozenset(map(id, (bool, int, float, complex, str, bytes, type(None))))
"""By identity, as all classes here: a class of the candidate's may have a hash of its own kind."""
_ONE_OF_A_KIND = frozenset({id(bool), id(type(None))})
_LAUNCHES_WRITE: Mapping[str, frozenset[str]] = {
    "JITFunction": frozenset("device_caches hash used_global_vals _hash_lock".split()),
    "Autotuner": frozenset("cache best_config nargs bench_time configs_timings restore_copies".split()),
}  # fmt: skip
"""By class of Triton's."""
_SEQUENCES: tuple[Any, ...] = (list, tuple, deque, set, frozenset)
_SUSPENDED = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
_MADE_AT_RUN_TIME = 1 << 9
"""A flag of classes that a `class` statement may have made (`Py_TPFLAGS_HEAPTYPE`)."""
_STREAMS = ("__stdin__", "__stdout__", "__stderr__")
"""Of the process: what went there before tells a candidate nothing."""
_HIDDEN = ("__dict__", "__weakref__", "__abstractmethods__")


class Objects:
    """By the way to it, each thing's value and which object it is."""

    def __init__(
        self,
        module: types.ModuleType,
        instance: torch.nn.Module | None,
        words: frozenset[str],
    ) -> None:
        self.values: dict[str, str] = {}
        self.objects: dict[str, int] = {}
        self.orders: dict[str, tuple[str, ...]] = {}
        self.not_read: list[str] = []
        self._module = module
        self._globals = vars(module)
        self._imported = {id(known) for known in [*sys.modules.values()]}
        self._seen: set[int] = {id(self._globals), id(vars(builtins))}
        self._streams = {id(getattr(sys, name)): name for name in _STREAMS}
        self._again: dict[str, int] = {}
        self._compared = frozenset(_compared(instance))
        self._counts_versions = "_version" in words
        self._written: dict[int, type | None] = {}
        self._members: dict[int, list[tuple[str, Any]]] = {}
        # An object that was made here must not be freed: another would get its number.
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
            queue.extend(self._visit(self._own_way(way), value))
        self.is_complete = not queue and self._contents.is_complete

    @property
    def kept_bytes(self) -> int:
        """Of tensors that the judge does not compare with the reference's."""
        return self._contents.kept_bytes

    def _own_way(self, way: str) -> str:
        """Nothing else stands there: an attribute and a key may have one name."""
        if way not in self.objects:
            return way
        self._again[way] = self._again.get(way, 0) + 1
        return f"{way}(again {self._again[way]})"

    def _visit(self, way: str, value: Any) -> Iterable[tuple[str, Any]]:
        kind = type(value)
        known = id(value)
        self.objects[way] = known
        self._alive.append(value)
        if id(kind) in _PLAIN:
            self.values[way] = f"{kind.__name__} {plain(value)}"
            return ()
        self.values[way] = name_of(kind)
        if known in self._seen:
            return ()
        self._seen.add(known)
        if known in self._streams:
            self.values[way] = self._streams[known]
            return ()
        # By far the most where a text names `sys.modules`.
        if kind is types.ModuleType and known in self._imported:
            self.values[way] += _reported_name(value)
            return ()
        return self._inside(way, value, kind)

    def _inside(self, way: str, value: Any, kind: type) -> Iterator[tuple[str, Any]]:
        """Everything that an object of no plain class holds, which is seen for the first time."""
        if issubclass(kind, types.ModuleType):
            yield from self._of_a_module(way, value)
        elif issubclass(kind, torch.Tensor):
            yield from self._tensor(way, value)
        elif issubclass(kind, types.FrameType):
            if value.f_globals is self._globals:
                yield from self._items(way, [*value.f_locals.items()])
        elif issubclass(kind, types.FunctionType):
            yield from self._function(way, value)
        elif issubclass(kind, types.CodeType):
            names = [value.co_name, value.co_firstlineno, *value.co_names, *value.co_varnames]
            self.values[way] = digest(value.co_code) + plain(names)
            yield f"{way}(constants)", value.co_consts
        elif issubclass(kind, type):
            yield from self._class(way, value)
        elif issubclass(kind, dict):
            yield from self._keys(way, value)
            yield from self._own(way, value)
        elif issubclass(kind, list | tuple | deque | set | frozenset):
            yield from self._elements(way, value)
        elif issubclass(kind, _SUSPENDED):
            self.values[way] = _place(value)
            held = [v for v in gc.get_referents(value) if not isinstance(v, types.FrameType)]
            yield from ((f"{way}({at})", inner) for at, inner in enumerate(held))
        elif issubclass(kind, types.CellType):
            yield from ((f"{way}(held)", inner) for inner in gc.get_referents(value))
        elif module_of(kind).partition(".")[0] == "triton" and self._is_foreign(kind):
            yield from self._items(way, _of_triton(value))
        elif (reported := number_or_text(value)) is not None:
            self.values[way] += f" {reported}"
            yield from self._own(way, value)
        else:
            yield from self._in_c(way, value)
            yield from self._own(way, value)

    def _tensor(self, way: str, value: torch.Tensor) -> Iterator[tuple[str, Any]]:
        self.values[way] = self._contents.of(value, compared=id(value) in self._compared)
        memory = self._contents.memory_of(value)
        if memory is not None:
            self.objects[f"{way}(memory)"] = memory
        if self._counts_versions and not value.is_inference():
            self.values[way] += f" {value._version}"
        yield from self._items(way, _dictionary(value).items())
        if value.is_leaf and value.grad is not None:
            yield f"{way}.grad", value.grad

    def _of_a_module(self, way: str, value: types.ModuleType) -> Iterator[tuple[str, Any]]:
        """Of one that was made and not imported, what it holds."""
        self.values[way] += _reported_name(value)
        if type(value) is types.ModuleType:
            yield from self._items(way, [*_dictionary(value).items()])

    def _function(self, way: str, value: types.FunctionType) -> Iterator[tuple[str, Any]]:
        self.values[way] += f" {value.__qualname__}"
        if self._stands_elsewhere(value):
            self.values[way] += f" {module_of(value)}"
            return
        for name, part in (
            ("closure", value.__closure__),
            ("defaults", value.__defaults__),
            ("defaults", value.__kwdefaults__),
            ("attributes", vars(value)),
            ("attributes(text)", value.__doc__),
            ("attributes(module)", value.__module__),
            ("attributes(annotations)", value.__annotations__),
            ("code", value.__code__),
        ):
            yield f"{way}.{name}", part

    def _class(self, way: str, value: type) -> Iterator[tuple[str, Any]]:
        self.values[way] += f" {name_of(value)} {path_of(value)}"
        if self._is_foreign(value):
            self.values[way] += f" {module_of(value)}"
            return
        held = type.__dict__["__dict__"].__get__(value)
        yield from self._items(way, [(n, i) for n, i in held.items() if n not in _HIDDEN])
        for base in type.__dict__["__bases__"].__get__(value):
            yield f"{way}.{name_of(base)}", base
        if not self._is_foreign(type(value)):
            yield f"{way}.__class__", type(value)

    def _is_foreign(self, value: type) -> bool:
        """A class that stands where it says it does, outside of the candidate's text, or is none of Python's."""
        if not type.__dict__["__flags__"].__get__(value) & _MADE_AT_RUN_TIME:
            return True
        return self._stands_elsewhere(value)

    def _stands_elsewhere(self, value: type | types.FunctionType) -> bool:
        place = module_of(value)
        there: Any = sys.modules.get(place)
        for name in path_of(value).split("."):
            there = getattr(there, "__dict__", {}).get(name)
        return there is value and place != self._module.__name__

    def _elements(self, way: str, value: Any) -> Iterator[tuple[str, Any]]:
        base = next(b for b in _SEQUENCES if issubclass(type(value), b))
        elements = [*base.__iter__(value)]
        if all(id(type(element)) in _PLAIN for element in elements):
            self._plain_elements(way, elements)
        else:
            yield from ((f"{way}[{at}]", item) for at, item in enumerate(elements))
        if type(value) is not base:
            yield from self._own(way, value)

    def _plain_elements(self, way: str, elements: list[Any]) -> None:
        first: dict[int, int] = {}
        same = [first.setdefault(id(element), at) for at, element in enumerate(elements)]
        self.values[way] += f" {plain(elements)} {plain(same)}"
        self._alive.extend(elements)
        for known, at in first.items():
            if id(type(elements[at])) not in _ONE_OF_A_KIND:
                self.objects[f"{way}[{at}]"] = known

    def _keys(self, way: str, value: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
        items = [*dict.items(value)]
        yield from self._items(way, items)
        if issubclass(type(value), OrderedDict):
            # Its own order is another than the dictionary's that it is made of.
            at = {id(key): str(place) for place, (key, _) in enumerate(items)}
            self.orders[way] = tuple(at[id(key)] for key in OrderedDict.__iter__(value))

    def _items(self, way: str, items: Any) -> Iterator[tuple[str, Any]]:
        names = []
        for at, (key, item) in enumerate([*items]):
            named = type(key) is str and key.isidentifier()
            yield (f"{way}.{key}" if named else f"{way}[{at}]"), item
            if named:
                names.append(key)
                self.objects[self._own_way(f"{way}(key {key})")] = id(key)
            else:
                yield f"{way}[key {at}]", key
        if len(names) > 1:
            self.orders[way] = tuple(names)

    def _own(self, way: str, value: Any) -> Iterator[tuple[str, Any]]:
        """What an object holds besides what its class is made from."""
        kind = type(value)
        held = _dictionary(value)
        yield from self._items(way, held.items())
        counter = Counter([id(held), *map(id, held.values())])
        for name, member in self._members_of(kind):
            try:
                inner = member.__get__(value)
            except AttributeError:
                # A slot without a value.
                continue
            counter[id(inner)] += 1
            yield f"{way}.{name}", inner
        for at, inner in enumerate(gc.get_referents(value)):
            if counter[id(inner)]:
                counter[id(inner)] -= 1
            elif not issubclass(type(inner), type):
                yield f"{way}({at})", inner
        if not self._is_foreign(kind):
            yield f"{way}.__class__", kind

    def _members_of(self, kind: type) -> list[tuple[str, Any]]:
        if id(kind) not in self._members:
            self._members[id(kind)] = members_of(kind)
        return self._members[id(kind)]

    def _in_c(self, way: str, value: Any) -> Iterator[tuple[str, Any]]:
        """What of an object Python's own attributes do not show."""
        kind = type(value)
        # What an object is pickled as says whether it has a dictionary yet: looking at it makes one.
        _dictionary(value)
        if id(kind) not in self._written:
            self._written[id(kind)] = written_in_c(kind)
        written = self._written[id(kind)]
        if written is None:
            if kind is object:
                # Nothing tells two of them apart but which they are.
                self.values[way] += f" {id(value)}"
            return
        reported = read(value, written, is_foreign=self._is_foreign(kind))
        if reported is None:
            self.not_read.append(way)
            return
        self.values[way] += f" {reported.value}"
        yield from ((f"{way}(part {at})", part) for at, part in enumerate(reported.parts))


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


def _reported_name(module: types.ModuleType) -> str:
    return f" {_dictionary(module).get('__name__')}"


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

    result = []
    for name, item in [*_dictionary(value).items()]:
        cached = isinstance(vars(type(value)).get(name), functools.cached_property)
        of_a_launch = name in _LAUNCHES_WRITE.get(type(value).__name__, frozenset())
        # Its own functions too are noted in a kernel when it is launched first.
        if not (cached or of_a_launch or (item is not None and item is vars(compiler).get(name))):
            result.append((name, item))
    return result
