"""Kernel arguments and specialisations as JSON, shared by runner and executor. Nothing here is executed."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from functools import cache
from typing import Any

import triton.language as tl
from triton.runtime.jit import JITCallable

OF_A_LIBRARY, UNKNOWN = "library", "unknown"
"""What a kernel's text means by a name that has no value to send: a thing of Triton's or `math`'s, or of a type alone."""

FIELDS = "fields"
"""Beside the items of a named tuple: the names that it has for them."""


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
        case JITCallable():
            return {"function": [value.fn.__name__, value.fn.__code__.co_firstlineno]}
        case tuple():
            items = [encode(item) for item in value]
            fields = getattr(type(value), "_fields", None)
            return {"tuple": items} if fields is None else {"named": _named(fields, items)}
        case list():
            return {"list": [encode(item) for item in value]}
    if isinstance(value, type) and _is_plain_named_tuple(value):
        made: Any = value
        defaults = [encode(item) for item in made._field_defaults.values()]
        return {"named_class": _named(made._fields, defaults)}
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
        case "named":
            return named_tuple(tuple(body[FIELDS]))(*(decode(i, functions) for i in body["items"]))
        case "named_class":
            defaults = [decode(item, functions) for item in body["items"]]
            return namedtuple("Named", body[FIELDS], defaults=defaults)
    raise NotEncodable(f"unknown kind of constant {kind!r}")


_DTYPES = {value.name: value for value in vars(tl).values() if isinstance(value, tl.dtype)}


def encode_paths(paths: dict[Any, Any]) -> list[list[Any]]:
    """Triton's `{path: value}` dictionaries, whose keys are tuples of indices."""
    return [[list(path), encode(value)] for path, value in paths.items()]


def decode_paths(encoded: list[list[Any]], functions: Any) -> dict[tuple[int, ...], Any]:
    """Inverse of `encode_paths`."""
    return {tuple(path): decode(value, functions) for path, value in encoded}


def encode_types(value: Any) -> Any:
    """A signature's types: strings, or tuples of them for tuple arguments, with the names of their fields."""
    if not isinstance(value, tuple):
        return value
    items = [encode_types(item) for item in value]
    # Of the class itself, as Triton reads them (`tl.str_to_ty`).
    fields = vars(type(value)).get("_fields")
    return items if fields is None else _named(fields, items)


def decode_types(value: Any) -> Any:
    """Inverse of `encode_types`."""
    if isinstance(value, dict):
        return named_tuple(tuple(value[FIELDS]))(*map(decode_types, value["items"]))
    return tuple(decode_types(item) for item in value) if isinstance(value, list) else value


@cache
def named_tuple(fields: tuple[str, ...]) -> Any:
    """A class of tuples with these names, made anew; raises ValueError for what is no name of a field."""
    return namedtuple("Named", fields)


def fields_in(encoded: Any) -> Iterator[str]:
    """The names of fields of every named tuple in what was encoded."""
    if isinstance(encoded, dict):
        yield from map(str, encoded.get(FIELDS, ()))
        yield from (name for item in encoded.values() for name in fields_in(item))
    elif isinstance(encoded, list):
        yield from (name for item in encoded for name in fields_in(item))


def _named(fields: Any, items: list[Any]) -> dict[str, Any]:
    return {FIELDS: [str(name) for name in fields], "items": items}


_GENERATED = frozenset(vars(namedtuple("_Example", ()))) | {"__annotations__", "__orig_bases__"}


def _is_plain_named_tuple(value: Any) -> bool:
    """Whether making one does what `collections.namedtuple` wrote, and nothing of the candidate's."""
    is_direct = value.__mro__ == (value, tuple, object) and hasattr(value, "_fields")
    own = vars(value).keys() - set(getattr(value, "_fields", ()))
    return is_direct and own <= _GENERATED
