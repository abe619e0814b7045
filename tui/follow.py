"""Reads a log that another process may be writing: each event once, in order, none left out."""

from __future__ import annotations

from pathlib import Path

from kernelagent.domain.errors import UsageError
from kernelagent.domain.events import Logged
from kernelagent.storage.run_log import events_in

CHUNK_BYTES = 1 << 18
"""Read at once, so that keys are answered between the parts of a long log."""


class Follower:
    """Where a reader of `events.jsonl` stands; the file is opened for reading only.

    A last line without its newline is waited for: it is being written, or a resume will cut it off.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._offset = 0
        self._next: int | None = None

    def poll(self) -> tuple[Logged, ...]:
        """The next events, at most about `CHUNK_BYTES` of them; () when there are none by now.

        Raises `UsageError` where the log is no log any more, or events are missing in it.
        """
        data = self._new_bytes()
        whole, newline, _ = data.rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        events = tuple(events_in(whole + newline, self._log))
        for logged in events:
            self._expect(logged)
        return events

    def _new_bytes(self) -> bytes:
        try:
            with self._log.open("rb") as file:
                size = file.seek(0, 2)
                if size < self._offset:
                    raise UsageError(f"{self._log} became shorter than what was read of it")
                file.seek(self._offset)
                data = file.read(CHUNK_BYTES)
                # A line longer than a chunk is read to its end.
                return data if b"\n" in data else data + file.readline()
        except FileNotFoundError:
            return b""

    def _expect(self, logged: Logged) -> None:
        if self._next is not None and logged.sequence != self._next:
            raise UsageError(
                f"{self._log}: event {self._next} is missing; {logged.sequence} came in its place"
            )
        self._next = logged.sequence + 1
