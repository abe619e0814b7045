"""A suite's folder and its append-only log: which problems, which run each has, how each ended.

What happened inside a run stands in the run's own log; this one only says where that is.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

import msgspec

from kernelagent.domain.errors import UsageError
from kernelagent.domain.evaluation import DeviceFacts
from kernelagent.domain.serialization import from_data, to_data
from kernelagent.storage.run_log import new_folder
from kernelagent.suite.problems import SuiteProblem

SCHEMA = "kernelagent.suite_event/1"
LOG = "suite.jsonl"


@dataclass(frozen=True)
class SuiteStarted:
    """First record: everything the suite was asked to do."""

    suite: str
    problems: tuple[SuiteProblem, ...]
    left_out: tuple[str, ...]
    config: dict[str, Any]
    jobs: int
    versions: dict[str, str] = field(default_factory=dict)
    total_usd: float | None = None
    """Dollars for all problems together; None: only each problem's own budget counts."""


@dataclass(frozen=True)
class SuiteResumed:
    """The suite goes on after it was killed or stopped."""

    jobs: int
    total_usd: float | None = None
    """From here on; None: as before."""


@dataclass(frozen=True)
class ClusterJoined:
    """From here on evaluations are done by devices of a Ray cluster, all of one make."""

    address: str
    device: DeviceFacts
    devices: int
    left_out: tuple[str, ...] = ()
    """Nodes whose device or versions differ, each with why."""


@dataclass(frozen=True)
class ClusterChanged:
    """A node came too late to be equal, failed, or is used no more."""

    message: str


@dataclass(frozen=True)
class ProblemBegun:
    """A problem's run begins, or goes on."""

    key: str


@dataclass(frozen=True)
class ProblemEnded:
    """A problem's run has ended; what came of it stands in the run's log."""

    key: str
    exit_status: int
    why: str
    seconds: float
    """Wall time since it began or went on, in this process."""
    stopped: bool = False
    """The user stopped the suite meanwhile: the run may have more to do."""


@dataclass(frozen=True)
class TooDear:
    """The problems that have not begun do not fit into what is left of the suite's dollars."""

    why: str


@dataclass(frozen=True)
class SuiteFinished:
    """All problems have ended, the user stopped the suite, or its dollars are spent."""

    stopped: bool
    seconds: float
    """Wall time since it began or went on."""


Record: TypeAlias = (
    SuiteStarted
    | SuiteResumed
    | ClusterJoined
    | ClusterChanged
    | ProblemBegun
    | ProblemEnded
    | TooDear
    | SuiteFinished
)
_KINDS: dict[tuple[str, str], type[Record]] = {
    (SCHEMA, kind.__name__): kind
    for kind in (
        SuiteStarted,
        SuiteResumed,
        ClusterJoined,
        ClusterChanged,
        ProblemBegun,
        ProblemEnded,
        TooDear,
        SuiteFinished,
    )
}


@dataclass(frozen=True)
class SuiteFolder:
    """Where a suite lives; its runs are below `runs/<key>/`, its modules `modules/<key>.py`."""

    path: Path

    @property
    def log(self) -> Path:
        return self.path / LOG

    def runs_of(self, key: str) -> Path:
        return self.path / "runs" / key

    def module_of(self, key: str) -> Path:
        return self.path / "modules" / f"{key}.py"

    @classmethod
    def create(cls, suites: Path, *, now: float) -> SuiteFolder:
        """A new folder named `YYYYMMDD-HHMMSS-suite-<4 hex>`."""
        return cls(new_folder(suites, "suite", ("runs", "modules"), now=now))

    @classmethod
    def open(cls, suite: str, suites: Path) -> SuiteFolder:
        """The folder of a suite given by id or path; raises `UsageError`."""
        for path in (Path(suite), suites / suite, Path(suite).parent):
            if (path / LOG).is_file():
                return cls(path)
        known = sorted(p.name for p in suites.glob("*") if (p / LOG).is_file())[-5:]
        raise UsageError(
            f"there is no suite {suite!r}; the latest in {suites}: {', '.join(known) or 'none'}"
        )


@dataclass
class SuiteLog:
    """Appends records, one fsynced line each, from any thread; the one writer of a suite."""

    folder: SuiteFolder
    clock: Callable[[], float] = time.time
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        if self.folder.log.exists():
            _cut_torn_line(self.folder.log)
        self._file = self.folder.log.open("ab")

    def publish(self, record: Record) -> None:
        line = {
            "schema": SCHEMA,
            "time_s": self.clock(),
            "kind": type(record).__name__,
            "data": to_data(record),
        }
        with self._lock:
            self._file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def read_suite(folder: SuiteFolder) -> list[Record]:
    """All whole records, first the start; raises `UsageError` on a log that is none."""
    whole, _, _ = folder.log.read_bytes().rpartition(b"\n")
    records: list[Record] = []
    for number, line in enumerate(whole.split(b"\n"), 1):
        try:
            row = json.loads(line)
            records.append(from_data(row["data"], _KINDS[row["schema"], row["kind"]]))
        except (ValueError, KeyError, TypeError, msgspec.ValidationError) as error:
            raise UsageError(
                f"{folder.log}, line {number}: not a suite's record: {error}"
            ) from error
    if not records or not isinstance(records[0], SuiteStarted):
        raise UsageError(f"{folder.log} does not begin with the start of a suite")
    return records


def started(folder: SuiteFolder) -> SuiteStarted:
    """The suite's first record."""
    first = read_suite(folder)[0]
    assert isinstance(first, SuiteStarted)
    return first


def total_of(records: Sequence[Record]) -> float | None:
    """Dollars for all problems together, as it was said last."""
    reported = [r.total_usd for r in records if isinstance(r, SuiteStarted | SuiteResumed)]
    return next((total for total in reversed(reported) if total is not None), None)


def _cut_torn_line(log: Path) -> None:
    """A line that a kill cut off in mid-write goes away."""
    whole, newline, torn = log.read_bytes().rpartition(b"\n")
    if torn:
        with log.open("r+b") as file:
            file.truncate(len(whole) + len(newline))
