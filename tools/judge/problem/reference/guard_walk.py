"""What the emitted module will compare of a reference, and what of that walk no comparison sees.

The walk is the emitted module's own (`_Contents` in `kernelagent/dropin/template/dropin.py`), so that what is
told here is what goes unnoticed there. That file is read as data, as kernelagent-runtime reads it: it stands above
the judge, and nothing of it is imported.
"""

from __future__ import annotations

import importlib.util
import inspect
import logging
import re
import sys
import threading
import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch

import kernelagent

_SECTION = Path(kernelagent.__file__).parent / "dropin" / "template" / "dropin.py"
_OF_NO_CALL = {
    "input_sets": [],
    "modes": ["eval"],
    "state": {},
    "device_types": [],
    "contiguous": True,
}
_OF_AN_OBJECT = object.__basicsize__
_POINTER = 8
_IN_WORDS: tuple[tuple[Any, str], ...] = (
    (ContextVar, "a context variable"),
    (threading.local, "another in each thread"),
    (logging.Logger, "a logger, whose level may be set"),
    (weakref.ReferenceType, "a weak reference"),
    (
        (weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet),
        "a weak registry",
    ),
)
NOTHING_TOLD = ("nothing that can be compared", "without contents")
"""In the emitted module's words: what it cannot compare, and a tensor on meta."""
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}")
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_READ_OF_LOGGERS = frozenset(
    {"isEnabledFor", "getEffectiveLevel", "hasHandlers", "level", "disabled", "handlers"}
)


@dataclass(frozen=True)
class Walk:
    """One walk over a reference."""

    functions: tuple[FunctionType, ...]
    """The user's functions that its forwards reach."""
    left_out: tuple[str, ...]
    """What they reach and no comparison sees: its path and what it is, in words."""


def walk(module: torch.nn.Module) -> Walk:
    """Walk over a module as the emitted one will; nothing of its forwards is run."""
    section = _section()
    try:
        contents = section._Contents(module)
        functions = [o for _, o, name, _ in contents.around.values() if name == "__code__"]
        left_out = dict.fromkeys(_left_out(section, contents))
    except Exception as error:  # noqa: BLE001 - descriptors and look-ups of the user's own may raise anything
        return Walk((), (f"what could not be looked at ({type(error).__name__}: {error})",))
    return Walk(tuple(functions), tuple(left_out))


@dataclass(frozen=True)
class Told:
    """One thing that a forward may read besides parameters and saved buffers, as the emitted module tells it."""

    what: str
    """What it is, in the emitted module's words: under these it is told again elsewhere."""
    text: str
    place: str
    """Path and name of an attribute or buffer; empty for what stands outside of parts and settings."""
    owner: Any
    name: str
    value: Any
    named: bool
    """Whether code that the forwards reach has the name."""


def told(module: torch.nn.Module) -> tuple[Told, ...]:
    """All that the emitted module will compare of these; nothing where `walk` tells that it cannot be looked at."""
    section = _section()
    try:
        contents = section._Contents(module)
        described = section._described(contents)
        return tuple(_told(section, contents, described))
    except Exception:  # noqa: BLE001 - as in `walk`
        return ()


def _told(section: Any, contents: Any, described: Any) -> Iterator[Told]:
    around = {label: (owner, name) for label, owner, name, _ in contents.around.values()}
    fields = {f"{path}.{name}": (owner, name) for path, owner, name, _ in contents.fields}
    parts = {*contents.module.modules()}
    for path, owner, name, value in contents.fields:
        what = f"the attribute {path}.{name}".replace(" .", " ")
        of_a_part = isinstance(owner, torch.nn.Module) and owner in parts
        if ("attribute", what) in described or (of_a_part and section._has_settings(value)):
            # Of an object the class; its fields have rows of their own.
            text = described.get(("attribute", what), section._text(value))
            named = name in contents.names
            yield Told(what, text, f"{path}.{name}", owner, name, value, named)
    for label, owner, name, value in contents.around.values():
        # Of any other object the text has no more than the class; what its fields hold is told apart.
        if section._is_plain(value) or isinstance(value, section._NESTS):
            yield Told(label, described["code", label], "", owner, name, value, named=True)
    for path, part in contents.module.named_modules():
        fields |= {f"{path}.{name}": (part, name) for name in part._buffers}
    for label, tensor in contents.unseen.items():
        place = label if label in fields or label in around else label.rpartition("[")[0]
        owner, name = fields[place] if place in fields else around[place]
        what = f"the tensor {label}".replace(" .", " ")
        text = described["values", what]
        at, named = (place, name in contents.names) if place in fields else ("", True)
        yield Told(what, text, at, owner, name, tensor, named)


def is_alike_everywhere(value: Any, text: str) -> bool:
    """Whether the emitted module's text of a value is the same in another process."""
    return not (_ADDRESS.search(text) or str(getattr(value, "dtype", "")) == "object")


@cache
def _section() -> Any:
    name = f"{__name__}.section"
    spec = importlib.util.spec_from_file_location(name, _SECTION)
    assert spec is not None
    assert spec.loader is not None
    section: Any = importlib.util.module_from_spec(spec)
    section.ENVELOPE_VERIFIED = _OF_NO_CALL
    section._construct = None
    sys.modules[name] = section
    spec.loader.exec_module(section)
    return section


def _left_out(section: Any, contents: Any) -> Iterator[str]:
    parts = {id(part): path for path, part in contents.module.named_modules()}
    by_computed_names = not contents.names.isdisjoint(section._ANY_NAME)
    state = {id(tensor) for tensor in contents.state.values()}
    for path, owner, name, value in contents.fields:
        # What a layer of torch keeps for itself is torch's business.
        named = name in contents.names or by_computed_names
        if named and not section._is_foreign(type(owner)):
            for what in _unseen_in(section, value, contents.names, state):
                yield f"`{_of_field(parts, path, owner, name)}` ({what})"
    for label, owner, name, value in contents.around.values():
        for what in _unseen_in(section, value, contents.names, state):
            yield f"`{_of_surroundings(label, owner, name)}` ({what})"
    for path, part in contents.module.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            yield f"`{'.'.join(('self', *filter(None, [path])))}` (a scripted module)"
    of_own = [(p, n, owner) for p, n, owner in contents.cut if not section._is_foreign(type(owner))]
    if by_computed_names and of_own:
        path, name, owner = of_own[0]
        yield (
            f"attributes by computed names, of which more than {section._MOST} are there, such as "
            f"`{_of_field(parts, path, owner, name)}`"
        )


def _unseen_in(section: Any, value: Any, names: set[str], state: set[int]) -> Iterator[str]:
    """What a value is, or holds, that comparing it leaves out."""
    if _is_method(value):
        held = value.__self__
        known = isinstance(held, torch.nn.Module) or _has_own_fields_alone(section, held)
        if not known and not _is_harmless(held, names):
            yield f"a method of {_kind(held)}"
        return
    if section._is_plain(value) and not is_alike_everywhere(value, section._spelled(value)):
        yield f"{_kind(value)}, told otherwise in each process"
        return
    for one in section._inside(value):
        if one is not value and _is_method(one):
            yield from _unseen_in(section, one, names, state)
        elif isinstance(one, torch.Tensor):
            if id(one) not in state and (what := _tensor_without_version(section, one)):
                yield what
        elif not _is_seen(section, one) and not _is_harmless(one, names):
            yield _kind(one)


def _is_method(value: Any) -> bool:
    """Of an object, in Python or in C; not of a class or a file."""
    if not (inspect.ismethod(value) or inspect.isbuiltin(value)):
        return False
    held = value.__self__
    return not (held is None or isinstance(held, type | ModuleType))


def _has_own_fields_alone(section: Any, value: Any) -> bool:
    nests = (*section._NESTS, set, frozenset, bytearray)
    return not isinstance(value, nests) and _is_seen(section, value)


def _tensor_without_version(section: Any, tensor: torch.Tensor) -> str:
    if tensor.is_inference():
        return "an inference tensor, which counts no changes"
    if type(tensor) not in section._PLAIN:
        return f"a tensor of the class `{type(tensor).__qualname__}`"
    return "" if tensor.layout is torch.strided else f"a tensor of the layout {tensor.layout}"


def _is_seen(section: Any, value: Any) -> bool:
    """Whether all that this holds is compared by value, or is code that is followed."""
    kind = type(value)
    if isinstance(value, torch.nn.Module):
        return not isinstance(value, torch.jit.ScriptModule)
    if isinstance(value, type | ModuleType | CodeType):
        return True
    if section._is_foreign(kind) and hasattr(kind, "__get__"):
        # Properties and their like; what those of the user's own classes read is followed.
        return True
    if section._is_foreign(kind) and section._is_plain(value):
        return True
    if kind.__module__.partition(".")[0] in section._NO_SETTINGS:
        # Of these the walk reads no fields: a plain `object()` has none.
        return isinstance(value, section._NESTS) or kind is object or value is NotImplemented
    return isinstance(value, (*section._VALUES, *section._NESTS)) or not _holds_more(section, kind)


def _holds_more(section: Any, kind: type) -> bool:
    """Whether its objects hold what stands in no attribute: pickle asks in the same way."""
    slots = sum(len(section._slots(k)) for k in kind.__mro__)
    known = slots + (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    return kind.__basicsize__ > _OF_AN_OBJECT + _POINTER * known


def _is_harmless(value: Any, names: set[str]) -> bool:
    """What gives a forward nothing to compute with."""
    kind = type(value)
    if kind.__module__.partition(".")[0] == "logging":
        return names.isdisjoint(_READ_OF_LOGGERS)
    # With these torch sets its own modes around a call, which the guard of a call looks at.
    modes = ("torch.autograd.grad_mode", "torch.amp.autocast_mode", "torch._dynamo.eval_frame")
    return kind in _LOCKS or kind.__module__ in ("typing", *modes)


def _kind(value: Any) -> str:
    for kinds, words in _IN_WORDS:
        if isinstance(value, kinds):
            return words
    kind = type(value)
    return f"an object of `{kind.__module__}.{kind.__qualname__}`".replace("`builtins.", "`")


def _of_field(parts: dict[int, str], path: str, owner: Any, name: str) -> str:
    """As the user writes it where it is an attribute of a part."""
    if id(owner) in parts:
        return ".".join(filter(None, ("self", parts[id(owner)], name)))
    return f"{path.lstrip('.')}.{name}"


def _of_surroundings(label: str, owner: Any, name: str) -> str:
    if isinstance(owner, dict):
        return f"{Path(str(owner.get('__file__') or owner.get('__name__'))).stem}.{name}"
    return f"{owner.__qualname__}.{name}" if isinstance(owner, type) else label
