"""The turns of one batch: asked side by side where the models allow it, finished in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import BoundedSemaphore

from kernelagent.domain.errors import ModelError
from kernelagent.domain.events import ModelExhausted, TurnDropped
from kernelagent.domain.history import Turn
from kernelagent.loop.loop_state import LoopState
from kernelagent.loop.queries.concurrent_queries import ConcurrentQuery
from kernelagent.loop.queries.query import QueryRunner
from kernelagent.models import Concurrent, Exhausted, Model, ModelQuery, NotAnswered

Step = ModelQuery | Turn
"""A query, or a turn whose reply is known already."""


@dataclass(frozen=True)
class Batch:
    """Takes the steps of a batch to their outcomes."""

    state: LoopState
    models: Mapping[str, Model]
    queries: QueryRunner
    finish: Callable[[Turn], None]
    ending: Callable[[], bool]
    """Whether the user wants the run to end; asked before each step."""

    def take(self, steps: Sequence[Step]) -> None:
        """Ask and finish; raises `ModelError`."""
        asks = [step for step in steps if isinstance(step, ModelQuery)]
        models = [self.models[ask.request.model] for ask in asks]
        able = [model.most_in_flight for model in models if isinstance(model, Concurrent)]
        if len(asks) > 1 and len(able) == len(asks):
            self._side_by_side(steps, min(able))
        else:
            self._one_by_one(steps)

    def drop(self, turn: int, why: str) -> None:
        """A turn that is not asked any more."""
        self.state.publish(TurnDropped(turn, why))

    def _one_by_one(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if self.ending():
                return
            if isinstance(step, Turn):
                self.finish(step)
            elif step.request.model in self.state.history.exhausted:
                self.drop(step.turn, "its model has nothing left to try")
            else:
                answer = self.queries.ask(replace(step, history=self.state.history))
                self._handle(step, answer)

    def _side_by_side(self, steps: Sequence[Step], most: int) -> None:
        """A query that failed costs no other's reply; the run ends with it all the same.

        When the user wants to stop, replies are waited for and stay in the log for `--resume`.
        """
        places = BoundedSemaphore(most)
        answers = [ConcurrentQuery(partial(self._answer, step), places) for step in steps]
        failed: list[ModelError] = []
        for step, answer in zip(steps, answers, strict=True):
            try:
                result = answer.result()
            except ModelError as error:
                failed.append(error)
                continue
            if not self.ending():
                self._handle(step, result)
        if failed:
            raise failed[0]

    def _answer(self, step: Step) -> Turn | Exhausted | NotAnswered:
        return step if isinstance(step, Turn) else self.queries.ask(step)

    def _handle(self, step: Step, answer: Turn | Exhausted | NotAnswered) -> None:
        if isinstance(answer, Turn):
            self.finish(answer)
        elif isinstance(answer, Exhausted):
            self.state.publish(ModelExhausted(step.request.model, answer.message))
            self.state.history = self.state.history.with_exhausted(step.request.model)
            self.drop(number_of(step), "its model has nothing left to try")


def number_of(step: Step) -> int:
    """The turn that a step belongs to."""
    return step.index if isinstance(step, Turn) else step.turn
