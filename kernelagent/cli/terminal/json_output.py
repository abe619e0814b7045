"""How a command prints its record with --json: one object on stdout, and nothing else there."""

from __future__ import annotations

import sys

from kernelagent.domain.serialization import to_json


def print_json(record: object) -> None:
    """Write `record` as one line of JSON to stdout."""
    sys.stdout.buffer.write(to_json(record) + b"\n")
    sys.stdout.flush()
