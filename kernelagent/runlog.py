"""The run's folder: the event log, which is the truth, and the files that stand beside it."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelagent.candidate import Candidate
from kernelagent.errors import UsageError
from kernelagent.events import Event, Logged, Subscriber, UnreadableEvent, from_line, to_line
from kernelagent.history import Message
from kernelagent.records import to_json
from kernelagent.redaction import Redactor

LOG = "events.jsonl"


@dataclass(frozen=True)
class RunFolder:
    """Where one run lives: `.kernelagent/runs/<id>/`."""

    path: Path

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def log(self) -> Path:
        return self.path / LOG

    @classmethod
    def create(cls, runs: Path, stem: str, *, now: float) -> RunFolder:
        """A new folder named `YYYYMMDD-HHMMSS-<stem>-<4 hex>`."""
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
        safe = "".join(c if c.isalnum() else "_" for c in stem)[:40] or "problem"
        path = runs / f"{stamp}-{safe}-{secrets.token_hex(2)}"
        for part in ("candidates", "prompts"):
            (path / part).mkdir(parents=True)
        ignore = runs.parent / ".gitignore"
        if runs.parent.name == ".kernelagent" and not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
        return cls(path)

    @classmethod
    def open(cls, run: str, runs: Path) -> RunFolder:
        """The folder of a run given by id or path; raises `UsageError`."""
        for path in (Path(run), runs / run, Path(run).parent):
            if (path / LOG).is_file():
                return cls(path)
        known = sorted(p.name for p in runs.glob("*") if (p / LOG).is_file())[-5:]
        listed = ", ".join(known) or "none"
        raise UsageError(f"there is no run {run!r}; the latest in {runs}: {listed}")

    def keep_candidate(self, turn: int, candidate: Candidate) -> Path:
        path = self.path / "candidates" / f"{turn:03d}-{candidate.id}.py"
        path.write_text(candidate.source, encoding="utf-8")
        return path

    def keep_prompt(self, turn: int, messages: Sequence[Message]) -> Path:
        path = self.path / "prompts" / f"{turn:03d}.json"
        path.write_bytes(to_json(list(messages)))
        return path


class EventLog:
    """Appends events, one fsynced line each; the one writer of a run.

    Failing to write is fatal: without a log there is no run.
    """

    def __init__(
        self,
        folder: RunFolder,
        clock: Callable[[], float] = time.time,
        redact: Redactor | None = None,
    ) -> None:
        """`redact` cleans each event before it is written and before any subscriber sees it."""
        self._clock = clock
        self._redact = redact or Redactor()
        self._subscribers: list[Subscriber] = []
        earlier = list(read_events(folder.log)) if folder.log.exists() else []
        self._next = earlier[-1].sequence + 1 if earlier else 0
        self._file = folder.log.open("ab")

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.append(subscriber)

    def publish(self, event: Event) -> None:
        logged = Logged(self._next, self._clock(), event)
        self._next += 1
        line = to_line(logged)
        clean = self._redact(line)
        if clean != line:
            logged = from_line(clean)
        self._file.write(clean.encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        for subscriber in self._subscribers:
            subscriber(logged)

    def close(self) -> None:
        self._file.close()


def read_events(log: Path) -> Iterator[Logged]:
    """All events of a log; a torn last line (a kill in mid-write) is cut off the file."""
    data = log.read_bytes()
    whole, newline, torn = data.rpartition(b"\n")
    if torn:
        with log.open("r+b") as file:
            file.truncate(len(whole) + len(newline))
    for number, line in enumerate(whole.split(b"\n"), 1):
        if not line:
            continue
        try:
            yield from_line(line.decode())
        except UnreadableEvent as error:
            raise UsageError(f"{log}, line {number}: {error}") from error
