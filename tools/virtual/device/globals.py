"""Collects the global values that a kernel uses and serialises them for the executor, which compiles it."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from triton.runtime.jit import JITCallable

from kernelagent.tools.virtual.device.codec import OF_A_LIBRARY, UNKNOWN, NotEncodable, encode


def constants_of(functions: Iterable[JITCallable]) -> dict[str, Any]:
    """Everything that these functions, as `reached` lists them, read from outside.

    Modules, Triton's own functions and those of `math` are named; what cannot be serialised is named by its type,
    so that no other thing of that name takes its place. Raises `NotEncodable` when one name has two values.
    """
    reported: dict[str, Any] = {}
    for function in functions:
        scope = function.get_capture_scope()
        for name in sorted(_names(function) & scope.keys()):
            _put(reported, name, scope[name])
    return reported


def texts_of(functions: Iterable[JITCallable]) -> list[list[Any]]:
    """Name, first line and text of each, as Triton would compile it."""
    return [
        [function.fn.__name__, function.fn.__code__.co_firstlineno, str(function.src)]
        for function in functions
    ]


def reached(values: Iterable[Any]) -> list[JITCallable]:
    """The jit and constexpr functions among `values` and those they call; none of Triton's own."""
    waiting = [value for value in values if isinstance(value, JITCallable)]
    known: dict[int, JITCallable] = {}
    while waiting:
        function = waiting.pop()
        if id(function) in known or str(function.__module__).startswith("triton."):
            continue
        known[id(function)] = function
        scope = function.get_capture_scope()
        called = [scope[name] for name in sorted(_names(function) & scope.keys())]
        waiting += [value for value in called if isinstance(value, JITCallable)]
    return list(known.values())


def _names(function: JITCallable) -> set[str]:
    return {node.id for node in ast.walk(function.parse()) if isinstance(node, ast.Name)}


def _encoded(value: Any) -> Any:
    module = str(getattr(value, "__module__", ""))
    if isinstance(value, JITCallable) and module.startswith("triton."):
        return {OF_A_LIBRARY: [module, value.__name__]}
    try:
        return encode(value)
    except NotEncodable:
        if isinstance(value, ModuleType):
            return {OF_A_LIBRARY: [value.__name__, ""]}
        if f"{module}.".startswith(("triton.", "math.")) and hasattr(value, "__name__"):
            return {OF_A_LIBRARY: [module, value.__name__]}
        return {UNKNOWN: type(value).__name__}


def _put(encoded: dict[str, Any], name: str, value: Any) -> None:
    message = _encoded(value)
    if encoded.setdefault(name, message) != message:
        raise NotEncodable(
            f"the name {name} means different things in different kernels of one launch; give them "
            f"different names"
        )
