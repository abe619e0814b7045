"""A run's state as a fold over its events: what resume continues from and every view reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from kernelagent.budget import Spent
from kernelagent.candidate import Candidate, parse_reply
from kernelagent.evaluation import DeviceFacts, Evaluation
from kernelagent.events import (
    Evaluated,
    Event,
    Logged,
    ModelExhausted,
    ModuleEmitted,
    ProblemDescribed,
    Remarked,
    ReplyProgressed,
    ReplyReceived,
    RunFinished,
    RunStarted,
    TurnStarted,
    TurnVoid,
    WinnerMeasured,
)
from kernelagent.feedback import void_feedback
from kernelagent.history import History, Turn
from kernelagent.problem import ProblemFacts, ProblemSpec


@dataclass(frozen=True)
class RunState:
    """Everything a log says, as of its last event."""

    run: str = ""
    problem: ProblemSpec | None = None
    config: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    facts: ProblemFacts | None = None
    device: DeviceFacts | None = None
    sandbox: str = ""
    history: History = field(default_factory=History)
    spent: Spent = field(default_factory=Spent)
    winner: Evaluation | None = None
    winner_turn: int | None = None
    emitted: str | None = None
    remarks: tuple[str, ...] = ()
    finished: RunFinished | None = None
    started_s: float = 0.0
    last_s: float = 0.0

    def after(self, logged: Logged) -> RunState:
        """This state once `logged` has happened."""
        first = self.started_s or logged.time_s
        state = replace(
            self,
            spent=self.spent.after(logged.event),
            started_s=first,
            last_s=logged.time_s,
        )
        return state._with(logged.event)

    def _with(self, event: Event) -> RunState:
        match event:
            case RunStarted() as e:
                return replace(
                    self, run=e.run, problem=e.problem, config=e.config, versions=e.versions
                )
            case ProblemDescribed() as e:
                return replace(self, facts=e.facts, device=e.device, sandbox=e.sandbox)
            case TurnStarted() as e:
                return self._with_turn(Turn(e.turn, e.request))
            case ReplyProgressed() as e:
                turn = self.history.turn(e.turn)
                return self._with_turn(replace(turn, arrived=turn.arrived + e.text))
            case ReplyReceived() as e:
                turn = self.history.turn(e.turn)
                return self._with_turn(replace(turn, reply=e.text, finish=e.finish, arrived=""))
            case TurnVoid() as e:
                void = replace(self.history.turn(e.turn), void=e.why, feedback=void_feedback(e.why))
                return self._with_turn(void)
            case Evaluated() as e:
                return self._with_turn(
                    replace(
                        self.history.turn(e.turn),
                        candidate=Candidate(e.source),
                        evaluation=e.evaluation,
                        reward=e.reward,
                        feedback=e.feedback,
                    )
                )
            case ModelExhausted() as e:
                return replace(self, history=self.history.with_exhausted(e.model))
            case WinnerMeasured() as e:
                return replace(self, winner=e.evaluation, winner_turn=e.turn)
            case ModuleEmitted() as e:
                return replace(self, emitted=e.path)
            case Remarked() as e:
                return replace(self, remarks=(*self.remarks, e.message))
            case RunFinished() as e:
                return replace(self, finished=e)
            case _:
                return self

    def _with_turn(self, turn: Turn) -> RunState:
        return replace(self, history=self.history.with_turn(turn))


def fold(events: Iterable[Logged]) -> RunState:
    """The state after all of `events`."""
    state = RunState()
    for logged in events:
        state = state.after(logged)
    return state


def to_continue(state: RunState) -> tuple[History, tuple[Turn, ...]]:
    """The history to go on from, and the turns whose replies were paid for but never evaluated.

    A turn that was asked but not answered is forgotten: it is asked again, unless what had arrived
    holds a whole candidate.
    """
    answered = tuple(turn for turn in state.history.turns if not turn.pending)
    waiting = tuple(turn for turn in state.history.pending if _is_worth_keeping(turn))
    return replace(state.history, turns=answered), waiting


def _is_worth_keeping(turn: Turn) -> bool:
    if turn.reply is not None:
        return True
    return isinstance(parse_reply(turn.arrived, "lost"), Candidate)
