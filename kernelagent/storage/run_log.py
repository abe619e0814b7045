"""The run's folder: the event log, which is the truth, and the files that stand beside it."""

from __future__ import annotations

import fcntl
import os
import secrets
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import IO

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.errors import UsageError
from kernelagent.domain.events import Event, Logged, Subscriber, UnreadableEvent, from_line, to_line
from kernelagent.domain.history import Message
from kernelagent.domain.serialization import from_json, to_json, without_surrogates
from kernelagent.storage.secrets import Redactor

LOG = "events.jsonl"
LOCK = "writer.pid"
"""Locked, and holding the process's number, while somebody writes the log."""


def new_folder(parent: Path, stem: str, parts: Sequence[str], *, now: float) -> Path:
    """Make `parent/YYYYMMDD-HHMMSS-<stem>-<4 hex>` with these folders in it.

    Where `parent` stands in `.kernelagent`, git is told to ignore that.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
    path = parent / f"{stamp}-{stem}-{secrets.token_hex(2)}"
    for part in parts:
        (path / part).mkdir(parents=True)
    ignore = parent.parent / ".gitignore"
    if parent.parent.name == ".kernelagent" and not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    return path


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
        safe = "".join(c if c.isalnum() else "_" for c in stem)[:40] or "problem"
        return cls(new_folder(runs, safe, ("candidates", "prompts"), now=now))

    @classmethod
    def open(cls, run: str, runs: Path) -> RunFolder:
        """The folder of a run given by id or path; raises `UsageError`."""
        for path in (Path(run), runs / run, Path(run).parent):
            if (path / LOG).is_file():
                return cls(path)
        for path in (Path(run), runs / run):
            if (path / "prompts").is_dir():
                raise UsageError(
                    f"run {run} was stopped before its first event; nothing in it can go on: start "
                    f"it anew"
                )
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

    def kept_prompt(self, turn: int) -> tuple[Message, ...] | None:
        """The prompt of a turn as it was kept, or None when its file is gone or spoilt."""
        try:
            data = (self.path / "prompts" / f"{turn:03d}.json").read_bytes()
            return from_json(data, tuple[Message, ...])
        except (OSError, ValueError):
            return None


def resume_with(run: Path) -> str:
    """The command that goes on with a run."""
    return f"resume with: kernelagent optimize --resume {shlex.quote(str(run))}"


class EventLog:
    """Appends events, one fsynced line each; the one writer of a run.

    Opening it takes the run for this process (`UsageError` where another one has it) and cuts off a
    last line that a kill has torn: `torn_bytes`. Failing to write is fatal: without a log there is
    no run.
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
        self._one_at_a_time = RLock()
        self._lock = _locked(folder)
        self._file = folder.log.open("a+b", buffering=0)
        self._log = folder.log
        self.torn_bytes = self._take_stock()

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.append(subscriber)

    def publish(self, event: Event) -> None:
        """Write one event and tell the subscribers; an event that cannot be written changes nothing.

        Threads that call it take turns.
        """
        with self._one_at_a_time:
            if self._file.seek(0, os.SEEK_END) != self._size:
                # A second Ctrl-C, or a full disk, has interrupted an earlier call.
                self._take_stock()
            logged = Logged(self._next, self._clock(), event)
            line = to_line(logged)
            clean = without_surrogates(self._redact(line))
            if clean != line:
                logged = from_line(clean)
            self._append(clean.encode() + b"\n")
            for subscriber in self._subscribers:
                subscriber(logged)

    def close(self) -> None:
        """Give the run back; closing twice is harmless."""
        self._file.close()
        self._lock.close()

    def _append(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]
        os.fsync(self._file.fileno())
        self._size += len(data)
        self._next += 1

    def _take_stock(self) -> int:
        """Cut off an incomplete last line and find the next sequence number; returns the bytes removed."""
        data = self._log.read_bytes()
        whole, torn = whole_lines(data)
        self._file.truncate(len(whole))
        lacks_newline = whole and not whole.endswith(b"\n")
        if lacks_newline:
            self._file.write(b"\n")
        self._size = len(whole) + bool(lacks_newline)
        self._next = 0
        for logged in events_in(whole, self._log):
            self._next = logged.sequence + 1
        return len(torn)


def _locked(folder: RunFolder) -> IO[bytes]:
    """The run's lock, held until it is closed or this process ends; raises `UsageError`."""
    lock = (folder.path / LOCK).open("a+b", buffering=0)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        holder = lock.read().decode() or "unknown"
        lock.close()
        raise UsageError(
            f"run {folder.id} is being written by process {holder}; wait until it ends, or stop it "
            f"(Ctrl-C there, or kill -INT {holder}) and resume it then"
        ) from None
    lock.truncate(0)
    lock.write(str(os.getpid()).encode())
    return lock


def read_events(log: Path) -> Iterator[Logged]:
    """All events of a log, which is only read; a torn last line is left out. Raises `UsageError`.

    The last line is torn while its writer is in the middle of it, or was killed there.
    """
    return events_in(log.read_bytes(), log)


def events_in(data: bytes, log: Path) -> Iterator[Logged]:
    """The events in the bytes of a log; `log` is for the error."""
    for number, line in enumerate(whole_lines(data)[0].split(b"\n"), 1):
        if not line:
            continue
        try:
            yield from_line(line)
        except UnreadableEvent as error:
            raise UsageError(f"{log}, line {number}: {error}") from error


def whole_lines(log: bytes) -> tuple[bytes, bytes]:
    """The lines of a log that are whole, and what there is of a last one that is not.

    A last line that lacks only its newline is whole.
    """
    whole, newline, last = log.rpartition(b"\n")
    try:
        if last:
            from_line(last)
    except UnreadableEvent:
        return whole + newline, last
    return log, b""
