"""Rows of tables that take hours: kept as they come, a JSON object a line, so that a stopped run goes on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

Row = TypeVar("Row")


def read(path: Path | None, kind: type[Row]) -> list[Row]:
    """The rows of a file as this dataclass; none where there is no file."""
    if path is None or not path.is_file():
        return []
    return [kind(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def lines_of(rows: Iterable[Any]) -> str:
    """Dataclasses as they stand in the file."""
    return "".join(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows)


def append(path: Path, *rows: Any) -> None:
    """Write dataclasses behind what is there."""
    with path.open("a", encoding="utf-8") as file:
        file.write(lines_of(rows))
