"""Collects the global values that a kernel uses and serialises them for the executor, which compiles it."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from triton.runtime.jit import JITCallable, JITFunction

from kernelagent.tools.virtual.device.codec import NotEncodable, encode


def constants_of(functions: Iterable[JITFunction[Any]]) -> dict[str, Any]:
    """Everything that these functions, as `reached` lists them, read from outside.

    Modules, Triton's own functions and values that cannot be serialised are left out: the executor has the
    former, and its compiler names the latter. Raises `NotEncodable` when one name has two values.
    """
    reported: dict[str, Any] = {}
    for function in functions:
        scope = function.get_capture_scope()
        for name in sorted(_names(function) & scope.keys()):
            value = scope[name]
            if isinstance(value, JITCallable) and str(value.__module__).startswith("triton."):
                continue
            _put(reported, name, value)
    return reported


def texts_of(functions: Iterable[JITFunction[Any]]) -> list[list[Any]]:
    """Name, first line and text of each, as Triton would compile it."""
    return [
        [function.fn.__name__, function.fn.__code__.co_firstlineno, str(function.src)]
        for function in functions
    ]


def reached(values: Iterable[Any]) -> list[JITFunction[Any]]:
    """The jit functions among `values` and those they call; none of Triton's own."""
    waiting = [value for value in values if isinstance(value, JITFunction)]
    known: dict[int, JITFunction[Any]] = {}
    while waiting:
        function = waiting.pop()
        if id(function) in known or str(function.__module__).startswith("triton."):
            continue
        known[id(function)] = function
        scope = function.get_capture_scope()
        called = [scope[name] for name in sorted(_names(function) & scope.keys())]
        waiting += [value for value in called if isinstance(value, JITFunction)]
    return list(known.values())


def _names(function: JITFunction[Any]) -> set[str]:
    return {node.id for node in ast.walk(function.parse()) if isinstance(node, ast.Name)}


def _put(encoded: dict[str, Any], name: str, value: Any) -> None:
    try:
        message = encode(value)
    except NotEncodable:
        return
    if encoded.setdefault(name, message) != message:
        raise NotEncodable(
            f"the name {name} means different things in different kernels of one launch; give them "
            f"different names"
        )
