"""Kernel arguments and specialisations as JSON, shared by runner and executor. Nothing here is executed."""

from __future__ import annotations

from typing import Any

import triton.language as tl
from triton.runtime.jit import JITFunction


class Unspeakable(Exception):
    """A value that a kernel may hold but that cannot be told to the executor; the message names it."""


def tell(value: Any) -> Any:
    """A constant as JSON; raises `Unspeakable`."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return {"float": value.hex()}
        case tl.constexpr():
            return {"constexpr": tell(value.value)}
        case tl.dtype():
            return {"dtype": value.name}
        case JITFunction():
            return {"function": [value.fn.__name__, value.fn.__code__.co_firstlineno]}
        case tuple():
            return {"tuple": [tell(item) for item in value]}
        case list():
            return {"list": [tell(item) for item in value]}
    raise Unspeakable(
        f"a kernel uses a value of type {type(value).__name__}; only numbers, strings, None, "
        f"tl.dtype, jit functions and tuples of these can be passed on the virtual device"
    )


def hear(told: Any, functions: Any) -> Any:
    """Inverse of `tell`; `functions(name, line)` finds a jit function."""
    if not isinstance(told, dict):
        return told
    kind, body = next(iter(told.items()))
    match kind:
        case "float":
            return float.fromhex(body)
        case "constexpr":
            return tl.constexpr(hear(body, functions))
        case "dtype":
            return _DTYPES[body]
        case "function":
            return functions(*body)
        case "tuple":
            return tuple(hear(item, functions) for item in body)
        case "list":
            return [hear(item, functions) for item in body]
    raise Unspeakable(f"unknown kind of constant {kind!r}")


_DTYPES = {value.name: value for value in vars(tl).values() if isinstance(value, tl.dtype)}


def tell_paths(found: dict[Any, Any]) -> list[list[Any]]:
    """Triton's `{path: value}` dictionaries, whose keys are tuples of indices."""
    return [[list(path), tell(value)] for path, value in found.items()]


def hear_paths(told: list[list[Any]], functions: Any) -> dict[tuple[int, ...], Any]:
    """Inverse of `tell_paths`."""
    return {tuple(path): hear(value, functions) for path, value in told}


def tell_types(value: Any) -> Any:
    """A signature's types: strings, or tuples of them for tuple arguments."""
    return [tell_types(item) for item in value] if isinstance(value, tuple) else value


def hear_types(value: Any) -> Any:
    """Inverse of `tell_types`."""
    return tuple(hear_types(item) for item in value) if isinstance(value, list) else value
