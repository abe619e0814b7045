"""The turns that an interruption left without an outcome, as steps to take first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kernelagent.domain.events import Remarked, TurnDropped
from kernelagent.domain.history import Message, Turn
from kernelagent.loop.loop_state import LoopState
from kernelagent.loop.queries.query import QueryRunner
from kernelagent.models import ModelQuery
from kernelagent.prompts import prompt_hash
from kernelagent.storage.run_state import Unfinished


@dataclass(frozen=True)
class UnfinishedTurns:
    """`kept_prompt`: what a turn was asked, where the run's folder still has it."""

    state: LoopState
    queries: QueryRunner
    turns: Sequence[Unfinished]
    kept_prompt: Callable[[int], tuple[Message, ...] | None]

    def answered(self) -> list[Turn]:
        """Those whose reply is in the log."""
        return [item.turn for item in self.turns if item.answered]

    def still_asked(self) -> list[ModelQuery]:
        """Those whose models may still answer; the others are dropped."""
        waiting = [item for item in self.turns if not item.answered]
        able = self.queries.models.keys() - self.state.history.exhausted
        for item in waiting:
            if item.turn.request.model not in able:
                why = "its model is not asked any more"
                self.state.publish(TurnDropped(item.turn.index, why))
        return [self._again(item) for item in waiting if item.turn.request.model in able]

    def _again(self, unfinished: Unfinished) -> ModelQuery:
        """The query of a turn that has begun, with the prompt it had."""
        turn, history = unfinished.turn, self.state.history
        messages = self.kept_prompt(turn.index)
        if messages is not None and prompt_hash(messages) == unfinished.prompt_sha256:
            query = ModelQuery(
                turn.index, turn.request, messages, history, notify=self.queries.notify
            )
            return replace(query, calling=self.queries.calling_of(query))
        text = f"the prompt of turn {turn.index} is not in the run's folder any more: written anew"
        self.state.publish(Remarked("warning", text))
        query = self.queries.rendered(ModelQuery(turn.index, turn.request, (), history))
        self.queries.begin([query])
        return query
