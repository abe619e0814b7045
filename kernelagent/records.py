"""Frozen dataclasses to JSON and back, in one place, so that no module invents its own spelling."""

from __future__ import annotations

from threading import Lock
from typing import Any, TypeVar

import msgspec

Record = TypeVar("Record")

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


def from_json(line: bytes | str, kind: type[Record]) -> Record:
    """Inverse of `to_json`; raises `msgspec.ValidationError` or `msgspec.DecodeError`."""
    with _ONE_AT_A_TIME:
        return msgspec.json.decode(line, type=kind)
