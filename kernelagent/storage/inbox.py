"""The run's `inbox/`: one atomic JSON file a command, written by anybody, taken by the controller.

Only the controller writes the log; a user who steers the run only adds files here.
"""

from __future__ import annotations

import fcntl
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import msgspec

from kernelagent.domain.errors import UsageError
from kernelagent.domain.serialization import from_json, to_json
from kernelagent.storage.run_log import LOCK, RunFolder
from kernelagent.storage.steering import Command

SCHEMA = "kernelagent.command/1"
_NEEDS_A_CONDUCTOR = {"pause", "resume", "stop", "emit"}


@dataclass(frozen=True)
class NoCommand:
    """A file in the inbox that holds no command."""

    id: str
    why: str


class Commands(Protocol):
    """Where the user's commands wait; each is taken out once the log has it."""

    def waiting(self) -> Iterable[Command | NoCommand]: ...

    def done(self, command: str) -> None: ...


class NoCommands:
    """Nobody steers this run."""

    def waiting(self) -> Iterable[Command | NoCommand]:
        return ()

    def done(self, command: str) -> None:
        """Nothing to take out."""


@dataclass(frozen=True)
class _File:
    command: Command
    schema: str = SCHEMA


@dataclass(frozen=True)
class Inbox:
    """The folder `inbox/` of one run; it exists once somebody has sent something."""

    path: Path

    @classmethod
    def of(cls, folder: RunFolder) -> Inbox:
        return cls(folder.path / "inbox")

    def waiting(self) -> tuple[Command | NoCommand, ...]:
        """What has not been taken yet, in the order it was sent."""
        if not self.path.is_dir():
            return ()
        names = sorted(path.name for path in self.path.glob("[!.]*.json"))
        return tuple(self._read(name) for name in names)

    def done(self, command: str) -> None:
        """Take a command out: the log has it now."""
        (self.path / command).unlink(missing_ok=True)

    def put(self, command: Command) -> str:
        """Leave a command; returns its id, which the event that it becomes will carry."""
        self.path.mkdir(exist_ok=True)
        name = f"{time.time_ns():020d}-{secrets.token_hex(2)}.json"
        part = self.path / f".{name}.part"
        part.write_bytes(to_json(_File(replace(command, id=name))))
        part.rename(self.path / name)
        return name

    def _read(self, name: str) -> Command | NoCommand:
        try:
            result = from_json((self.path / name).read_bytes(), _File)
        except (OSError, ValueError, msgspec.ValidationError) as error:
            return NoCommand(name, f"inbox/{name} is no command: {error}")
        if result.schema != SCHEMA:
            return NoCommand(name, f"inbox/{name} has schema {result.schema!r}, not {SCHEMA!r}")
        return replace(result.command, id=name)


def send(folder: RunFolder, command: Command) -> str:
    """Steer a run from outside; raises `UsageError` where the run is not going on.

    Hints, pins, bans and limits wait in the inbox until the run goes on.
    """
    if command.act in _NEEDS_A_CONDUCTOR and not is_going_on(folder):
        raise UsageError(
            f"run {folder.id} is not going on, so there is nothing to {command.act}; "
            f"`kernelagent optimize --resume {folder.id}` goes on with it"
        )
    return Inbox.of(folder).put(command)


def is_going_on(folder: RunFolder) -> bool:
    """Whether some process is writing this run's log now."""
    try:
        with (folder.path / LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
