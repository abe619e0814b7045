"""Reads single words of CPython's objects where they lie: has this dictionary or function changed since?

Looking at a hundred thousand objects in the usual way counts references to them and so copies every page of
memory that forked processes share, 0.3 s for each candidate. CPython up to 3.13 numbers every state of a
dictionary (PEP 509, withdrawn by PEP 699 for later versions), and a function's code and defaults stand
side by side. Where these words stand is tried at import, never assumed; where they are not found, all
counts as changed and is compared in the usual way.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

_WORD = 8
_FIRST_PAGE = 4096
_words_of_memory: Any = ctypes.c_uint64 * ((1 << 44) - _FIRST_PAGE // _WORD)
_MEMORY: NDArray[np.uint64] = np.frombuffer(_words_of_memory.from_address(_FIRST_PAGE), np.uint64)
"""All that a process can address, by words: thousands of them are read at once where only those are touched."""
_MEMORY.flags.writeable = False
# Not `ctypes.string_at`: it raises an audit event, which the process of a candidate listens to.
_bytes_at = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)(
    ("PyBytes_FromStringAndSize", ctypes.pythonapi)
)


class Words:
    """The same words of many objects, which the caller keeps alive."""

    def __init__(self, objects: Iterable[Any], first: int | None, count: int = 1) -> None:
        """`first`: of the words that are read, counted from the object's beginning; None: not known."""
        addresses = np.fromiter(map(id, objects), np.int64)
        self._known = first is not None
        self._count = len(addresses)
        words = (addresses - _FIRST_PAGE) // _WORD + (first or 0)
        self._places = words[:, None] + np.arange(count)
        self._before = self._read()

    def changed(self) -> Sequence[int]:
        """Which of the objects, by number, may have changed since they were last noted."""
        if not self._known:
            return range(self._count)
        others: list[int] = (self._read() != self._before).any(1).nonzero()[0].tolist()
        return others

    def note(self) -> None:
        """From here on a change counts."""
        self._before = self._read()

    def _read(self) -> NDArray[np.uint64]:
        return _MEMORY[self._places] if self._known else _MEMORY[:0]


def words_of_namespaces(owners: Iterable[ModuleType | type]) -> Words:
    """Of what stands in each module and class, whichever way it was put there."""
    return Words(map(_dictionary, owners), _VERSION)


def words_of_functions(functions: Iterable[FunctionType]) -> Words:
    """Of each one's code, defaults and keyword defaults.

    The caller keeps these alive too: what is freed may give its place to the next.
    """
    return Words(functions, _CODE, 3)


def words_of_codes(functions: Iterable[FunctionType]) -> Words:
    """Of each one's code, which the caller keeps alive too."""
    return Words(functions, _CODE)


def _dictionary(owner: ModuleType | type) -> Mapping[str, Any]:
    namespace = vars(owner)
    if type(namespace) is dict:
        return namespace
    # A class shows a read-only view of its dictionary (of a subclass of `dict` where it is one of ctypes').
    (inner,) = (thing for thing in gc.get_referents(namespace) if isinstance(thing, dict))
    return inner


def _words(thing: object, count: int) -> list[int]:
    raw = _bytes_at(id(thing), count * _WORD)
    return [int.from_bytes(raw[at : at + _WORD], sys.byteorder) for at in range(0, len(raw), _WORD)]


def _version() -> int | None:
    """The word of a dictionary that every way to change it changes, and reading it does not."""

    class Kind:
        name = 1

    module = ModuleType("module")
    vars(module)["name"] = 1
    changes: tuple[Callable[[Any], Any], ...] = (
        lambda owner: setattr(owner, "name", object()),
        lambda owner: setattr(owner, "other", 1),
        lambda owner: delattr(owner, "other"),
    )
    below: tuple[Callable[[dict[str, Any]], Any], ...] = (
        lambda held: held.__setitem__("name", object()),
        lambda held: held.update(name=object()),
        lambda held: held.setdefault("more", 1),
        lambda held: held.pop("more"),
        lambda held: held.clear(),
    )
    count = dict.__basicsize__ // _WORD
    left = set(range(count))
    for owner in (Kind, module):
        held = _dictionary(owner)
        for change in changes:
            before = _words(held, count)
            change(owner)
            left &= _different(before, _words(held, count))
    namespace: dict[str, Any] = {"name": 1}
    for alter in below:
        before = _words(namespace, count)
        alter(namespace)
        left &= _different(before, _words(namespace, count))
    before = _words(namespace, count)
    namespace.get("name")
    left -= _different(before, _words(namespace, count))
    return left.pop() if len(left) == 1 else None


def _different(before: Sequence[int], after: Sequence[int]) -> set[int]:
    return {
        at for at, (first, other) in enumerate(zip(before, after, strict=True)) if first != other
    }


def _code() -> int | None:
    """The first of the three words of a function that hold its code and its defaults."""

    def function(first: object = 1, *, second: object = 2) -> tuple[object, object]:
        return first, second

    parts = (function.__code__, function.__defaults__, function.__kwdefaults__)
    wanted = [id(part) for part in parts]
    words = _words(function, function.__sizeof__() // _WORD)
    places = [at for at in range(len(words)) if words[at : at + 3] == wanted]
    return places[0] if len(places) == 1 else None


_VERSION = _version()
_CODE = _code()
