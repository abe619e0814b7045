"""Frozen dataclasses to JSON and back, in one place, so that no module invents its own spelling."""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import Any, TypeVar, cast

import msgspec

Record = TypeVar("Record")
Unread = msgspec.Raw
"""A part of a record that stays JSON until somebody knows its kind."""

_ONE_AT_A_TIME = Lock()
"""msgspec 0.22 crashes the process when two threads convert to a type for the first time."""


def to_data(record: object) -> Any:
    """Plain dicts, lists and scalars; raises TypeError on a value JSON cannot hold."""
    return msgspec.to_builtins(record)


def to_json(record: object) -> bytes:
    """One line of JSON without a newline inside."""
    return msgspec.json.encode(record)


def from_data(data: Any, kind: type[Record]) -> Record:
    """Inverse of `to_data`; raises `msgspec.ValidationError` naming the field that does not fit."""
    with _ONE_AT_A_TIME:
        return msgspec.convert(data, kind)


def from_json(line: bytes | str | Unread, kind: type[Record]) -> Record:
    """Inverse of `to_json`; raises `msgspec.ValidationError` or `msgspec.DecodeError`."""
    with _ONE_AT_A_TIME:
        decoded: Record = _decoder(cast("Any", kind)).decode(line)
    return decoded


def without_surrogates(text: str) -> str:
    """The text with each lone surrogate, which no file can hold, as the replacement character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


@cache
def _decoder(kind: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)
