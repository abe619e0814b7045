"""The loop: strategy → model → candidate → evaluation → feedback, until done or out of budget.

Every step is an event; nothing here prints, and nothing here imports the user's module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from threading import BoundedSemaphore, RLock
from typing import Protocol

from kernelagent.budget import Budget, Cost, Spent, why_spent, why_too_dear
from kernelagent.candidate import Candidate, NoCandidate, parse_reply
from kernelagent.errors import ModelError
from kernelagent.evaluation import DeviceFacts, Evaluation, Stage
from kernelagent.events import (
    BestChanged,
    Evaluated,
    Event,
    ModelExhausted,
    Remarked,
    ReplyReceived,
    StageFinished,
    TurnStarted,
    TurnVoid,
)
from kernelagent.feedback import feedback_for, void_feedback
from kernelagent.history import History, Message, Turn, TurnRequest
from kernelagent.in_flight import InFlight
from kernelagent.models import Ask, Concurrent, Exhausted, Model, NotAnswered, Priced, Reply
from kernelagent.problem import ProblemFacts
from kernelagent.prompts import Style, prompt_hash, prompts_version, render_prompt
from kernelagent.rewards import RewardWeights, reward
from kernelagent.strategies import Strategy
from kernelagent.tried import came_back, same_as, summary

Publish = Callable[[Event], None]


class Evaluator(Protocol):
    """Whoever judges candidates; a failed candidate is a value, a failed judge raises."""

    def evaluate(self, candidate: Candidate, on_stage: Callable[[Stage], None]) -> Evaluation: ...


@dataclass
class Session:
    """One run over one problem; `history` may come from an earlier, interrupted run."""

    facts: ProblemFacts
    device: DeviceFacts
    strategy: Strategy
    models: Mapping[str, Model]
    evaluator: Evaluator
    budget: Budget
    publish: Publish
    clock: Callable[[], float]
    keep_prompt: Callable[[int, Sequence[Message]], object]
    keep_candidate: Callable[[int, Candidate], object]
    on_text: Callable[[str], None] = lambda _: None
    stop_asked: Callable[[], bool] = lambda: False
    weights: RewardWeights = field(default_factory=RewardWeights)
    prompts: Style = "strong"
    history: History = field(default_factory=History)
    spent: Spent = field(default_factory=Spent)
    elapsed_before_s: float = 0.0
    _one_at_a_time: AbstractContextManager[object] = field(default_factory=RLock)
    """Replies arrive in threads of their own; the log has one writer at a time."""

    def run(self) -> str:
        """Turn after turn; returns a sentence saying why it ended."""
        began = self.clock()
        while True:
            if self.stop_asked():
                return "stopped by the user"
            elapsed = self.elapsed_before_s + self.clock() - began
            if why := why_spent(self.budget, self.spent, elapsed):
                return why
            requests = self.strategy.next_turns(self.history)
            if not requests:
                return self._why_done()
            asks, why = self._affordable(requests)
            self._take(asks)
            if why is not None:
                return why

    def _why_done(self) -> str:
        if self.history.exhausted >= set(self.models):
            return f"{', '.join(sorted(self.history.exhausted))} has nothing left to try"
        return "the strategy asks for nothing more"

    def _affordable(self, requests: Sequence[TurnRequest]) -> tuple[list[Ask], str | None]:
        """The asks that the budget allows side by side, and why it allows no more.

        All prompts of a batch are rendered from the same history, so that neither their order nor
        the order of the answers makes a difference.
        """
        asks: list[Ask] = []
        spent, limit = self.spent, self.budget.tokens
        willing = [r for r in requests if r.model not in self.history.exhausted]
        if not willing:
            return [], "the strategy asks only for models that have nothing left to try"
        for index, request in enumerate(willing, self.history.next_index):
            left = None if limit is None else limit - spent.tokens
            messages = render_prompt(
                self.facts, self.device, self.history, request, style=self.prompts
            )
            model = self.models[request.model]
            most = model.worst_case(messages, left) if isinstance(model, Priced) else Cost()
            why = why_spent(self.budget, spent, 0.0) or why_too_dear(self.budget, spent, most)
            if why is not None:
                return asks, why
            asks.append(Ask(index, request, messages, self.history, left))
            spent = spent.with_ask(most)
        return asks, None

    def _take(self, asks: Sequence[Ask]) -> None:
        """Ask, side by side where the models allow it, and evaluate in the order of the turns."""
        models = [self.models[ask.request.model] for ask in asks]
        able = [model.most_in_flight for model in models if isinstance(model, Concurrent)]
        if len(asks) > 1 and len(able) == len(asks):
            self._take_side_by_side(asks, min(able))
            return
        for ask in asks:
            if self.stop_asked() or ask.request.model in self.history.exhausted:
                continue
            self._settle(ask, self._ask(replace(ask, history=self.history)))

    def _take_side_by_side(self, asks: Sequence[Ask], most: int) -> None:
        """An ask that failed costs no other's reply; the run ends with it all the same.

        When the user wants to stop, replies are waited for and stay in the log for `--resume`.
        """
        places = BoundedSemaphore(most)
        answers = [InFlight(partial(self._ask, ask), places) for ask in asks]
        failed: list[ModelError] = []
        for ask, answer in zip(asks, answers, strict=True):
            try:
                found = answer.result()
            except ModelError as error:
                failed.append(error)
                continue
            if not self.stop_asked():
                self._settle(ask, found)
        if failed:
            raise failed[0]

    def _settle(self, ask: Ask, answer: Turn | Exhausted | NotAnswered) -> None:
        if isinstance(answer, Exhausted):
            self._publish(ModelExhausted(ask.request.model, answer.message))
            self.history = self.history.with_exhausted(ask.request.model)
        elif isinstance(answer, Turn):
            self.resolve(answer)

    def _ask(self, ask: Ask) -> Turn | Exhausted | NotAnswered:
        """One question; what it brought is in the log before anybody looks at it."""
        began = self.clock()
        answer = self.models[ask.request.model].reply(ask, self.on_text)
        if not isinstance(answer, Reply):
            return answer
        return self._logged(ask, answer, self.clock() - began)

    def _logged(self, ask: Ask, answer: Reply, seconds: float) -> Turn:
        with self._one_at_a_time:
            self.keep_prompt(ask.turn, ask.messages)
            asked = prompt_hash(ask.messages)
            self._publish(TurnStarted(ask.turn, ask.request, asked, prompts_version()))
            self._publish(
                ReplyReceived(
                    turn=ask.turn,
                    model=ask.request.model,
                    text=answer.text,
                    tokens_in=answer.tokens_in,
                    tokens_out=answer.tokens_out,
                    dollars=answer.dollars,
                    finish=answer.finish,
                    seconds=seconds,
                )
            )
            if answer.remark is not None:
                self._publish(Remarked("warning", answer.remark))
        return Turn(ask.turn, ask.request, answer.text)

    def next_ask(self) -> Ask | None:
        """What the strategy would ask now, for a trainer that answers by itself; None: nothing."""
        requests = self.strategy.next_turns(self.history)
        if not requests:
            return None
        messages = render_prompt(self.facts, self.device, self.history, requests[0])
        return Ask(self.history.next_index, requests[0], messages, self.history)

    def answered(self, ask: Ask, answer: Reply) -> Turn:
        """The turn that `answer` makes of `ask`, logged and judged as any other."""
        self.resolve(self._logged(ask, answer, 0.0))
        return self.history.turn(ask.turn)

    def resolve(self, turn: Turn) -> None:
        """Evaluate a turn whose reply is known (fresh, or left over from an interrupted run)."""
        self.history = self.history.with_turn(turn)
        parsed = parse_reply(turn.reply or "")
        if isinstance(parsed, Candidate) and (earlier := same_as(self.history, parsed)) is not None:
            parsed = NoCandidate(
                f"repeated: this is the candidate of turn {earlier.index} again, but for names, "
                f"comments or layout, and nothing new can come of it ({summary(earlier)}); change "
                f"what it does"
            )
        if isinstance(parsed, NoCandidate):
            self._publish(TurnVoid(turn.index, parsed.why))
            void = Turn(
                turn.index,
                turn.request,
                turn.reply,
                feedback=void_feedback(parsed.why),
                void=parsed.why,
            )
            self.history = self.history.with_turn(void)
            return
        self.keep_candidate(turn.index, parsed)
        turn = replace(turn, candidate=parsed)
        before = self.history.best
        evaluation = self._evaluate(turn.index, parsed)
        done = Turn(
            index=turn.index,
            request=turn.request,
            reply=turn.reply,
            candidate=parsed,
            evaluation=evaluation,
            feedback=self._feedback(evaluation, turn),
            reward=reward(evaluation, self.weights),
        )
        self.history = self.history.with_turn(done)
        self._publish(
            Evaluated(turn.index, parsed.id, parsed.source, evaluation, done.reward, done.feedback)
        )
        best = self.history.best
        if best is not None and (before is None or best.index != before.index):
            self._publish(BestChanged(best.index, best.score))

    def _feedback(self, evaluation: Evaluation, turn: Turn) -> str:
        again = came_back(self.history, turn)
        return feedback_for(evaluation) + (f"\n{again}" if again is not None else "")

    def _evaluate(self, index: int, candidate: Candidate) -> Evaluation:
        return self.evaluator.evaluate(
            candidate, lambda stage: self._publish(StageFinished(index, stage))
        )

    def _publish(self, event: Event) -> None:
        with self._one_at_a_time:
            self.spent = self.spent.after(event)
            self.publish(event)
