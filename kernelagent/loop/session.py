"""The loop: strategy → model → candidate → evaluation → feedback, until done or out of budget.

Every step is an event; nothing here prints, and nothing here imports the user's module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from threading import BoundedSemaphore, RLock
from time import sleep
from typing import Protocol, TypeVar

from kernelagent.domain.budget import Budget, Cost, Spent, why_spent, why_too_dear
from kernelagent.domain.candidate import Candidate, NoCandidate, parse_reply
from kernelagent.domain.errors import ModelError
from kernelagent.domain.evaluation import DeviceFacts, Evaluation, Stage
from kernelagent.domain.events import (
    BestChanged,
    Evaluated,
    Event,
    ModelExhausted,
    Remarked,
    ReplyReceived,
    TurnDropped,
    TurnVoid,
    stage_event,
)
from kernelagent.domain.history import History, Message, Recalled, Turn, TurnRequest
from kernelagent.domain.model_options import Style
from kernelagent.domain.problem import ProblemFacts
from kernelagent.domain.rewards import RewardWeights, reward
from kernelagent.loop.concurrent_queries import ConcurrentQuery
from kernelagent.loop.query import QueryRunner
from kernelagent.models import Concurrent, Exhausted, Model, ModelQuery, NotAnswered, Priced, Reply
from kernelagent.prompts import prompt_hash
from kernelagent.prompts.feedback import feedback_for, void_feedback
from kernelagent.prompts.repeats import came_back, same_as, summary
from kernelagent.storage.inbox import Commands, NoCommand, NoCommands
from kernelagent.storage.run_state import Unfinished
from kernelagent.storage.secrets import Redactor
from kernelagent.storage.steering import Steering, decide
from kernelagent.strategies import Strategy

Amount = TypeVar("Amount", int, float)
Publish = Callable[[Event], None]
Recall = Callable[[ProblemFacts, DeviceFacts, History, TurnRequest], tuple[Recalled, ...]]
Step = ModelQuery | Turn
"""A question, or a turn whose reply is known already."""
LOOK_S = 0.2
"""How often a paused run looks into its inbox."""
_CHARACTERS_PER_TOKEN = 4
"""Estimates the tokens of a reply whose end was lost, and with it the reported count."""


class Evaluator(Protocol):
    """Judges candidates; a failed candidate is a value, a failed judge raises."""

    def evaluate(self, candidate: Candidate, on_stage: Callable[[Stage], None]) -> Evaluation: ...


def no_recall(
    _facts: ProblemFacts, _device: DeviceFacts, _history: History, _request: TurnRequest
) -> tuple[Recalled, ...]:
    """A run without a memory."""
    return ()


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
    recall: Recall = no_recall
    """What earlier runs taught for a request: nothing, unless the user wants a memory."""
    commands: Commands = field(default_factory=NoCommands)
    steering: Steering = field(default_factory=Steering)
    wait: Callable[[float], object] = sleep
    weights: RewardWeights = field(default_factory=RewardWeights)
    prompts: Style = "strong"
    history: History = field(default_factory=History)
    spent: Spent = field(default_factory=Spent)
    elapsed_before_s: float = 0.0
    begun: Sequence[Unfinished] = ()
    """What an interruption left without an outcome, in the order of the turns: finished first."""
    kept_prompt: Callable[[int], tuple[Message, ...] | None] = lambda _: None
    redact: Redactor = field(default_factory=Redactor)
    """What is asked and what is answered passes through it."""
    _one_at_a_time: AbstractContextManager[object] = field(default_factory=RLock)
    """Replies arrive in threads of their own; the log has one writer at a time."""
    _paused_s: float = 0.0

    def __post_init__(self) -> None:
        self._asking = QueryRunner(
            facts=self.facts,
            device=self.device,
            models=self.models,
            publish=self._publish,
            keep_prompt=self.keep_prompt,
            clock=self.clock,
            one_at_a_time=self._one_at_a_time,
            on_text=self.on_text,
            prompts=self.prompts,
            redact=self.redact,
        )

    def run(self) -> str:
        """Turn after turn; returns a sentence saying why it ended."""
        began = self.clock()
        if why := self._steer() or self._finish_begun():
            return why
        while True:
            if why := self._steer():
                return why
            elapsed = self.elapsed_before_s + self.clock() - began - self._paused_s
            if why := why_spent(self._limits, self.spent, elapsed):
                return why
            asked = self.strategy.next_turns(self.history)
            requests = self.steering.requests(asked, self.history)
            if not requests:
                return self._why_done()
            willing = [r for r in requests if r.model not in self.history.exhausted]
            if not willing:
                return "the strategy asks only for models that have nothing left to try"
            asks, why = self._affordable(self._batch([self._recalling(r) for r in willing]))
            if not asks:
                return why or self._why_done()
            self._asking.begin(asks)
            self._take(asks)

    def _steer(self) -> str | None:
        """Apply the user's commands, waiting while paused; the reason where the run is to end now."""
        self._take_commands()
        if self.steering.paused:
            self._pause()
        return "stopped by the user" if self.stop_asked() else self.steering.why_ending

    def _pause(self) -> None:
        began = self.clock()
        while self.steering.paused and not (self.steering.ending or self.stop_asked()):
            self.wait(LOOK_S)
            self._take_commands()
        self._paused_s += self.clock() - began

    def _take_commands(self) -> None:
        for command in self.commands.waiting():
            if isinstance(command, NoCommand):
                self._publish(Remarked("warning", command.why))
            elif command.id not in self.steering.taken:
                self._publish(decide(command, self.steering, self.history, self.budget))
            self.commands.done(command.id)

    @property
    def _limits(self) -> Budget:
        return self.steering.raised(self.budget)

    def _why_done(self) -> str:
        if self.history.exhausted >= set(self.models):
            return f"{', '.join(sorted(self.history.exhausted))} has nothing left to try"
        return "the strategy asks for nothing more"

    def _finish_begun(self) -> str | None:
        """Ask and judge what an interruption left; a sentence where the budget allows no more."""
        asks, why = self._affordable([self._again(item) for item in self._still_asked()])
        answered = [item.turn for item in self.begun if item.answered]
        self._take(sorted([*asks, *answered], key=_number))
        return why

    def _still_asked(self) -> list[Unfinished]:
        """The turns without an answer whose models may still give one; the others are dropped."""
        waiting = [item for item in self.begun if not item.answered]
        able = self.models.keys() - self.history.exhausted
        for item in waiting:
            if item.turn.request.model not in able:
                self._drop(item.turn.index, "its model is not asked any more")
        return [item for item in waiting if item.turn.request.model in able]

    def _again(self, one: Unfinished) -> ModelQuery:
        """The question of a turn that has begun, with the prompt it had."""
        turn, messages = one.turn, self.kept_prompt(one.turn.index)
        if messages is not None and prompt_hash(messages) == one.prompt_sha256:
            return ModelQuery(
                turn.index, turn.request, messages, self.history, tell=self._asking.tell
            )
        text = f"the prompt of turn {turn.index} is not in the run's folder any more: written anew"
        self._publish(Remarked("warning", text))
        ask = self._asking.rendered(ModelQuery(turn.index, turn.request, (), self.history))
        self._asking.begin([ask])
        return ask

    def _batch(self, requests: Sequence[TurnRequest]) -> list[ModelQuery]:
        """The questions of a batch, all from the same history.

        So neither their order nor the order of the answers makes a difference.
        """
        numbered = enumerate(requests, self.history.next_index)
        message = self.steering.words
        asks = [ModelQuery(index, r, (), self.history, added=message) for index, r in numbered]
        return [self._asking.rendered(ask) for ask in asks]

    def _recalling(self, request: TurnRequest) -> TurnRequest:
        # In the request, so in the log: a prompt rendered again says the same.
        reported = self.recall(self.facts, self.device, self.history, request)
        clean = tuple(Recalled(item.lesson, self.redact(item.words)) for item in reported)
        return replace(request, recalled=clean)

    def _affordable(self, asks: Sequence[ModelQuery]) -> tuple[list[ModelQuery], str | None]:
        """The asks that the budget allows side by side, and why it allows no more."""
        allowed: list[ModelQuery] = []
        spent, budget = self.spent, self._limits
        for asked in asks:
            ask = replace(
                asked,
                tokens_left=_left(budget.tokens, spent.tokens),
                dollars_left=_left(budget.dollars, spent.dollars),
            )
            model = self.models[ask.request.model]
            most = Cost()
            if isinstance(model, Priced):
                most = model.worst_case(ask.messages, ask.tokens_left)
            why = why_spent(budget, spent, 0.0) or why_too_dear(budget, spent, most)
            if why is not None:
                return allowed, why
            allowed.append(ask)
            spent = spent.with_ask(most)
        return allowed, None

    def _take(self, steps: Sequence[Step]) -> None:
        """Ask, side by side where the models allow it, and evaluate in the order of the turns."""
        asks = [step for step in steps if isinstance(step, ModelQuery)]
        models = [self.models[ask.request.model] for ask in asks]
        able = [model.most_in_flight for model in models if isinstance(model, Concurrent)]
        if len(asks) > 1 and len(able) == len(asks):
            self._take_side_by_side(steps, min(able))
            return
        for step in steps:
            if self._steer():
                return
            if isinstance(step, Turn):
                self.resume_turn(step)
            elif step.request.model in self.history.exhausted:
                self._drop(step.turn, "its model has nothing left to try")
            else:
                self._settle(step, self._asking.ask(replace(step, history=self.history)))

    def _take_side_by_side(self, steps: Sequence[Step], most: int) -> None:
        """An ask that failed costs no other's reply; the run ends with it all the same.

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
            if not self._steer():
                self._settle(step, result)
        if failed:
            raise failed[0]

    def _answer(self, step: Step) -> Turn | Exhausted | NotAnswered:
        return step if isinstance(step, Turn) else self._asking.ask(step)

    def _settle(self, step: Step, answer: Turn | Exhausted | NotAnswered) -> None:
        if isinstance(answer, Turn):
            self.resume_turn(answer)
        elif isinstance(answer, Exhausted):
            self._publish(ModelExhausted(step.request.model, answer.message))
            self.history = self.history.with_exhausted(step.request.model)
            self._drop(_number(step), "its model has nothing left to try")

    def _drop(self, turn: int, why: str) -> None:
        self._publish(TurnDropped(turn, why))

    def resume_turn(self, turn: Turn) -> None:
        """Go on with a turn whose reply is in the log; whole, or so far as it had come before a kill."""
        if turn.reply is None:
            tokens = len(turn.arrived) // _CHARACTERS_PER_TOKEN
            received = ReplyReceived(
                turn.index,
                turn.request.model,
                turn.arrived,
                tokens_out=tokens,
                finish="lost",
            )
            self._publish(received)
            turn = replace(turn, reply=turn.arrived, finish="lost", arrived="")
        self.resolve(turn)

    def next_ask(self) -> ModelQuery | None:
        """What the strategy would ask now, for a trainer that answers by itself; None: nothing."""
        requests = self.strategy.next_turns(self.history)
        if not requests:
            return None
        return self._batch(requests[:1])[0]

    def answered(self, ask: ModelQuery, answer: Reply) -> Turn:
        """The turn that `answer` makes of `ask`, logged and judged as any other."""
        self._asking.begin([ask])
        self.resolve(self._asking.logged(ask, answer, 0.0))
        return self.history.turn(ask.turn)

    def resolve(self, turn: Turn) -> None:
        """Evaluate a turn whose reply is known (fresh, or left over from an interrupted run)."""
        self.history = self.history.with_turn(turn)
        parsed = parse_reply(turn.reply or "", turn.finish)
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
                turn.finish,
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
            finish=turn.finish,
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
            candidate, lambda stage: self._publish(stage_event(index, stage))
        )

    def _publish(self, event: Event) -> None:
        with self._one_at_a_time:
            self.spent = self.spent.after(event)
            self.steering = self.steering.after(event)
            self.publish(event)


def _left(limit: Amount | None, used: Amount) -> Amount | None:
    return None if limit is None else limit - used


def _number(step: Step) -> int:
    return step.index if isinstance(step, Turn) else step.turn
