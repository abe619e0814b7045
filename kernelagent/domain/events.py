"""The events of a run: the one thing that log, terminal, report and replay read.

Each event is a line of `events.jsonl`: schema, sequence number, time, kind, and the event's fields.
Two runs are the same run when their events agree in all but the fields about time.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from kernelagent.domain.evaluation import DeviceFacts, Evaluation, Stage
from kernelagent.domain.history import TurnRequest
from kernelagent.domain.problem import NamesInFile, ProblemFacts, ProblemSpec
from kernelagent.domain.replies.tool_calls import ToolCall, ToolResult
from kernelagent.domain.serialization import Unread, from_data, from_json, to_data
from kernelagent.domain.whole_model import WholeModel

SCHEMA = "kernelagent.event/1"
Act = Literal["pause", "resume", "stop", "hint", "pin", "unpin", "ban", "unban", "budget", "emit"]
"""What a user can do to a run that goes on."""


@dataclass(frozen=True)
class RunStarted:
    """First event: everything the run was asked to do, resolved."""

    run: str
    problem: ProblemSpec
    config: dict[str, Any]
    versions: dict[str, str]
    names: NamesInFile | None = None
    """Before the judge has executed the file; None for a live module, and in older logs."""


@dataclass(frozen=True)
class ProblemDescribed:
    """The judge has read the problem."""

    facts: ProblemFacts
    device: DeviceFacts
    sandbox: str


@dataclass(frozen=True)
class RunResumed:
    """A stopped or killed run goes on; the time since the previous event does not count as run time."""

    torn_bytes: int = 0
    """Length of the last line, which a kill had torn; it was cut off and its step is done again."""


@dataclass(frozen=True)
class TurnStarted:
    """Logged before the model is asked, for every turn of a batch."""

    turn: int
    request: TurnRequest
    prompt_sha256: str
    """Hash of the rendered messages; they stand in `prompts/<turn>.json`."""
    prompts: str = ""
    """Version of the wording: its number and a hash of the templates; empty in older logs."""
    batch: tuple[int, ...] = ()
    """All turns that are asked from the same history, this one included; empty in older logs, which have this event
    after the reply."""


@dataclass(frozen=True)
class ReplyProgressed:
    """A piece of a reply that is still arriving; all of them and the rest are in `ReplyReceived`."""

    turn: int
    text: str
    characters: int
    """So far, with this piece."""


@dataclass(frozen=True)
class ReplyReceived:
    turn: int
    model: str
    text: str
    tokens_in: int = 0
    tokens_out: int = 0
    dollars: float | None = None
    """None: the price is unknown."""
    finish: str = "stop"
    seconds: float = 0.0
    thinking: str = ""
    """What a reasoning model thought first; never parsed as code."""
    remark: str | None = None
    """Something the user should know about this answer."""


@dataclass(frozen=True)
class TurnVoid:
    """The reply held nothing to evaluate; the model is told `why`."""

    turn: int
    why: str


@dataclass(frozen=True)
class TurnDropped:
    """A turn that was begun and gets no reply, for example because its model has nothing left to try."""

    turn: int
    why: str


@dataclass(frozen=True)
class ToolCalled:
    """A writer's call of a tool before it hands in a candidate; it spends no turn."""

    turn: int
    """The turn that waits for a candidate."""
    number: int
    """Of the turn's calls, from 1."""
    call: ToolCall
    answer: str
    """The words that the writer got."""
    result: ToolResult | None = None
    """None where the call was refused."""
    said: str = ""
    """What the writer wrote with the call; with the first of those that it made at once."""


@dataclass(frozen=True)
class RankedCandidate:
    """One of several files in a reply, as a look without verifying has it."""

    place: int
    """In the reply, from 1."""
    candidate: str
    """Its id."""
    us: float | None = None
    """Of one forward: an estimate on `virtual`, measured on `cuda`; None where there is none."""
    gain: float | None = None
    """The eager module's time over this one, for the input set that gains least."""
    stopped: str | None = None
    """Why it has no time: where it stops, or that it was tried before."""


@dataclass(frozen=True)
class CandidatesRanked:
    """A reply held several files: which of them is judged, and why; the others cost no turn."""

    turn: int
    ranked: tuple[RankedCandidate, ...]
    """The one that is judged first."""
    measured: bool = False
    """False: the times are estimates."""
    seconds: float = 0.0
    """What looking at them took."""

    @property
    def chosen(self) -> str:
        return self.ranked[0].candidate


@dataclass(frozen=True)
class StageFinished:
    """Progress inside an evaluation."""

    turn: int
    stage: Stage


@dataclass(frozen=True)
class StageProgressed:
    """A long stage of an evaluation is so far; a few a second at most."""

    turn: int
    stage: str
    done: int
    """Blocks of a measurement."""
    of: int
    """How many there will be at least; more where the interval is still too wide by then."""


@dataclass(frozen=True)
class Evaluated:
    turn: int
    candidate: str
    source: str
    evaluation: Evaluation
    reward: float
    feedback: str


@dataclass(frozen=True)
class BestChanged:
    turn: int
    score: float


@dataclass(frozen=True)
class ModelExhausted:
    """A model says that it has nothing left to try."""

    model: str
    message: str


@dataclass(frozen=True)
class WinnerMeasured:
    """The best of all turns, evaluated again with fresh inputs; this number is the one reported."""

    turn: int
    evaluation: Evaluation


@dataclass(frozen=True)
class ModuleEmitted:
    turn: int
    path: str
    sha256: str
    of_a_part: bool = False
    """A part of a model: `WholeModelChecked` says whether the file is kept."""


@dataclass(frozen=True)
class Steered:
    """The user's word to the run, as the controller took it from the inbox."""

    command: str
    """The command's id: none is taken twice."""
    act: Act
    text: str = ""
    """The hint, or the direction that is ruled out or allowed again."""
    turn: int | None = None
    """The turn that is pinned."""
    limits: dict[str, float] = field(default_factory=dict)
    """The new limits, by field of `Budget`."""
    refused: str | None = None
    """Why nothing came of it."""


@dataclass(frozen=True)
class Remarked:
    """Something the user should know that is no step of the run."""

    level: Literal["info", "warning"]
    message: str


@dataclass(frozen=True)
class ServerProgress:
    """A model server that this run started: starting, still starting, ready, or stopped."""

    model: str
    phase: Literal["starting", "waiting", "ready", "stopped"]
    seconds: float
    """Since it was started, or what stopping took."""
    detail: str = ""
    """Where its log stands, the log's last line, or how memory is divided."""


@dataclass(frozen=True)
class RunFinished:
    """Last event of the loop, also of an interrupted run."""

    outcome: Literal["better", "not_faster", "none", "interrupted", "failed"]
    exit_status: int
    why: str
    best_turn: int | None = None
    spent: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class WholeModelChecked:
    """After `RunFinished`, of a run over a part of a model: the whole with the emitted module in it."""

    whole: WholeModel


Event: TypeAlias = (
    RunStarted
    | RunResumed
    | ProblemDescribed
    | TurnStarted
    | ReplyProgressed
    | ReplyReceived
    | TurnVoid
    | TurnDropped
    | ToolCalled
    | CandidatesRanked
    | StageFinished
    | StageProgressed
    | Evaluated
    | BestChanged
    | ModelExhausted
    | WinnerMeasured
    | ModuleEmitted
    | Steered
    | Remarked
    | ServerProgress
    | RunFinished
    | WholeModelChecked
)


def stage_event(turn: int, stage: Stage) -> StageFinished | StageProgressed:
    """The event for a stage that the judge has reported."""
    if stage.progress is None:
        return StageFinished(turn, stage)
    return StageProgressed(turn, stage.name, *stage.progress)


Subscriber: TypeAlias = Callable[["Logged"], None]

KINDS: dict[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}
"""By the name that stands in a line of the log."""


@dataclass(frozen=True)
class Logged:
    """An event with its place in the run."""

    sequence: int
    time_s: float
    """Seconds since the epoch."""
    event: Event


class UnreadableEvent(ValueError):
    """A line of a log that is no event of a known schema."""


def to_line(logged: Logged) -> str:
    """One line of `events.jsonl`, without the newline."""
    head = {
        "schema": SCHEMA,
        "seq": logged.sequence,
        "time_s": logged.time_s,
        "kind": type(logged.event).__name__,
    }
    return json.dumps(head | {"data": to_data(logged.event)}, ensure_ascii=False)


@dataclass(frozen=True)
class _Line:
    schema: str
    seq: int
    time_s: float
    kind: str
    data: Unread


def from_line(line: str | bytes) -> Logged:
    """Inverse of `to_line`; raises `UnreadableEvent`."""
    with suppress(ValueError, KeyError):
        result = from_json(line, _Line)
        if result.schema == SCHEMA:
            return Logged(result.seq, result.time_s, from_json(result.data, KINDS[result.kind]))
    return _from_any(line)


def _from_any(line: str | bytes) -> Logged:
    """A line that is no strict JSON (Python writes Infinity and NaN), or no event at all."""
    try:
        raw = json.loads(line)
        if raw["schema"] != SCHEMA:
            raise UnreadableEvent(f"schema {raw['schema']!r} is not {SCHEMA!r}")
        return Logged(raw["seq"], raw["time_s"], from_data(raw["data"], KINDS[raw["kind"]]))
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableEvent(f"not an event: {error}: {line[:120]!r}") from error
