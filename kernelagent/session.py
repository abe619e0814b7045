"""The loop: strategy → model → candidate → evaluation → feedback, until done or out of budget.

Every step is an event; nothing here prints, and nothing here imports the user's module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from kernelagent.budget import Budget, Cost, Spent, why_spent, why_too_dear
from kernelagent.candidate import Candidate, NoCandidate, parse_reply
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
from kernelagent.models import Ask, Exhausted, Model, Priced
from kernelagent.problem import ProblemFacts
from kernelagent.prompts import prompt_hash, render_prompt
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
    history: History = field(default_factory=History)
    spent: Spent = field(default_factory=Spent)
    elapsed_before_s: float = 0.0

    def run(self) -> str:
        """Turn after turn; returns a sentence saying why it ended."""
        began = self.clock()
        while True:
            elapsed = self.elapsed_before_s + self.clock() - began
            if why := why_spent(self.budget, self.spent, elapsed):
                return why
            requests = self.strategy.next_turns(self.history)
            if not requests:
                return self._why_done()
            for request in requests:
                if why := why_spent(self.budget, self.spent, elapsed):
                    return why
                if self.stop_asked():
                    return "stopped by the user"
                if request.model in self.history.exhausted:
                    continue
                if (why := self._take(request)) is not None:
                    return why

    def _why_done(self) -> str:
        if self.history.exhausted >= set(self.models):
            return f"{', '.join(sorted(self.history.exhausted))} has nothing left to try"
        return "the strategy asks for nothing more"

    def _take(self, request: TurnRequest) -> str | None:
        """Ask and evaluate; returns why the run must end instead, when the ask is too dear."""
        index = len(self.history.turns)
        messages = render_prompt(self.facts, self.device, self.history, request)
        model = self.models[request.model]
        limit = self.budget.tokens
        left = None if limit is None else limit - self.spent.tokens
        most = model.worst_case(messages, left) if isinstance(model, Priced) else Cost()
        if (why := why_too_dear(self.budget, self.spent, most)) is not None:
            return why
        began = self.clock()
        answer = model.reply(Ask(index, request, messages, self.history, left), self.on_text)
        if isinstance(answer, Exhausted):
            self._publish(ModelExhausted(request.model, answer.message))
            self.history = self.history.with_exhausted(request.model)
            return None
        self.keep_prompt(index, messages)
        self._publish(TurnStarted(index, request, prompt_hash(messages)))
        self._publish(
            ReplyReceived(
                turn=index,
                model=request.model,
                text=answer.text,
                tokens_in=answer.tokens_in,
                tokens_out=answer.tokens_out,
                dollars=answer.dollars,
                finish=answer.finish,
                seconds=self.clock() - began,
            )
        )
        if answer.remark is not None:
            self._publish(Remarked("warning", answer.remark))
        self.resolve(Turn(index, request, answer.text))
        return None

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
        self.spent = self.spent.after(event)
        self.publish(event)
