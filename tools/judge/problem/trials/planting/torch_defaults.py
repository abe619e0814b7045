"""Numbers that stand in no text: defaults of torch's functions and modules that a source calls by name."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import torch

_WHERE: tuple[Any, ...] = (torch.nn.functional, torch.nn, torch, torch.special, torch.linalg)


def defaults_in(tree: ast.AST) -> Iterator[float]:
    """The default numbers of what is called by the name of a function or module of torch, such as 1e-12 of `normalize`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Attribute(attr=name) | ast.Name(id=name):
                    yield from _defaults_of(name)


@lru_cache(maxsize=512)
def _defaults_of(name: str) -> tuple[float, ...]:
    """Of the functions and modules of this name; whole numbers are sizes and dimensions but where one is of any kind."""
    if not name or name.startswith("_"):
        return ()
    result: dict[float, None] = {}
    for found in (vars(where)[name] for where in _WHERE if name in vars(where)):
        if callable(found):
            result |= dict.fromkeys(_of_signature(found))
    packet = getattr(torch.ops.aten, name, None)
    for overload in packet.overloads() if packet is not None else ():
        for argument in getattr(packet, overload)._schema.arguments:
            if str(argument.type) in ("number", "float"):
                result |= dict.fromkeys(_number(argument.default_value))
    return tuple(result)


def _of_signature(function: Callable[..., Any]) -> Iterator[float]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        # Built into torch: its schema has them.
        return
    for parameter in parameters:
        if isinstance(parameter.default, float):
            yield from _number(parameter.default)


def _number(value: object) -> Iterator[float]:
    if isinstance(value, int | float) and not isinstance(value, bool) and value not in (0, 1):
        yield float(value)
