"""The loop: strategy → model → candidate → evaluation → feedback, until done or out of budget.

Every step is an event; nothing here prints, and nothing here imports the user's module. Its parts:
`query` (one question), `batch` (several), `turn_outcome` (from reply to evaluation), `affordable`,
`user_control`, `unfinished_turns` (what an interruption left) and `loop_state`, which they share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import sleep

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.budget import Budget, Spent, why_spent
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.evaluation import DeviceFacts
from kernelagent.domain.events import Event
from kernelagent.domain.history import History, Message, Recalled, Turn, TurnRequest
from kernelagent.domain.problem import ProblemFacts
from kernelagent.loop.batch import Batch, number_of
from kernelagent.loop.close_enough import close_enough
from kernelagent.loop.loop_state import Earlier, LoopState
from kernelagent.loop.queries.affordable import affordable
from kernelagent.loop.queries.query import QueryRunner
from kernelagent.loop.queries.tools import ToolBudget, ToolHost, Tools
from kernelagent.loop.ranking import Ranker
from kernelagent.loop.turn_outcome import Evaluator, TurnFinisher
from kernelagent.loop.unfinished_turns import UnfinishedTurns
from kernelagent.loop.user_control import UserControl
from kernelagent.models import Model, ModelQuery, Reply
from kernelagent.storage.inbox import Commands, NoCommands
from kernelagent.storage.secrets import Redactor
from kernelagent.strategies import Strategy

_UNJUDGED = 3
"""The run ends after so many judgings in a row that took too long: a policy would go on "repairing" what is right."""
Recall = Callable[[ProblemFacts, DeviceFacts, History, TurnRequest], tuple[Recalled, ...]]


def no_recall(
    _facts: ProblemFacts, _device: DeviceFacts, _history: History, _request: TurnRequest
) -> tuple[Recalled, ...]:
    """A run without a memory."""
    return ()


def too_slow_to_judge(turns: Sequence[Turn], since: int) -> str | None:
    """Why more turns would only wait: the last few from `since` on ended at the judge's limit of time; None: they did not."""
    last = [turn for turn in turns if turn.index >= since][-_UNJUDGED:]
    if len(last) < _UNJUDGED or not all(_ran_out_of_time(turn) for turn in last):
        return None
    return (
        f"the last {_UNJUDGED} candidates could not be judged within the time allowed, and nothing was found wrong with them: "
        f"go on with --resume and a larger --judging-seconds, or begin again with smaller inputs"
    )


def _ran_out_of_time(turn: Turn) -> bool:
    reason = None if turn.evaluation is None else turn.evaluation.reason
    return (
        reason is not None
        and reason.code == "unverifiable"
        and reason.detail.get("means") == "time"
    )


@dataclass
class Session:
    """One run over one problem."""

    facts: ProblemFacts
    device: DeviceFacts
    strategy: Strategy
    models: Mapping[str, Model]
    evaluator: Evaluator
    budget: Budget
    publish: Callable[[Event], None]
    clock: Callable[[], float]
    keep_prompt: Callable[[int, Sequence[Message]], object]
    keep_candidate: Callable[[int, Candidate], object]
    on_text: Callable[[str], None] = lambda _: None
    stop_asked: Callable[[], bool] = lambda: False
    recall: Recall = no_recall
    """What earlier runs taught for a request: nothing, unless the user wants a memory."""
    commands: Commands = field(default_factory=NoCommands)
    wait: Callable[[float], object] = sleep
    config: RunConfig = field(default_factory=RunConfig)
    """The run's options. The budget is a field of its own: a training episode has a different one."""
    redact: Redactor = field(default_factory=Redactor)
    """What is asked and what is answered passes through it."""
    earlier: Earlier = field(default_factory=Earlier)
    tool_host: ToolHost | None = None
    """Who answers the writers' calls of tools; None: nobody does."""

    def __post_init__(self) -> None:
        self.state = LoopState.after(self.earlier, self.publish)
        self._first_turn = self.history.next_index
        self.tools = None
        if self.tool_host is not None and self.config.tool_calls > 0:
            self.tools = Tools(
                self.tool_host,
                self.device,
                self.state.publish,
                ToolBudget(self.config.tool_calls, self.config.tool_seconds),
                self.earlier.state.tool_calls,
            )
        self.queries = QueryRunner(
            facts=self.facts,
            device=self.device,
            models=self.models,
            publish=self.state.publish,
            keep_prompt=self.keep_prompt,
            clock=self.clock,
            one_at_a_time=self.state.lock,
            on_text=self.on_text,
            prompts=self.config.prompts,
            candidates=self.config.candidates,
            redact=self.redact,
            tools=self.tools,
        )
        self.control = UserControl(
            self.state, self.commands, self.stop_asked, self.clock, self.wait, self.models.keys()
        )
        ranker = Ranker(
            self.tool_host,
            self.device.kind,
            self.config.tool_seconds,
            self.state.publish,
            self.earlier.state.ranked,
        )
        self.turn_finisher = TurnFinisher(
            self.state, self.evaluator, self.keep_candidate, self.config, ranker
        )
        self.batch = Batch(
            self.state,
            self.models,
            self.queries,
            self.turn_finisher.finish,
            lambda: bool(self._ending()),
        )

    def run(self) -> str:
        """Turn after turn; returns a sentence saying why it ended."""
        began = self.clock()
        if why := self._ending() or self._finish_earlier():
            return why
        while True:
            if why := self._ending() or self._spent(self.clock() - began):
                return why
            if why := too_slow_to_judge(self.history.turns, since=self._first_turn):
                return why
            if why := close_enough(self.history.turns, self.config.stop_at_headroom):
                return why
            wanted = self.strategy.next_turns(self.history)
            requests = self.state.steering.requests(wanted, self.history)
            if not requests:
                return self._why_done()
            answerable = [r for r in requests if r.model not in self.history.exhausted]
            if not answerable:
                return "the strategy asks only for models that have nothing left to try"
            queries, why = self._affordable(
                self._rendered([self._recalling(r) for r in answerable])
            )
            if not queries:
                return why or self._why_done()
            self.queries.begin(queries)
            self.batch.take(queries)

    def next_ask(self) -> ModelQuery | None:
        """What the strategy would ask now, for a trainer that answers by itself; None: nothing."""
        requests = self.strategy.next_turns(self.history)
        return self._rendered(requests[:1])[0] if requests else None

    def answered(self, ask: ModelQuery, answer: Reply) -> Turn:
        """The turn that `answer` makes of `ask`, logged and judged as any other."""
        self.queries.begin([ask])
        self.turn_finisher.finish(self.queries.logged(ask, answer, 0.0))
        return self.history.turn(ask.turn)

    @property
    def history(self) -> History:
        return self.state.history

    @property
    def spent(self) -> Spent:
        return self.state.spent

    def _ending(self) -> str | None:
        return self.control.why_ending(self.budget)

    def _spent(self, running_s: float) -> str | None:
        elapsed = self.earlier.state.elapsed_s + running_s - self.control.paused_s
        return why_spent(self.state.limits(self.budget), self.spent, elapsed)

    def _affordable(self, queries: Sequence[ModelQuery]) -> tuple[list[ModelQuery], str | None]:
        return affordable(queries, self.state.limits(self.budget), self.spent, self.models)

    def _why_done(self) -> str:
        if self.history.exhausted >= set(self.models):
            return f"{', '.join(sorted(self.history.exhausted))} has nothing left to try"
        return "the strategy asks for nothing more"

    def _finish_earlier(self) -> str | None:
        """Ask and judge what an interruption left; a sentence where the budget allows no more."""
        before = self.earlier
        left = UnfinishedTurns(self.state, self.queries, before.unfinished, before.kept_prompt)
        queries, why = self._affordable(left.still_asked())
        self.batch.take(sorted([*queries, *left.answered()], key=number_of))
        return why

    def _rendered(self, requests: Sequence[TurnRequest]) -> list[ModelQuery]:
        """The queries of a batch, all from the same history.

        So neither their order nor the order of the answers makes a difference.
        """
        history, words = self.history, self.state.steering.words
        numbered = enumerate(requests, history.next_index)
        queries = [ModelQuery(index, r, (), history, added=words) for index, r in numbered]
        return [self.queries.rendered(query) for query in queries]

    def _recalling(self, request: TurnRequest) -> TurnRequest:
        # In the request, so in the log: a prompt rendered again says the same.
        lessons = self.recall(self.facts, self.device, self.history, request)
        clean = tuple(Recalled(item.lesson, self.redact(item.words)) for item in lessons)
        return replace(request, recalled=clean)
