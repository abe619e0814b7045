"""What a reference's code reads that the emitted module does not compare: a change there goes unnoticed.

Read off the code of its forwards and of what they call in their own files; nothing is run.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from types import CodeType, FunctionType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from kernelagent.domain.problem import Remark

_ENVIRONMENT = {"environ", "getenv", "environb", "getenvb"}
_OTHERS_MEMORY = {"from_numpy", "frombuffer", "from_dlpack"}
_WEAK = (weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet)


def read_from_outside(module: torch.nn.Module) -> tuple[Remark, ...]:
    """One remark that names all of it; none where there is nothing."""
    result = tuple(dict.fromkeys([*_by_code(module), *_modules_in_containers(module)]))
    if not result:
        return ()
    message = (
        f"your module reads {', '.join(result)}: the emitted module answers by kernel as it was verified, and "
        f"does not see a change there"
    )
    return (Remark("read_from_outside", message),)


def _by_code(module: torch.nn.Module) -> Iterator[str]:
    for kind in dict.fromkeys(type(part) for part in module.modules()):
        if is_torchs(kind):
            continue
        for function in _reached(kind, kind.forward):
            names = _names(function.__code__)
            if names & _ENVIRONMENT:
                yield "the environment of the process"
            for name in sorted(names):
                value = function.__globals__.get(name)
                if isinstance(value, ContextVar):
                    yield f"the context variable `{name}`"
                elif isinstance(value, _WEAK):
                    yield f"the weak registry `{name}`"
        for function in _reached(kind, kind.__init__):
            if _names(function.__code__) & _OTHERS_MEMORY:
                yield "memory that another library writes to (`from_numpy`)"


def _reached(kind: type, start: Any) -> Iterator[FunctionType]:
    """The function, and those of the same file and class that it calls by their names."""
    todo: list[Any] = [start]
    seen: set[int] = set()
    while todo:
        member = todo.pop()
        function = inspect.unwrap(getattr(member, "fget", None) or member)
        if not isinstance(function, FunctionType) or id(function) in seen or is_torchs(function):
            continue
        seen.add(id(function))
        yield function
        for name in _names(function.__code__):
            todo.append(inspect.getattr_static(kind, name, None))
            other = function.__globals__.get(name)
            if getattr(other, "__module__", None) == function.__module__:
                todo.append(other)


def _names(code: CodeType) -> set[str]:
    inner = (c for c in code.co_consts if isinstance(c, CodeType))
    return {*code.co_names, *code.co_freevars}.union(*map(_names, inner))


def _modules_in_containers(module: torch.nn.Module) -> Iterator[str]:
    """Those in lists and dictionaries, which are no submodules."""
    parts = {id(part) for part in module.modules()}
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            if name.startswith("_") or not isinstance(value, list | tuple | dict):
                continue
            if any(
                isinstance(v, torch.nn.Module) and id(v) not in parts for v in tree_leaves(value)
            ):
                yield f"the module in `{'.'.join(filter(None, (path, name)))}`"


def is_torchs(thing: Any) -> bool:
    """Whether a class or function was written in torch."""
    return (getattr(thing, "__module__", None) or "").split(".")[0] == "torch"
