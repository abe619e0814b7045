"""The loop as an environment for trainers: `reset(problem)`, `step(reply)`, one turn each.

A step is the loop's own turn (`session.Session`): the reply is parsed, repeats are refused, the judge
decides, feedback and reward are what a run would log. Only who answers differs: the trainer's model.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from threading import Lock, RLock
from typing import Any, NamedTuple, Protocol

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.budget import Budget
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.errors import UsageError
from kernelagent.domain.evaluation import DeviceFacts, Evaluation, Stage
from kernelagent.domain.events import Event
from kernelagent.domain.history import History, Message, Turn
from kernelagent.domain.problem import ProblemFacts, ProblemSpec
from kernelagent.domain.rewards import coverage
from kernelagent.loop.run_setup import judge_settings
from kernelagent.loop.session import Session
from kernelagent.models import ModelQuery, Reply
from kernelagent.prompts.repeats import REPEATED
from kernelagent.strategies import load_strategy
from kernelagent.tools.closing import Closing
from kernelagent.tools.judge_client import JudgeProcess
from kernelagent.training.turn_rewards import Outcome, keep_probability

POLICY = "policy"
"""Stands for the trainer's model in requests and logs."""


DEFAULTS = RunConfig()


class Judge(Protocol):
    """Whoever judges candidates of one problem; `JudgeProcess` is one."""

    facts: ProblemFacts
    device: DeviceFacts

    def evaluate(self, candidate: Candidate, on_stage: Callable[[Stage], None]) -> Evaluation: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Info:
    """The turn in numbers, for a trainer's own weighting."""

    turn: int
    verdict: str
    """`accepted`, `rejected`, `error` or `void`."""
    code: str | None
    """Why not, when it is not accepted."""
    coverage: float
    """Share of device time in its own kernels, 0 to 1; of the estimate on `virtual`."""
    speedup: float | None
    """Measured against eager; None where nothing was timed."""
    keep_probability: float
    """PRS: with which probability this turn is learnt from."""
    learn: bool
    """False for void turns and those the machine could not judge: their loss is masked."""
    evaluation: Evaluation | None


class Step(NamedTuple):
    """What a step returns; unpacks as `feedback, reward, done, info`."""

    feedback: str
    """What the model is told about this turn."""
    reward: float
    done: bool
    """The episode's turns are used up."""
    info: Info


@dataclass
class Judges:
    """Opens a judge per problem when it is first needed, and judges each distinct program once.

    At most `most_open` processes at a time; the least recently used is closed. Thread-safe; one
    evaluation at a time for each problem. Raises what `open_judge` raises.
    """

    open_judge: Callable[[ProblemSpec], Judge]
    most_open: int = 4
    _open: OrderedDict[ProblemSpec, _Shared] = field(default_factory=OrderedDict)
    _facts: dict[ProblemSpec, tuple[ProblemFacts, DeviceFacts]] = field(default_factory=dict)
    _known: dict[tuple[ProblemSpec, str], Evaluation] = field(default_factory=dict)
    _lock: AbstractContextManager[object] = field(default_factory=RLock)

    @classmethod
    def by(cls, config: RunConfig, most_open: int = 4) -> Judges:
        """Real judges, with the configuration's device, policy, baseline and sandbox."""
        return cls(lambda problem: JudgeProcess(judge_settings(problem, config)), most_open)

    def describe(self, problem: ProblemSpec) -> tuple[ProblemFacts, DeviceFacts]:
        """What the judge says of the problem, and the device its verdicts hold for."""
        if problem not in self._facts:
            with self._judge(problem) as judge:
                self._facts[problem] = (judge.facts, judge.device)
        return self._facts[problem]

    def evaluate(self, problem: ProblemSpec, candidate: Candidate) -> Evaluation:
        """The verdict; the first one for each source is kept, but for those of a machine at fault."""
        key = (problem, candidate.sha256)
        with self._judge(problem) as judge:
            if key not in self._known:
                result = judge.evaluate(candidate, lambda _: None)
                if result.verdict == "error":
                    return result
                self._known[key] = result
            return self._known[key]

    def close(self) -> None:
        with self._lock:
            for shared in self._open.values():
                shared.judge.close()
            self._open.clear()

    @contextmanager
    def _judge(self, problem: ProblemSpec) -> Iterator[Judge]:
        with self._lock:
            shared = self._open.get(problem)
            if shared is None:
                self._make_room()
                shared = self._open[problem] = _Shared(self.open_judge(problem))
            self._open.move_to_end(problem)
            shared.users += 1
        try:
            with shared.turn:
                yield shared.judge
        finally:
            with self._lock:
                shared.users -= 1

    def _make_room(self) -> None:
        idle = [problem for problem, shared in self._open.items() if shared.users == 0]
        for problem in idle[: max(0, len(self._open) - self.most_open + 1)]:
            self._open.pop(problem).judge.close()


@dataclass
class _Shared:
    judge: Judge
    turn: Lock = field(default_factory=Lock)
    users: int = 0


@dataclass(frozen=True)
class _Of:
    """The evaluator of one problem, as a session wants it."""

    judges: Judges
    problem: ProblemSpec

    def evaluate(self, candidate: Candidate, on_stage: Callable[[Stage], None]) -> Evaluation:
        result = self.judges.evaluate(self.problem, candidate)
        for stage in result.stages:
            on_stage(stage)
        return result


class KernelEnv(Closing):
    """One episode at a time: a problem, up to `turns` replies. Not thread-safe; `Judges` is."""

    def __init__(
        self,
        config: RunConfig = DEFAULTS,
        *,
        turns: int = 3,
        strategy: str = "window",
        judges: Judges | None = None,
        publish: Callable[[Event], None] = lambda _: None,
    ) -> None:
        """`strategy` chooses what each prompt shows; `judges` may be shared by several of these.

        Starts no process before the first `reset`. Raises `UsageError` for a wrong strategy.
        """
        if turns < 1:
            raise UsageError(f"an episode has at least one turn, not {turns}")
        self._config = config
        self._turns = turns
        self._strategy = load_strategy(strategy, [POLICY], config.seed, config.set)
        self._own_judges = judges is None
        self._judges = judges or Judges.by(config)
        self._publish = publish
        self._session: Session | None = None
        self._ask: ModelQuery | None = None

    def reset(self, problem: str | ProblemSpec) -> tuple[Message, ...]:
        """A new episode; the first prompt. `problem`: a Python file, or a spec.

        Raises `ProblemError` when it cannot be read, `EnvironmentFault` when nothing can be judged.
        """
        spec = problem if isinstance(problem, ProblemSpec) else ProblemSpec(path=problem)
        facts, device = self._judges.describe(spec)
        self._session = Session(
            facts=facts,
            device=device,
            strategy=self._strategy,
            models={},
            evaluator=_Of(self._judges, spec),
            budget=Budget(turns=self._turns),
            publish=self._publish,
            clock=time.monotonic,
            keep_prompt=lambda _turn, _messages: None,
            keep_candidate=lambda _turn, _candidate: None,
            config=self._config,
        )
        return self._next()

    @property
    def history(self) -> History:
        """All turns of the episode; raises `UsageError` before the first `reset`."""
        return self._begun().history

    @property
    def prompt(self) -> tuple[Message, ...]:
        """What the next reply answers; raises `UsageError` when no reply is awaited."""
        if self._ask is None:
            raise UsageError("no reply is awaited: call reset(problem) to begin an episode")
        return self._ask.messages

    def step(self, reply: str) -> Step:
        """Judge one reply. The next prompt, unless done, is `prompt`."""
        session, _ = self._begun(), self.prompt
        assert self._ask is not None
        turn = session.answered(self._ask, Reply(reply))
        done = len(session.history.finished) >= self._turns
        self._ask = None
        if not done:
            self._next()
        return Step(turn.feedback, turn.reward, done or self._ask is None, info_of(turn))

    async def reset_async(self, problem: str | ProblemSpec) -> tuple[Message, ...]:
        """`reset` in a thread."""
        return await asyncio.to_thread(self.reset, problem)

    async def step_async(self, reply: str) -> Step:
        """`step` in a thread."""
        return await asyncio.to_thread(self.step, reply)

    def close(self) -> None:
        """Ends the judges, unless they were given."""
        if self._own_judges:
            self._judges.close()

    def _begun(self) -> Session:
        if self._session is None:
            raise UsageError("no episode has begun: call reset(problem)")
        return self._session

    def _next(self) -> tuple[Message, ...]:
        self._ask = self._begun().next_ask()
        return self._ask.messages if self._ask is not None else ()


class KernelEnvs:
    """A batch of environments over shared judges; the same calls, with lists."""

    def __init__(
        self, size: int, config: RunConfig = DEFAULTS, *, jobs: int = 2, **options: Any
    ) -> None:
        """`options` are `KernelEnv`'s; at most `jobs` steps are judged at a time."""
        self._judges = options.pop("judges", None) or Judges.by(config)
        self._pool = ThreadPoolExecutor(jobs, "kernel-env")
        self.envs = [KernelEnv(config, judges=self._judges, **options) for _ in range(size)]

    def reset(self, problems: Sequence[str | ProblemSpec]) -> list[tuple[Message, ...]]:
        """One problem each."""
        return list(self._pool.map(KernelEnv.reset, self.envs, problems))

    def step(self, replies: Sequence[str | None]) -> list[Step | None]:
        """One reply each, in order; None for an environment that is done, and its answer is None."""
        if len(replies) != len(self.envs):
            raise UsageError(f"{len(replies)} replies for {len(self.envs)} environments")
        return list(self._pool.map(_step_or_none, self.envs, replies))

    def close(self) -> None:
        self._pool.shutdown()
        self._judges.close()


def _step_or_none(env: KernelEnv, reply: str | None) -> Step | None:
    return None if reply is None else env.step(reply)


def info_of(turn: Turn) -> Info:
    """A finished turn in numbers; the same for live turns and those of a log."""
    result = turn.evaluation
    share = coverage(result) if result is not None else 0.0
    speedup = result.timing.speedup_eager.value if result is not None and result.timing else None
    outcome = Outcome(turn.accepted, share, speedup)
    code = _void_code(turn) if result is None else (result.reason.code if result.reason else None)
    return Info(
        turn=turn.index,
        verdict="void" if result is None else result.verdict,
        code=code,
        coverage=share,
        speedup=speedup,
        keep_probability=keep_probability(outcome),
        learn=result is not None and result.verdict != "error",
        evaluation=result,
    )


def _void_code(turn: Turn) -> str:
    """Of a turn without an evaluation: an earlier candidate again, or no candidate at all."""
    return "repeated" if (turn.void or "").startswith(REPEATED) else "no_candidate"
