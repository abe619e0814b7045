"""A stage's table on disk, Markdown and JSON, complete after every row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

State = Literal["running", "finished", "stopped", "failed", "interrupted", "not possible"]
ENDED: frozenset[State] = frozenset({"finished", "stopped", "failed"})
"""States after which a plan goes on with the next stage instead of beginning this one again."""
SCHEMA = "kernelagent.gpu_first/1"


class NotPossible(Exception):
    """The stage cannot be done on this machine, in one sentence; it is begun again when called again."""


@dataclass
class Record:
    """What one stage has found so far; each change is on disk before the next."""

    folder: str
    number: int
    name: str
    title: str
    minutes: float
    """The most it may take."""
    state: State = "running"
    sentence: str = ""
    """How it ended."""
    seconds: float = 0.0
    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    schema: str = SCHEMA

    @property
    def stem(self) -> str:
        return f"{self.number:02d}-{self.name}"

    def head(self, *columns: str) -> None:
        """The table's columns; before its first row."""
        self.columns = list(columns)
        self.save()

    def add(self, *cells: object) -> None:
        """One more row; raises ValueError when it has not a cell for each column."""
        if len(cells) != len(self.columns):
            raise ValueError(f"{len(cells)} cells for {len(self.columns)} columns: {cells}")
        self.rows.append([str(cell) for cell in cells])
        self.save()

    def note(self, text: str) -> None:
        """One more sentence below the table."""
        self.notes.append(text)
        self.save()

    def end(self, state: State, sentence: str, seconds: float) -> None:
        self.state, self.sentence, self.seconds = state, sentence, round(seconds, 1)
        self.save()

    def save(self) -> None:
        folder = Path(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        data = {name: value for name, value in asdict(self).items() if name != "folder"}
        write_whole(folder / f"{self.stem}.json", json.dumps(data, indent=1) + "\n")
        write_whole(folder / f"{self.stem}.md", self.page())

    def page(self) -> str:
        """The stage as Markdown."""
        taken = "" if self.state == "running" else f" after {self.seconds:.0f} s"
        lines = [
            f"# {self.number}. {self.title}",
            "",
            f"`python -m benchmarks.gpu_first --stage {self.number}`: {self.state}{taken} (limit "
            f"{self.minutes:g} min). {self.sentence}".rstrip(),
        ]
        if self.rows:
            lines += ["", *table(self.columns, self.rows)]
        lines += ["", *(f"- {note}" for note in self.notes)] if self.notes else []
        return "\n".join(lines) + "\n"


def load(folder: Path, stem: str) -> Record | None:
    """What is on disk of a stage; None where there is nothing readable."""
    try:
        data: dict[str, Any] = json.loads((folder / f"{stem}.json").read_text(encoding="utf-8"))
        record = Record(folder=str(folder), **data)
    except (OSError, ValueError, TypeError):
        return None
    return record if record.schema == SCHEMA else None


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Markdown lines; a cell's line breaks and bars would end it."""
    return [
        _line(columns),
        "|" + " --- |" * len(columns),
        *(_line([str(cell).replace("|", "/").replace("\n", " ") for cell in row]) for row in rows),
    ]


def write_whole(path: Path, text: str) -> None:
    """Replace a file at once: whoever reads it sees the old text or the new."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
