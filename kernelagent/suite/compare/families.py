"""The simulated problems, and where the chances of a simulated writer come from.

Three families stand for the levels of KernelBench. Their skills are fitted by hand to what Dr. Kernel
(2602.05885) publishes for its 14B model: the share of problems with a correct kernel of at least 1,
1.2 and 1.5 times eager, in its plain multi-turn setting, after the last turn of test-time scaling with
context management, and for the best of that history (`Family.published`). Only these nine numbers a level are
from the field; `benchmarks.strategies` prints how near the simulation comes. The spread between
problems, and all of `Skill` that its docstring does not call fitted, are our assumptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from kernelagent.domain.configuration.budget import Budget
from kernelagent.domain.events import Event, Logged, Remarked
from kernelagent.domain.problem import InputSet, ProblemFacts, TensorFacts
from kernelagent.loop.session import Session
from kernelagent.strategies import Strategy, load_strategy
from kernelagent.suite.compare.simulated import (
    DEVICE,
    SIMULATED,
    SimulatedClock,
    SimulatedJudge,
    SimulatedProblem,
    SimulatedWriter,
    Skill,
)
from kernelagent.suite.compare.study import NOTHING_REAL

PUBLISHED_TURNS = {"plain": 3, "last": 14, "best": 14}
"""3 turns as in its training, where the paper's table does not say; 14 of test-time scaling."""
THRESHOLDS = (1.0, 1.2, 1.5)


@dataclass(frozen=True)
class Family:
    """Problems of one difficulty."""

    name: str
    skill: Skill
    pace_spread: float
    headroom: float
    """Mean over problems of the largest gain above a first version, in ln(speed), which is exponentially distributed."""
    ease_spread: float
    published: dict[str, tuple[float, float, float]]
    """Percent of problems at or above each of `THRESHOLDS`."""


FAMILIES = {
    family.name: family
    for family in (
        Family(
            "level-1",
            Skill(
                first_correct=0.8,
                repair_correct=0.6,
                keeps_correct=0.68,
                start=-0.5,
                start_spread=0.2,
                step_spread=0.06,
            ),
            pace_spread=1.0,
            headroom=0.12,
            ease_spread=0.5,
            published={
                "plain": (20.3, 16.9, 13.2),
                "last": (24.1, 18.8, 15.3),
                "best": (39.3, 25.1, 20.4),
            },
        ),
        Family(
            "level-2",
            Skill(),
            pace_spread=0.2,
            headroom=0.22,
            ease_spread=0.6,
            published={
                "plain": (49.2, 25.6, 7.4),
                "last": (59.8, 31.6, 9.6),
                "best": (80.9, 47.8, 23.6),
            },
        ),
        Family(
            "level-3",
            Skill(
                first_correct=0.55,
                repair_correct=0.4,
                keeps_correct=0.68,
                start=-0.15,
                start_spread=0.12,
                step_spread=0.05,
            ),
            pace_spread=0.12,
            headroom=0.12,
            ease_spread=0.8,
            published={
                "plain": (8.8, 1.2, 0.2),
                "last": (17.1, 3.0, 0.2),
                "best": (29.8, 7.3, 0.5),
            },
        ),
    )
}


def problems_of(family: Family, count: int, seed: int = 0) -> Iterator[SimulatedProblem]:
    """The first `count` problems of a family; the same for the same seed."""
    for number in range(count):
        luck = Random(f"{family.name}:{seed}:{number}")
        yield SimulatedProblem(
            name=f"{SIMULATED}-{family.name}-{number:03d}",
            skill=family.skill,
            ease=luck.gauss(0, family.ease_spread),
            pace=luck.gauss(0, family.pace_spread),
            headroom=luck.expovariate(1 / family.headroom),
        )


class SimulatedRuns:
    """Takes runs of simulated problems through the real session: a `Take` for `study.compare`."""

    def __init__(self, problems: Iterable[SimulatedProblem], budget: Budget) -> None:
        self.problems = {problem.name: problem for problem in problems}
        self._budget = budget

    def __call__(self, strategy: str, problem: str, seed: int) -> list[Logged]:
        """The events of one run; `strategy` may carry options: `window:window=8`."""
        return simulated_run(strategy, self.problems[problem], seed, self._budget)


def simulated_run(
    strategy: str, problem: SimulatedProblem, seed: int, budget: Budget
) -> list[Logged]:
    """One run, with nothing written to disk; `time_s` is simulated seconds."""
    clock = SimulatedClock()
    writer = SimulatedWriter(problem, seed, clock)
    # The first event starts the curves' clock; it also marks the log as simulated.
    logged = [Logged(0, clock(), Remarked("warning", NOTHING_REAL))]

    def publish(event: Event) -> None:
        logged.append(Logged(len(logged), clock(), event))

    Session(
        facts=facts_of(problem),
        device=DEVICE,
        strategy=_strategy(strategy, writer.name, seed),
        models={writer.name: writer},
        evaluator=SimulatedJudge(problem, clock),
        budget=budget,
        publish=publish,
        clock=clock,
        keep_prompt=lambda _turn, _messages: None,
        keep_candidate=lambda _turn, _candidate: None,
    ).run()
    return logged


@lru_cache(maxsize=1024)
def _strategy(text: str, model: str, seed: int) -> Strategy:
    # A strategy keeps no state, and finding it scans the installed packages, longer than a run takes.
    name, options = parse_strategy(text)
    return load_strategy(name, (model,), seed, options)


def parse_strategy(text: str) -> tuple[str, dict[str, str]]:
    """`name` or `name:option=value,option=value`."""
    name, _, options = text.partition(":")
    pairs = (option.partition("=") for option in options.split(",") if option)
    return name, {key.strip(): value.strip() for key, _, value in pairs}


def facts_of(problem: SimulatedProblem) -> ProblemFacts:
    """What a judge would say of the problem: next to nothing, for there is none."""
    tensor = TensorFacts("x", (1,), "float32")
    return ProblemFacts(
        name=problem.name,
        source="class Model:  # simulated: there is no module\n    pass",
        entry_point="Model",
        constructor="init",
        init_arguments="()",
        input_sets=(InputSet(SIMULATED, (tensor,), "(x: float32[1])"),),
        outputs=(tensor,),
        state=(),
        mode="eval",
        sha256=SIMULATED,
        precision="tf32 off",
    )
