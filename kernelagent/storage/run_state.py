"""A run's state as a fold over its events: what resume continues from and every view reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from kernelagent.domain.candidate import Candidate, parse_reply
from kernelagent.domain.configuration.budget import Spent
from kernelagent.domain.errors import ExitStatus
from kernelagent.domain.evaluation import DeviceFacts, Evaluation
from kernelagent.domain.events import (
    CandidatesRanked,
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
    RunResumed,
    RunStarted,
    ToolCalled,
    TurnDropped,
    TurnStarted,
    TurnVoid,
    WholeModelChecked,
    WinnerMeasured,
)
from kernelagent.domain.history import History, Turn
from kernelagent.domain.problem import ProblemFacts, ProblemSpec
from kernelagent.domain.replies.tool_blocks import calls_in
from kernelagent.domain.whole_model import WholeModel
from kernelagent.prompts.feedback import void_feedback
from kernelagent.storage.steering import Steering


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
    measured: dict[int, Evaluation] = field(default_factory=dict)
    """By turn: the second evaluation of the candidates that were tried as winner."""
    begun: tuple[TurnStarted, ...] = ()
    """Turns without an outcome yet; those that have one are no longer in the `batch` of any."""
    tool_calls: dict[int, tuple[ToolCalled, ...]] = field(default_factory=dict)
    """By turn: the calls of tools before its candidate was handed in."""
    ranked: dict[int, CandidatesRanked] = field(default_factory=dict)
    """By turn: how the files of a reply with several came out."""
    steering: Steering = field(default_factory=Steering)
    whole: WholeModel | None = None
    """The whole model with the emitted module in it, where the run was over a part of one."""
    finished: RunFinished | None = None
    """None: it is still going, was killed, or goes on after its end."""
    started_s: float = 0.0
    last_s: float = 0.0
    elapsed_s: float = 0.0
    """Seconds of active time, without pauses and the time between an end and a resume."""

    def after(self, logged: Logged) -> RunState:
        """This state once `logged` has happened."""
        event, now = logged.event, logged.time_s
        # Logs older than the event `RunResumed` show a resume only by events after `RunFinished`.
        idle = not self.last_s or self.finished is not None or isinstance(event, RunResumed)
        idle = idle or self.steering.paused
        return replace(
            self,
            spent=self.spent.after(event),
            steering=self.steering.after(event),
            started_s=self.started_s or now,
            last_s=now,
            elapsed_s=self.elapsed_s + (0.0 if idle else max(0.0, now - self.last_s)),
            **{"finished": None} | self._changed_by(event),
        )

    def _changed_by(self, event: Event) -> dict[str, Any]:
        """The fields that an event sets, and their new values."""
        match event:
            case RunStarted() as e:
                return {
                    "run": e.run,
                    "problem": e.problem,
                    "config": e.config,
                    "versions": e.versions,
                }
            case ProblemDescribed() as e:
                return {"facts": e.facts, "device": e.device, "sandbox": e.sandbox}
            case TurnStarted() as e:
                begun = (*(b for b in self.begun if b.turn != e.turn), e)
                return self._with_turn(Turn(e.turn, e.request)) | {"begun": begun}
            case ReplyProgressed() as e:
                turn = self.history.turn(e.turn)
                # A turn that is asked a second time begins to arrive again.
                before = turn.arrived[: e.characters - len(e.text)]
                return self._with_turn(replace(turn, arrived=before + e.text))
            case ReplyReceived() as e:
                message = () if e.remark is None else (e.remark,)
                turn = self.history.turn(e.turn)
                answered = replace(turn, reply=e.text, finish=e.finish, arrived="")
                return self._with_turn(answered) | {"remarks": self.remarks + message}
            case ToolCalled() as e:
                calls = (*self.tool_calls.get(e.turn, ()), e)
                # What had arrived was a question; the writer begins to write again.
                asked = replace(self.history.turn(e.turn), arrived="")
                return self._with_turn(asked) | {"tool_calls": self.tool_calls | {e.turn: calls}}
            case CandidatesRanked() as e:
                return {"ranked": self.ranked | {e.turn: e}}
            case TurnVoid() as e:
                void = replace(self.history.turn(e.turn), void=e.why, feedback=void_feedback(e.why))
                return self._with_turn(void) | self._ended(e.turn)
            case TurnDropped() as e:
                return {"history": self.history.without(e.turn)} | self._ended(e.turn)
            case Evaluated() as e:
                judged = replace(
                    self.history.turn(e.turn),
                    candidate=Candidate(e.source),
                    evaluation=e.evaluation,
                    reward=e.reward,
                    feedback=e.feedback,
                )
                return self._with_turn(judged) | self._ended(e.turn)
            case ModelExhausted() as e:
                return {"history": self.history.with_exhausted(e.model)}
            case WinnerMeasured() as e:
                return {
                    "winner": e.evaluation,
                    "winner_turn": e.turn,
                    "measured": self.measured | {e.turn: e.evaluation},
                }
            case ModuleEmitted() as e:
                winner = self.measured.get(e.turn, self.winner)
                # What was found of an earlier file says nothing of this one.
                found = {"emitted": e.path, "winner_turn": e.turn, "winner": winner}
                return found | {"whole": None}
            case Remarked() as e:
                return {"remarks": (*self.remarks, e.message)}
            case RunFinished() as e:
                return {"finished": e}
            case WholeModelChecked() as e:
                return {"whole": e.whole} | self._after_the_whole(e.whole)
            case _:
                return {}

    def _after_the_whole(self, whole: WholeModel) -> dict[str, Any]:
        """A module that is wrong in the whole model was taken away again."""
        if whole.right or self.finished is None:
            return {"finished": self.finished}
        status = int(ExitStatus.NOT_FOUND)
        unused = whole.by_original and not whole.calls
        why = f"{'of no use' if unused else 'wrong'} in the whole model: {whole.why}"
        ended = replace(self.finished, outcome="none", exit_status=status, why=why)
        return {"emitted": None, "finished": ended}

    def _with_turn(self, turn: Turn) -> dict[str, Any]:
        return {"history": self.history.with_turn(turn)}

    def _ended(self, turn: int) -> dict[str, Any]:
        left = (begun for begun in self.begun if begun.turn != turn)
        return {
            "begun": tuple(replace(b, batch=tuple(t for t in b.batch if t != turn)) for b in left)
        }


def fold(events: Iterable[Logged]) -> RunState:
    """The state after all of `events`."""
    state = RunState()
    for logged in events:
        state = state.after(logged)
    return state


@dataclass(frozen=True)
class Unfinished:
    """A turn that an interruption left without an outcome."""

    turn: Turn
    """With its reply, where that was logged: it was paid for and is not asked for again."""
    prompt_sha256: str

    @property
    def answered(self) -> bool:
        """Its reply is there, or so much of it that it holds a whole candidate."""
        if self.turn.reply is not None:
            return True
        if calls_in(self.turn.arrived):
            return False
        return isinstance(parse_reply(self.turn.arrived, "lost"), Candidate)


def to_continue(state: RunState) -> tuple[History, tuple[Unfinished, ...]]:
    """The history to go on from, and the turns to finish first, in their order.

    Models are asked only when `TurnStarted` is logged for every turn of a batch. If the run was killed before that,
    the batch is dropped, and the strategy chooses again from the same history.
    """
    settled = replace(state.history, turns=state.history.finished)
    there = {begun.turn for begun in state.begun}
    left = (
        (begun, Unfinished(state.history.turn(begun.turn), begun.prompt_sha256))
        for begun in sorted(state.begun, key=lambda begun: begun.turn)
    )
    # Older logs without batches have `TurnStarted` only after the reply: nothing to ask again.
    kept = (
        item
        for begun, item in left
        if item.answered or (begun.batch and there.issuperset(begun.batch))
    )
    return settled, tuple(kept)
