"""What an object holds that is written in C: what Python's own attributes do not show of it.

Methods are taken from the class that was written in C, so that nothing of a candidate's own class is called.
"""

from __future__ import annotations

import _random
import array
import contextvars
import functools
import hashlib
import marshal
import operator
import re
import struct
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

_POINTER = struct.calcsize("P")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_SHORT = 32
_FORMAT = 2
"""Of `marshal`: exact for numbers of every size and for every NaN, and without a note of who shares what."""
_BY_THEIR_WORDS = (
    *(torch.dtype, torch.device, torch.layout, torch.memory_format, torch.qscheme),
    *(torch.finfo, torch.iinfo),
)
_HOLDING_NOTHING = re.compile(
    "PyCapsule|_abc_data|ellipsis|NotImplementedType|_lru_list_elem|managedbuffer|_localdummy"
    "|pybind11_detail_function_record_.*"
)
"""Names of kinds in which a candidate cannot count: they are parts of others that are looked at."""
_OF_TORCH = (
    *("_CUDAGraph", "_CudaEventBase", "_DispatchModule", "_DispatchOperatorHandle"),
    "FunctionSchema",
)
"""A graph and what an operator is registered with; an event tells when, not how often."""
_NAMED = (
    *(types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType),
    *(types.MethodDescriptorType, types.ClassMethodDescriptorType),
    *(types.GetSetDescriptorType, types.MemberDescriptorType),
)
_BY_WHAT_THEY_REFER_TO: tuple[type, ...] = (
    *(*_NAMED, property, staticmethod, classmethod, super, BaseException),
    *(types.MethodType, types.MappingProxyType),
    *(types.GenericAlias, types.UnionType, types.TracebackType, functools.partial),
    *(operator.itemgetter, operator.attrgetter, operator.methodcaller),
    *(type({}.keys()), type({}.values()), type({}.items())),
)
_PLAIN: dict[type, Callable[[Any], Any]] = {
    int: int.__int__,
    float: float.__float__,
    complex: complex.__complex__,
    str: str.__str__,
    bytes: bytes.__bytes__,
}


@dataclass(frozen=True)
class Held:
    """What was read of one object."""

    value: str = ""
    parts: tuple[Any, ...] = ()
    """Objects that are looked at in their turn."""


def digest(value: bytes) -> str:
    return (
        hashlib.blake2b(value, digest_size=16).hexdigest() if len(value) > _SHORT else value.hex()
    )


def plain(values: Any) -> str:
    """Of numbers, texts and bytes of Python's own classes, or of a list of them: all that they are."""
    return digest(marshal.dumps(values, _FORMAT))


def number_or_text(value: Any) -> str | None:
    """Of an instance of a class that is made from Python's numbers, texts or bytes; None of others."""
    # `isinstance` would ask the object too, by its `__class__`.
    own = type(value)
    for kind, exact in _PLAIN.items():
        if issubclass(own, kind):
            return plain(exact(value))
    if issubclass(own, bytearray):
        return digest(bytes(bytearray.__add__(value, b"")))
    return None


def name_of(kind: type) -> str:
    """A class's, as it has it, whatever a class of the candidate's makes of the word."""
    name: str = type.__dict__["__name__"].__get__(kind)
    return name


def path_of(value: type | types.FunctionType) -> str:
    """Where a class or a function says that it stands in its module."""
    own = type.__dict__["__qualname__"]
    path: str = own.__get__(value) if issubclass(type(value), type) else value.__qualname__
    return path


def module_of(value: type | types.FunctionType) -> str:
    """Which module a class or a function says that it is of; nothing where that is no name."""
    is_class = issubclass(type(value), type)
    try:
        reported = type.__dict__["__module__"].__get__(value) if is_class else value.__module__
    except AttributeError:
        return ""
    return reported if type(reported) is str else ""


def members_of(kind: type) -> list[tuple[str, Any]]:
    """Slots and other fields, whose values their descriptors give."""
    return [
        (name, item)
        for part in type.__dict__["__mro__"].__get__(kind)
        for name, item in _attributes(part).items()
        if type(item) is types.MemberDescriptorType
    ]


def written_in_c(kind: type) -> type | None:
    """The class among a class's bases that keeps more than its slots, its attributes and its references show."""
    while kind is not object:
        base = type.__dict__["__base__"].__get__(kind)
        held = _attributes(kind)
        shown = sum(type(item) is types.MemberDescriptorType for item in held.values())
        shown += ("__dict__" in held) + ("__weakref__" in held)
        own = _size(kind) - _size(base)
        if own > shown * _POINTER:
            return kind
        kind = base
    return None


def read(value: Any, written: type, *, is_foreign: bool) -> Held | None:
    """What an object of a class that is `written` in C holds; None where nothing tells it.

    `is_foreign`: its class is not the candidate's, so that its own methods may be called.
    """
    if issubclass(written, _BY_THEIR_WORDS):
        return Held(repr(value))
    if issubclass(written, _BY_WHAT_THEY_REFER_TO):
        return Held(_name(value))
    if _HOLDING_NOTHING.fullmatch(written.__name__) or issubclass(type(value), _of_torch()):
        return Held()
    reader = next((r for kind, r in _readers() if issubclass(written, kind)), None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return (
                _reduced(value, written, is_foreign=is_foreign) if reader is None else reader(value)
            )
        except Exception:  # noqa: BLE001 - whatever a class of any library raises that tells nothing of itself
            return None


def _name(value: Any) -> str:
    """Of a function or a descriptor that is written in C; nothing of others, whose parts are looked at."""
    if not issubclass(type(value), _NAMED):
        return ""
    owner = getattr(value, "__objclass__", None)
    # A candidate's own class, whose words could be its own as well, has descriptors of its slots.
    if owner is not None:
        return f"{name_of(owner)} {value.__name__}"
    place = getattr(value, "__module__", None)
    return f"{place if type(place) is str else ''} {value.__qualname__}"


def _reduced(value: Any, written: type, *, is_foreign: bool) -> Held | None:
    """What it would be pickled as."""
    plainly: Any = object
    of_c: Any = written
    call: Callable[[], Any]
    if is_foreign:
        of_all: Any = type(value)
        call = partial(of_all.__reduce_ex__, value, 4)
    elif of_c.__reduce_ex__ is not plainly.__reduce_ex__:
        call = partial(of_c.__reduce_ex__, value, 4)
    elif of_c.__reduce__ is not plainly.__reduce__:
        call = partial(of_c.__reduce__, value)
    elif of_c.__getstate__ is not plainly.__getstate__:
        call = partial(of_c.__getstate__, value)
    else:
        return None
    reported = call()
    return Held(parts=reported if isinstance(reported, tuple) else (reported,))


def _of_memory(value: Any) -> Held:
    try:
        form = f"{value.format} {value.shape} {value.strides} {value.readonly}"
    except ValueError:
        return Held("released")
    return Held(f"{form} {digest(value.tobytes())}", (value.obj,))


def _of_pattern(value: Any) -> Held:
    return Held(f"{value.flags}", (value.pattern,))


def _of_match(value: Any) -> Held:
    return Held(f"{value.regs} {value.pos} {value.endpos}", (value.string, value.re))


def _of_cache(value: Any) -> Held:
    reported = functools._lru_cache_wrapper.cache_info(value)
    return Held(f"{reported.misses} {reported.currsize}")


def _of_lock(kind: Any) -> Callable[[Any], Held]:
    return lambda value: Held(_ADDRESS.sub("", kind.__repr__(value)))


def _of_array(value: Any) -> Held:
    own = array.array
    kind: Any = vars(own)["typecode"].__get__(value)
    return Held(f"{kind} {digest(own.tobytes(value))}")


def _of_storage(value: Any) -> Held:
    device = vars(torch._C.StorageBase)["device"].__get__(value)
    whole = torch.empty(0, dtype=torch.uint8, device=device)
    return Held(parts=(whole.set_(value),))


def _of_stream(value: Any) -> Held:
    return Held(f"{value.device_type} {value.device_index} {value.stream_id}")


_LOCK, _TAKEN_AGAIN = threading.Lock(), threading.RLock()
_READERS: tuple[tuple[type, Callable[[Any], Held]], ...] = (
    (memoryview, _of_memory),
    (array.array, _of_array),
    (range, lambda v: Held(plain([v.start, v.stop, v.step]))),
    (re.Pattern, _of_pattern),
    (re.Match, _of_match),
    (functools._lru_cache_wrapper, _of_cache),
    (weakref.ref, lambda v: Held(parts=(weakref.ref.__call__(v),))),
    (contextvars.ContextVar, lambda v: Held(parts=(contextvars.ContextVar.get(v, None),))),
    (type(_LOCK), _of_lock(type(_LOCK))),
    (type(_TAKEN_AGAIN), _of_lock(type(_TAKEN_AGAIN))),
    (_random.Random, lambda v: Held(parts=(_random.Random.getstate(v),))),
    (threading.local, lambda v: Held(parts=(threading.local.__getattribute__(v, "__dict__"),))),
    (torch.Generator, lambda v: Held(parts=(torch.Generator.get_state(v),))),
    (torch._C.StorageBase, _of_storage),
    (torch.Stream, _of_stream),
)


@functools.cache
def _of_torch() -> tuple[type, ...]:
    """Those that this build of torch has."""
    known = (getattr(torch._C, name, None) for name in _OF_TORCH)
    return (torch.Event, *(kind for kind in known if isinstance(kind, type)))


def _readers() -> tuple[tuple[type, Callable[[Any], Held]], ...]:
    return (*_READERS, *_of_numpy(), *_of_ctypes())


def _of_numpy() -> Sequence[tuple[type, Callable[[Any], Held]]]:
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        return ()

    def of_array(value: Any) -> Held:
        own = numpy.ndarray
        kind, base = own.dtype.__get__(value), own.base.__get__(value)
        form = f"{kind} {own.shape.__get__(value)} {own.strides.__get__(value)}"
        if issubclass(type(base), own):
            form += f" {own.ctypes.__get__(value).data - own.ctypes.__get__(base).data}"
        if kind.hasobject:
            return Held(form, (base, own.tolist(value)))
        return Held(f"{form} {digest(own.tobytes(value))}", (base,))

    def of_scalar(value: Any) -> Held:
        own = numpy.generic
        return Held(f"{own.dtype.__get__(value)} {digest(own.tobytes(value))}")

    return (
        (numpy.ndarray, of_array),
        (numpy.generic, of_scalar),
        (numpy.ufunc, lambda v: Held(v.__name__)),
        (numpy.flatiter, lambda v: Held(f"{v.index}", (v.base,))),
    )


def _of_ctypes() -> Sequence[tuple[type, Callable[[Any], Held]]]:
    known: Any = sys.modules.get("_ctypes")
    if known is None:
        return ()
    data = known._SimpleCData.__mro__[1]
    return ((data, lambda v: Held(digest(memoryview(v).tobytes()))),)


def _attributes(kind: type) -> types.MappingProxyType[str, Any]:
    held: types.MappingProxyType[str, Any] = type.__dict__["__dict__"].__get__(kind)
    return held


def _size(kind: type) -> int:
    size: int = type.__dict__["__basicsize__"].__get__(kind)
    return size
