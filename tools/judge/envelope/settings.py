"""What a reference was when it was judged: the class of each part and the settings its code reads."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator, Set
from types import CodeType
from typing import Any

import torch

from kernelagent.tools.judge.problem.reference.read_from_outside import is_torchs

_DEEPEST = 4
_OF_EVERY_MODULE = frozenset({*vars(torch.nn.Module()), "_is_torch_compile"})
_PLAIN = (bool, int, float, str, bytes, complex, torch.dtype)


def settings_of(module: torch.nn.Module) -> dict[str, dict[str, str]]:
    """By path of the part: its class and, as Python text, each plain attribute that the code names.

    What no forward names, such as the number of a layer, may differ where the emitted file is used.
    The guard compares the same texts (`kernelagent.dropin.template`).
    """
    parts = dict(module.named_modules(remove_duplicate=False))
    names = _named({type(part) for part in parts.values()})
    return {
        path: {"class": class_name(type(part)), **dict(_plain(part, "", names))}
        for path, part in parts.items()
    }


def tied_in(module: torch.nn.Module) -> list[list[str]]:
    """The names in the state that stand for one tensor, by tensor."""
    groups: dict[int, list[str]] = {}
    for name, value in module.state_dict(keep_vars=True).items():
        if isinstance(value, torch.Tensor):
            groups.setdefault(id(value), []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def holds_settings(module: torch.nn.Module) -> bool:
    """Whether a part holds an object with fields, such as a config, whether or not its code reads it."""
    return any(
        _has_settings(value)
        for part in module.modules()
        for name, value in vars(part).items()
        if name not in _OF_EVERY_MODULE
    )


def class_name(kind: type) -> str:
    """With its module where that is torch's: the user's file has another name where it is used."""
    name = kind.__qualname__
    return f"{kind.__module__}.{name}" if is_torchs(kind) else name


def _plain(holder: Any, path: str, names: Set[str], depth: int = 0) -> Iterator[tuple[str, str]]:
    private = _OF_EVERY_MODULE if isinstance(holder, torch.nn.Module) else frozenset()
    for name, value in vars(holder).items():
        if name in private or name not in names:
            continue
        if _is_plain(value):
            yield path + name, repr(value)
        elif depth < _DEEPEST and _has_settings(value):
            yield from _plain(value, f"{path}{name}.", names, depth + 1)


def _is_plain(value: Any) -> bool:
    if type(value) in (list, tuple):
        return all(map(_is_plain, value))
    return value is None or type(value) in _PLAIN or isinstance(value, torch.dtype)


def _has_settings(value: Any) -> bool:
    apart = (torch.Tensor, torch.nn.Module, dict, list, tuple)
    library = type(value).__module__.split(".")[0] in ("torch", "logging", "threading")
    return hasattr(value, "__dict__") and not (
        isinstance(value, apart) or library or hasattr(value, "__qualname__")
    )


def _named(kinds: Set[type]) -> set[str]:
    """The names in the code of the forwards and of what they call on the module itself.

    Not what that code itself sets, such as a count of calls: it is another after each of them.
    """
    names, stored, done = set[str](), set[str](), set[CodeType]()
    todo: list[tuple[type, Any]] = [(kind, getattr(kind, "forward", None)) for kind in kinds]
    for kind, member in todo:
        function: Callable[..., Any] = inspect.unwrap(getattr(member, "fget", None) or member)
        codes = [code] if (code := getattr(function, "__code__", None)) is not None else []
        for code in codes:
            if code in done:
                continue
            done.add(code)
            codes += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
            here = {*code.co_names, *(c for c in code.co_consts if isinstance(c, str))}
            names |= here
            stored |= {
                str(line.argval)
                for line in dis.get_instructions(code)
                if line.opname in ("STORE_ATTR", "DELETE_ATTR")
            }
            members = [getattr(kind, name, None) for name in code.co_names]
            todo += [(kind, m) for m in members if m is not None and not is_torchs(m)]
    return names - stored
