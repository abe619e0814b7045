"""SIMULATED problems with pitfalls, and a writer that may be told of them: for studying memory.

Distilling, the library on disk and recall are the real ones; problems, writer and judge are not. What a
told rule does to the writer is ASSUMED (`Heeding`); what is measured is which rules come at which turn,
how many lines and tokens that takes, and what a library costs that is wrong or out of date.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from kernelagent.domain.candidate import Candidate, parse_reply
from kernelagent.domain.configuration.budget import Budget, Cost
from kernelagent.domain.evaluation import Evaluation, Reason, Stage
from kernelagent.domain.events import Event, Logged, ProblemDescribed, Remarked, RunStarted
from kernelagent.domain.history import Message, Recalled
from kernelagent.domain.problem import ProblemFacts, ProblemSpec
from kernelagent.loop.session import Recall, Session, no_recall
from kernelagent.models import ModelQuery, Reply
from kernelagent.prompts import estimate_tokens
from kernelagent.storage.lessons.facts import fact_of
from kernelagent.storage.lessons.patterns import ANY
from kernelagent.strategies import load_strategy
from kernelagent.suite.compare.families import facts_of, parse_strategy
from kernelagent.suite.compare.simulated import (
    DEVICE,
    Point,
    SimulatedClock,
    SimulatedJudge,
    SimulatedProblem,
    SimulatedWriter,
)
from kernelagent.suite.compare.study import NOTHING_REAL

PATTERNS = {
    "softmax": "torch.softmax(x, -1)",
    "normalisation": "F.layer_norm(x, (64,))",
    "matmul": "x @ w",
    "convolution": "F.conv2d(x, w)",
    "scan": "torch.cumsum(x, -1)",
}
"""Patterns of the simulated problems, and an operation by which their source is recognised."""
LOCATION_SPECIFIC = ("data_race", "out_of_bounds", "runtime_error", "out_of_resources")


@dataclass(frozen=True)
class Pitfall:
    """One way to fail, the same for all problems of a pattern."""

    pattern: str
    number: int
    era: int = 0
    """Version of the rule: the same number with another era is a different rule."""

    @property
    def code(self) -> str:
        return "compile_error" if self.pattern == ANY else LOCATION_SPECIFIC[self.number % 4]

    def message(self, luck: Random) -> str:
        """What the judge says: the rule, among names and numbers that differ each time."""
        where = f"`kernel_{luck.randrange(100)}`"
        place = f"program ({luck.randrange(100)}, 0, 0)"
        rule = f"{self.pattern} rule {'abcdefghij'[self.number]}{'xyz'[self.era]} is broken"
        return f"{where}: {place}: {rule}; {luck.randrange(10_000)} lanes"

    @property
    def fact(self) -> str:
        return fact_of(self.message(Random(0)))


@dataclass(frozen=True)
class World:
    """Which pitfalls there are, and how failures are spread over them: all assumed."""

    own: int = 6
    """Of each pattern."""
    language: int = 4
    """Of any pattern."""
    untaught: float = 0.35
    """Share of failures whose message holds for that candidate only (`wrong_output`)."""
    era: int = 0
    changed: int = 0
    """How many pitfalls of each pattern have changed to the next era."""

    def pitfalls(self, pattern: str) -> tuple[Pitfall, ...]:
        """The most frequent first."""
        own = [Pitfall(pattern, n, self.era + (n < self.changed)) for n in range(self.own)]
        shared = [Pitfall(ANY, n, self.era + (n < self.changed)) for n in range(self.language)]
        mixed = sorted([*own, *shared], key=lambda lesson: (lesson.number, lesson.pattern))
        return tuple(mixed)

    def met(self, pattern: str, point: Point) -> Pitfall | None:
        """The pitfall of a candidate that is not correct; None: no rule tells of its failure."""
        luck = Random(f"pitfall {point.sample}")
        if luck.random() < self.untaught:
            return None
        result = self.pitfalls(pattern)
        weights = [1 / (place + 1) for place in range(len(result))]
        return luck.choices(result, weights)[0]


@dataclass(frozen=True)
class Heeding:
    """What lines of a memory do to the writer: ASSUMED, nothing here is measured."""

    heeded: float = 0.5
    """Probability that a failure named in the prompt is avoided."""
    distraction: float = 0.01
    """Chance, for each line that names no pitfall of this problem, that a good candidate is spoilt."""


@dataclass(frozen=True)
class RememberingWriter:
    """The simulated writer, which may heed what it is told of earlier runs."""

    inner: SimulatedWriter
    world: World
    pattern: str
    heeding: Heeding

    @property
    def name(self) -> str:
        return self.inner.name

    def reply(self, ask: ModelQuery, on_text: Callable[[str], None]) -> Reply:
        answer = self.inner.reply(ask, lambda _: None)
        reported = ask.request.recalled
        parsed = parse_reply(answer.text)
        text = answer.text
        if reported and isinstance(parsed, Candidate):
            text = text.replace(parsed.source, self._heeded(ask, parsed.source))
        on_text(text)
        more = sum(estimate_tokens(item.words) for item in reported)
        return replace(answer, text=text, tokens_in=answer.tokens_in + more)

    def worst_case(self, messages: Sequence[Message], tokens_left: int | None) -> Cost:
        return self.inner.worst_case(messages, tokens_left)

    def close(self) -> None:
        """Nothing to release."""

    def _heeded(self, ask: ModelQuery, source: str) -> str:
        point = Point.read(source)
        # Its own random generator: the writer draws what it would draw without a memory, so runs pair.
        luck = Random(f"heeding {self.inner.seed}:{self.inner.problem.name}:{ask.turn}")
        draw = luck.random()
        useful = useful_lines(ask.request.recalled, self.world.pitfalls(self.pattern))
        if point.correct:
            lost = 1 - (1 - self.heeding.distraction) ** (len(ask.request.recalled) - useful)
            return source if draw >= lost else replace(point, correct=False).source()
        met = self.world.met(self.pattern, point)
        avoids = met is not None and names(ask.request.recalled, met)
        if not avoids or draw >= self.heeding.heeded:
            return source
        return replace(point, correct=True).source()


@dataclass(frozen=True)
class PitfallJudge:
    """The simulated judge, which says which pitfall a candidate fell into."""

    inner: SimulatedJudge
    world: World
    pattern: str

    def evaluate(self, candidate: Candidate, on_stage: Callable[[Stage], None]) -> Evaluation:
        result = self.inner.evaluate(candidate, on_stage)
        point = Point.read(candidate.source)
        met = None if result.accepted else self.world.met(self.pattern, point)
        if met is None:
            return result
        return replace(result, reason=Reason(met.code, met.message(Random(point.sample))))


@dataclass
class RememberingRuns:
    """Takes runs for `study.compare`; a recall by the name of each arm, None for the one without."""

    problems: dict[str, SimulatedProblem]
    patterns: dict[str, str]
    """By problem."""
    world: World
    budget: Budget
    recalls: dict[str, Recall | None]
    heeding: dict[str, Heeding] = field(default_factory=dict)
    """By arm; the usual one where it is missing."""
    afterwards: dict[str, Callable[[list[Logged]], object]] = field(default_factory=dict)
    """By arm: who learns from a run before the next one begins."""
    strategy: str = "auto"
    kept: dict[tuple[str, str, int], list[Logged]] = field(default_factory=dict)

    def __call__(self, arm: str, problem: str, seed: int) -> list[Logged]:
        heeding = self.heeding.get(arm, Heeding())
        logged = self.run(problem, seed, self.recalls[arm], heeding)
        self.kept[arm, problem, seed] = logged
        if arm in self.afterwards:
            self.afterwards[arm](logged)
        return logged

    def run(self, problem: str, seed: int, recall: Recall | None, heeding: Heeding) -> list[Logged]:
        simulated, pattern = self.problems[problem], self.patterns[problem]
        clock = SimulatedClock()
        inner = SimulatedWriter(simulated, seed, clock)
        writer = RememberingWriter(inner, self.world, pattern, heeding)
        facts = pattern_facts(simulated, pattern)
        begun = RunStarted(f"{problem}-{seed}", ProblemSpec(path=problem), {}, {})
        first: tuple[Event, ...] = (
            Remarked("warning", NOTHING_REAL),
            begun,
            ProblemDescribed(facts, DEVICE, "none"),
        )
        logged = [Logged(number, clock(), event) for number, event in enumerate(first)]

        def publish(event: Event) -> None:
            logged.append(Logged(len(logged), clock(), event))

        name, options = parse_strategy(self.strategy)
        Session(
            facts=facts,
            device=DEVICE,
            strategy=load_strategy(name, (writer.name,), seed, options),
            models={writer.name: writer},
            evaluator=PitfallJudge(SimulatedJudge(simulated, clock), self.world, pattern),
            budget=self.budget,
            publish=publish,
            clock=clock,
            keep_prompt=lambda _turn, _messages: None,
            keep_candidate=lambda _turn, _candidate: None,
            recall=recall or no_recall,
        ).run()
        return logged


def pattern_facts(problem: SimulatedProblem, pattern: str) -> ProblemFacts:
    source = f"class Model:\n    def forward(self, x, w):\n        return {PATTERNS[pattern]}\n"
    return replace(facts_of(problem), source=source)


def names(recalled: Sequence[Recalled], pitfall: Pitfall) -> bool:
    """Whether one of the lines tells of that pitfall."""
    return any(pitfall.fact in item.words for item in recalled)


def useful_lines(recalled: Sequence[Recalled], pitfalls: Sequence[Pitfall]) -> int:
    """How many of the lines name a pitfall that the problem has."""
    facts = [pitfall.fact for pitfall in pitfalls]
    return sum(any(fact in item.words for fact in facts) for item in recalled)
