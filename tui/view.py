"""What the screens show of a run: the run's own fold, and beside it what only a viewer asks for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from kernelagent.domain.better import better
from kernelagent.domain.evaluation import Evaluation, Stage
from kernelagent.domain.events import (
    Evaluated,
    Logged,
    ReplyProgressed,
    ReplyReceived,
    RunFinished,
    StageFinished,
    StageProgressed,
    Steered,
    ToolCalled,
    TurnDropped,
    TurnStarted,
    TurnVoid,
    WinnerMeasured,
)
from kernelagent.domain.history import Turn
from kernelagent.prompts.wording import doing_after, line_for
from kernelagent.storage.run_state import RunState

Axis = Literal["turns", "tokens", "dollars", "seconds"]
AXES: tuple[Axis, ...] = ("turns", "tokens", "dollars", "seconds")
_LINES = 200
_STREAM_CHARACTERS = 4000
"""Of a reply that is arriving, as much as a screen can show."""


@dataclass(frozen=True)
class Point:
    """The best number once a turn was over, and what had been spent by then."""

    turn: int
    tokens: int
    dollars: float
    seconds: float
    ratio: float
    """The best speedup or estimate by then; 0 before the first was accepted."""

    def at(self, axis: Axis) -> float:
        return self.turn + 1 if axis == "turns" else float(getattr(self, axis))


@dataclass(frozen=True)
class Spending:
    """What one turn cost."""

    tokens_in: int = 0
    tokens_out: int = 0
    dollars: float | None = None
    seconds: float = 0.0


@dataclass
class View:
    """Everything a screen shows, as of the last event taken."""

    state: RunState = field(default_factory=RunState)
    best: Turn | None = None
    points: list[Point] = field(default_factory=list)
    doing: str | None = "waiting for the first event"
    since_s: float = 0.0
    """When `doing` began, in seconds since the epoch."""
    measuring: bool = False
    """True while the latest event is a `StageProgressed`: the next of these leaves `since_s` as it is, so that the time
    shown is that of the whole stage."""
    active: int | None = None
    """The turn that the last event was about."""
    arriving: dict[int, str] = field(default_factory=dict)
    """By turn: the end of what has come of its reply; gone once the reply is there."""
    characters: dict[int, int] = field(default_factory=dict)
    stages: tuple[Stage, ...] = ()
    """Of the candidate that is being judged."""
    spendings: dict[int, Spending] = field(default_factory=dict)
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_LINES))
    steered: list[Steered] = field(default_factory=list)
    events: int = 0
    turns_changed: int = 0
    """Incremented when a turn changes, so that the tree is drawn again."""

    def take_all(self, events: Iterable[Logged]) -> None:
        """Events that were read together; the pieces of a reply are taken as one."""
        for logged, count in _joined(events):
            self.take(logged)
            self.events += count - 1

    def take(self, logged: Logged) -> None:
        """One event more."""
        self.state = self.state.after(logged)
        self.events += 1
        if (line := line_for(logged)) is not None:
            self.lines.append(line)
        doing = doing_after(logged)
        if not isinstance(logged.event, (Steered, ReplyProgressed)) or doing == "paused":
            going_on = isinstance(logged.event, StageProgressed) and self.measuring
            if doing != self.doing and not going_on:
                self.since_s = logged.time_s
            self.doing = doing
            self.measuring = isinstance(logged.event, StageProgressed)
        self._note(logged)

    def _note(self, logged: Logged) -> None:
        match logged.event:
            case TurnStarted() as e:
                self._touch(e.turn)
                self.stages = ()
            case ReplyProgressed() as e:
                if e.turn not in self.arriving:
                    self._touch(e.turn)
                known = self.arriving.get(e.turn, "") + e.text
                self.arriving[e.turn] = known[-_STREAM_CHARACTERS:]
                self.characters[e.turn] = e.characters
                self.active = e.turn
            case ReplyReceived() as e:
                self._forget_arriving(e.turn)
                self._touch(e.turn)
                self.stages = ()
                self.spendings[e.turn] = Spending(e.tokens_in, e.tokens_out, e.dollars, e.seconds)
            case ToolCalled() as e:
                # A writer that has called begins to write again.
                self._forget_arriving(e.turn)
                self._touch(e.turn)
            case StageFinished() as e:
                same = e.turn == self.active
                self.stages = (*self.stages, e.stage) if same else (e.stage,)
                self.active = e.turn
            case StageProgressed() as e:
                self.active = e.turn
            case TurnVoid() | TurnDropped() as e:
                self._forget_arriving(e.turn)
                self._touch(e.turn)
                self._mark(e.turn)
            case Evaluated() as e:
                self._touch(e.turn)
                turn = self.state.history.turn(e.turn)
                if turn.accepted and (self.best is None or _better(turn, self.best)):
                    self.best = turn
                self._mark(e.turn)
            case Steered() as e:
                self.steered.append(e)
                self.turns_changed += 1
                if e.act == "resume" and e.refused is None:
                    self.doing, self.since_s = "choosing what to ask", logged.time_s
            case WinnerMeasured() | RunFinished():
                self.stages = ()
                self.turns_changed += 1

    def _touch(self, turn: int) -> None:
        self.active = turn
        self.turns_changed += 1

    def _forget_arriving(self, turn: int) -> None:
        self.arriving.pop(turn, None)
        self.characters.pop(turn, None)

    def _mark(self, turn: int) -> None:
        spent = self.state.spent
        result = None if self.best is None else self.best.evaluation
        ratio = 0.0 if result is None else ratio_of(result)
        self.points.append(Point(turn, spent.tokens, spent.dollars, self.state.elapsed_s, ratio))

    @property
    def shown(self) -> tuple[int, Evaluation, bool] | None:
        """Turn and evaluation to show as the best, and whether it was judged again."""
        state = self.state
        if state.emitted is not None and state.winner is not None and state.winner_turn is not None:
            return state.winner_turn, state.winner, True
        if self.best is None or self.best.evaluation is None:
            return None
        return self.best.index, self.best.evaluation, False

    @property
    def paused(self) -> bool:
        return self.state.steering.paused

    @property
    def finished(self) -> RunFinished | None:
        return self.state.finished


def _joined(events: Iterable[Logged]) -> Iterator[tuple[Logged, int]]:
    """The events, pieces of one reply that follow upon each other joined; and how many each is."""
    last, count = None, 0
    for logged in events:
        joined = None if last is None else _follows(last, logged)
        if last is not None and joined is None:
            yield last, count
        last, count = (logged, 1) if joined is None else (joined, count + 1)
    if last is not None:
        yield last, count


def _follows(before: Logged, logged: Logged) -> Logged | None:
    item, other = before.event, logged.event
    if not isinstance(item, ReplyProgressed) or not isinstance(other, ReplyProgressed):
        return None
    begins = other.characters - len(other.text)
    if item.turn != other.turn or item.characters != begins or logged.time_s < before.time_s:
        return None
    return replace(logged, event=replace(other, text=item.text + other.text))


def ratio_of(evaluation: Evaluation) -> float:
    """The speedup over eager, or the estimate of it, or 1 where there is neither."""
    if evaluation.timing is not None:
        return evaluation.timing.speedup_eager.value
    return evaluation.estimate.ratio if evaluation.estimate is not None else 1.0


def _better(turn: Turn, than: Turn) -> bool:
    if turn.evaluation is None or than.evaluation is None:
        return than.evaluation is None
    return better(turn.evaluation, than.evaluation)
