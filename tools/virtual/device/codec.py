"""Kernel arguments and specialisations as JSON, shared by runner and executor. Nothing here is executed."""

from __future__ import annotations

from typing import Any

import triton.language as tl
from triton.runtime.jit import JITFunction


class NotEncodable(Exception):
    """A value used by a kernel that cannot be serialised for the executor; the message names its type."""


def encode(value: Any) -> Any:
    """A constant as JSON; raises `NotEncodable`."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return {"float": value.hex()}
        case tl.constexpr():
            return {"constexpr": encode(value.value)}
        case tl.dtype():
            return {"dtype": value.name}
        case JITFunction():
            return {"function": [value.fn.__name__, value.fn.__code__.co_firstlineno]}
        case tuple():
            return {"tuple": [encode(item) for item in value]}
        case list():
            return {"list": [encode(item) for item in value]}
    raise NotEncodable(
        f"a kernel uses a value of type {type(value).__name__}; only numbers, strings, None, "
        f"tl.dtype, jit functions and tuples of these can be passed on the virtual device"
    )


def decode(encoded: Any, functions: Any) -> Any:
    """Inverse of `encode`; `functions(name, line)` finds a jit function."""
    if not isinstance(encoded, dict):
        return encoded
    kind, body = next(iter(encoded.items()))
    match kind:
        case "float":
            return float.fromhex(body)
        case "constexpr":
            return tl.constexpr(decode(body, functions))
        case "dtype":
            return _DTYPES[body]
        case "function":
            return functions(*body)
        case "tuple":
            return tuple(decode(item, functions) for item in body)
        case "list":
            return [decode(item, functions) for item in body]
    raise NotEncodable(f"unknown kind of constant {kind!r}")


_DTYPES = {value.name: value for value in vars(tl).values() if isinstance(value, tl.dtype)}


def encode_paths(paths: dict[Any, Any]) -> list[list[Any]]:
    """Triton's `{path: value}` dictionaries, whose keys are tuples of indices."""
    return [[list(path), encode(value)] for path, value in paths.items()]


def decode_paths(encoded: list[list[Any]], functions: Any) -> dict[tuple[int, ...], Any]:
    """Inverse of `encode_paths`."""
    return {tuple(path): decode(value, functions) for path, value in encoded}


def encode_types(value: Any) -> Any:
    """A signature's types: strings, or tuples of them for tuple arguments."""
    return [encode_types(item) for item in value] if isinstance(value, tuple) else value


def decode_types(value: Any) -> Any:
    """Inverse of `encode_types`."""
    return tuple(decode_types(item) for item in value) if isinstance(value, list) else value
