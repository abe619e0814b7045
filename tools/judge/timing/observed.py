"""What a candidate's process tells of its device: launches, a trace, a graph's time, machine code.

All of it is reported by an untrusted process: read as data, shown to people and models, and never
part of a verdict on correctness or of a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import ValidationError

from kernelagent.domain.serialization import from_data
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.virtual.compiled.sass import MachineFacts

if TYPE_CHECKING:
    from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess

T = TypeVar("T")


@dataclass(frozen=True)
class LaunchRow:
    """One launch of a kernel that stands in the candidate's file."""

    kernel: str
    compiled: str
    """The name the device knows it by."""
    hash: str
    """Of the compiled kernel: one per specialisation."""
    line: int
    grid: tuple[int, int, int]
    options: dict[str, int]
    metadata: dict[str, int]


@dataclass(frozen=True)
class NotCompiled:
    """Why Triton did not compile a kernel that stands in the candidate's file."""

    message: str
    detail: dict[str, Any]


@dataclass(frozen=True)
class Event:
    """One event of a trace, as Kineto writes it; times in microseconds."""

    cat: str
    name: str
    ts: float
    dur: float
    pid: int | str = 0
    tid: int | str = 0
    correlation: int | None = None


@dataclass(frozen=True)
class Observed:
    """One steady forward of a candidate, seen from its own process."""

    events: tuple[Event, ...] = ()
    launches: tuple[LaunchRow, ...] = ()
    known: tuple[LaunchRow, ...] = ()
    """The first launch of every kernel since the process began; a CUDA graph may repeat it unseen."""
    failures: tuple[NotCompiled, ...] = ()
    """Of kernels that did not compile since the process began, whoever caught the exception."""
    facts: dict[str, MachineFacts] = field(default_factory=dict)
    """By content hash."""
    no_trace: str | None = None
    """Why there are no events, in one line."""


def observe(process: CandidateProcess, arguments: Arguments, prefix: str, target: str) -> Observed:
    """Trace one forward on `arguments`; own launches stand in annotations called `prefix` and a number."""
    reported = process.ask_about_device({"kind": "trace", "prefix": prefix}, arguments)
    result = process.ask_about_device({"kind": "facts", "target": target}, None)
    why_not = reported.get("why_not")
    return Observed(
        tuple(rows_of(reported.get("events"), list[Event])),
        tuple(rows_of(reported.get("launches"), list[LaunchRow])),
        tuple(rows_of(reported.get("known"), list[LaunchRow])),
        tuple(rows_of(reported.get("failures"), list[NotCompiled])),
        rows_of(result.get("facts"), dict[str, MachineFacts]),
        None if why_not is None else str(why_not)[:300],
    )


def suppress(process: CandidateProcess) -> None:
    """From now on no launch of the candidate's own kernels runs."""
    process.ask_about_device({"kind": "suppress"}, None)


def graph_time(process: CandidateProcess, arguments: Arguments) -> tuple[float | None, str | None]:
    """Microseconds of one forward replayed from a CUDA graph, or one line why there is no graph of it."""
    reported = process.ask_about_device({"kind": "graph"}, arguments)
    us, why_not = reported.get("us"), reported.get("why_not")
    if isinstance(us, int | float) and us > 0:
        return float(us), None
    return None, str(why_not or "its process gave no time").splitlines()[0][:300]


def rows_of(data: Any, kind: type[T]) -> T:
    """Raises `Rejected` for what is not of that kind."""
    try:
        return from_data(data, kind)
    except ValidationError as error:
        raise Rejected(
            "tampering",
            f"what the candidate's process tells of itself is not well formed: {error}",
        ) from error
