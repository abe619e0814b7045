"""A SIMULATED kernel-writer and its judge, for studying strategies by the thousand.

No kernel is written and nothing is compiled, run or timed. A candidate is a point of a search: is it
correct, how fast, how far does its approach reach. The writer moves from point to point by chance,
with the chances of a `Skill`; the judge reads the point off the source. All else (session, strategies,
prompts, budget, refusal of repeats) is what real runs use. Where the chances come from: `families`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.budget import Cost
from kernelagent.domain.evaluation import (
    DeviceFacts,
    Estimate,
    Evaluation,
    HeadroomFacts,
    Reason,
    Stage,
)
from kernelagent.domain.history import Message, TurnRequest
from kernelagent.models import ModelQuery, Reply

SIMULATED = "simulated"
DEVICE = DeviceFacts("virtual", SIMULATED, "none", torch="none", triton="none")
EAGER_US = 100.0
_MARK = " = ("
_LONGEST = 1.3
"""The longest reply, as a multiple of the mean one; the shortest is as far below."""


@dataclass(frozen=True)
class Skill:
    """What a simulated writer can do; fractions are chances for an average problem and approach.

    The first group, up to `step_spread`, is fitted to the KernelBench level 2 shares that Dr. Kernel
    (2602.05885) publishes, other levels have their own in `families`; all else is our assumption.
    """

    first_correct: float = 0.85
    """A first version is correct."""
    repair_correct: float = 0.65
    """A repair of a broken parent, with its feedback, is correct."""
    keeps_correct: float = 0.74
    """A faster version of a correct parent is still correct."""
    start: float = 0.06
    """Median of ln(speed against eager) of a first version."""
    start_spread: float = 0.15
    gain: float = 0.12
    """Expected gain of one optimise step, as a share of the speed that its approach can still reach."""
    step_spread: float = 0.08
    """Standard deviation of the noise that a step adds to its gain, in ln(speed)."""

    approach_spread: float = 0.8
    """Standard deviation, in log-odds, of how easily an approach is made correct."""
    memory: float = 0.02
    """Share of failures that each further turn in view prevents, while the context holds them."""
    repeat: float = 0.01
    """Chance, for each turn in view, that its candidate is sent again."""
    respelled: float = 0.3
    """Share of those repeats that differ in names and comments only."""
    void: float = 0.02
    """A reply holds no code."""
    context_tokens: int = 32_768
    overflow_loss: float = 1.0
    """Skill falls as exp(-loss × share by which the prompt exceeds the context)."""
    task_tokens: int = 1_500
    reply_tokens: int = 2_500
    """Mean tokens of a reply's code and words; a turn in view costs as much again."""
    feedback_tokens: int = 500
    thinking_tokens: int = 3_000
    """Paid with each reply, never shown again."""
    tokens_per_second: float = 80.0
    dollars_per_million_in: float = 1.0
    dollars_per_million_out: float = 4.0
    judge_seconds: float = 15.0


@dataclass(frozen=True)
class SimulatedProblem:
    """A problem as offsets to the writer's skill. The writer sees their effect on its random draws, never the offsets."""

    name: str
    skill: Skill
    ease: float = 0.0
    """Added to the log-odds of every chance to be correct."""
    pace: float = 0.0
    """Added to ln(speed) of every first version: how well eager does the problem."""
    headroom: float = 0.4
    """How far above the median first version, in ln(speed), any approach can reach."""
    floor_slack: float = 0.2
    """How far above the ceiling, in ln(speed), the judge's physical limit lies."""

    @property
    def start(self) -> float:
        return self.skill.start + self.pace

    @property
    def ceiling(self) -> float:
        return self.start + self.headroom


@dataclass(frozen=True)
class Point:
    """A candidate's hidden state, written into its source."""

    sample: int
    """Random id of this candidate; only a repeated candidate has the same one."""
    correct: bool
    ease: float
    """The approach's share of the log-odds to be correct."""
    reach: float
    """The ln(speed) this approach tends to."""
    speed: float
    """ln(speed against eager), latent while the candidate is not correct."""

    def source(self, name: str = "POINT", note: str = "") -> str:
        values = f"{self.sample}, {self.correct:d}, {self.ease!r}, {self.reach!r}, {self.speed!r}"
        return (
            f"# Simulated candidate: no kernel, a point of a simulated search.{note}\n"
            f"{name}{_MARK}{values})\n\n\nclass ModelNew:\n    pass\n"
        )

    @classmethod
    def read(cls, source: str) -> Point:
        """Inverse of `source`; raises ValueError on any other text."""
        _, mark, after = source.partition(_MARK)
        values = after.partition(")")[0].split(",")
        if not mark or len(values) != 5:
            raise ValueError("not the source of a simulated candidate")
        sample, correct, ease, reach, speed = values
        return cls(int(sample), correct.strip() == "1", float(ease), float(reach), float(speed))


@dataclass
class SimulatedClock:
    """Seconds that pass only when writer or judge say so."""

    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


@dataclass(frozen=True)
class SimulatedWriter:
    """Implements `Model`; turn n uses the same random seed for every strategy, so runs are paired.

    Below temperature 1 a reply is, with the chance 1 - temperature, the one its question always gets.
    """

    problem: SimulatedProblem
    seed: int
    clock: SimulatedClock = field(default_factory=SimulatedClock)
    name: str = "simulated-writer"

    def reply(self, ask: ModelQuery, on_text: Callable[[str], None]) -> Reply:
        skill = self.problem.skill
        prompt = prompt_tokens(skill, len(ask.request.window))
        luck = self._luck(ask)
        text = self._text(ask, luck, skill_left(skill, prompt))
        words = int(
            (skill.reply_tokens + skill.thinking_tokens) * luck.uniform(2 - _LONGEST, _LONGEST)
        )
        sent = min(prompt, skill.context_tokens)
        self.clock.advance(words / skill.tokens_per_second)
        dollars = price(skill, sent, words)
        on_text(text)
        return Reply(text, tokens_in=sent, tokens_out=words, dollars=dollars)

    def worst_case(self, messages: Sequence[Message], tokens_left: int | None) -> Cost:
        """The longest reply there is, so that a budget of tokens is never overdrawn."""
        skill = self.problem.skill
        shown = sum(message.role == "assistant" for message in messages)
        sent = min(prompt_tokens(skill, shown), skill.context_tokens)
        words = int((skill.reply_tokens + skill.thinking_tokens) * _LONGEST)
        return Cost(sent + words, price(skill, sent, words))

    def close(self) -> None:
        """Nothing to release."""

    def _luck(self, ask: ModelQuery) -> Random:
        key = f"{self.seed}:{self.problem.name}"
        luck = Random(f"{key}:{ask.turn}")
        temperature = 1.0 if ask.request.temperature is None else ask.request.temperature
        if luck.random() < 1 - temperature:
            question = (ask.request.kind, ask.request.parent, ask.request.window)
            return Random(f"{key}:{question}")
        return luck

    def _text(self, ask: ModelQuery, luck: Random, left: float) -> str:
        skill = self.problem.skill
        if luck.random() < 1 - (1 - skill.void) * left:
            return "Simulated reply without code."
        shown = _candidates_shown(ask)
        if luck.random() < 1 - (1 - skill.repeat) ** len(shown):
            return _fenced(self._again(luck.choice(shown), luck))
        parent = _parent_point(ask)
        return _fenced(following(self.problem, ask.request, parent, luck, left).source())

    def _again(self, candidate: Candidate, luck: Random) -> str:
        if luck.random() >= self.problem.skill.respelled:
            return candidate.source
        point = Point.read(candidate.source)
        return point.source(f"POINT_{luck.randrange(1000)}", " Spelled anew.")


@dataclass(frozen=True)
class SimulatedJudge:
    """An evaluator by protocol: reads the point off the source; it is never wrong and never noisy."""

    problem: SimulatedProblem
    clock: SimulatedClock = field(default_factory=SimulatedClock)

    def evaluate(self, candidate: Candidate, on_stage: Callable[[Stage], None]) -> Evaluation:
        point = Point.read(candidate.source)
        seconds = self.problem.skill.judge_seconds
        self.clock.advance(seconds)
        stage = Stage(SIMULATED, "passed" if point.correct else "failed", seconds)
        on_stage(stage)
        if not point.correct:
            reason = Reason("wrong_output", "simulated: the output is wrong.")
            return Evaluation("rejected", DEVICE, (stage,), reason=reason)
        ratio = math.exp(point.speed)
        estimate = Estimate(
            candidate_us=EAGER_US / ratio,
            eager_us=EAGER_US,
            bound="dram" if point.speed > point.reach - 0.1 else "launch",
            ratio=ratio,
            shapes=SIMULATED,
        )
        fastest = self.problem.ceiling + self.problem.floor_slack
        attained = math.exp(point.speed - fastest)
        headroom = HeadroomFacts(
            input_set=SIMULATED,
            fewest_bytes=0,
            fewest_flops={},
            least_us=EAGER_US / math.exp(fastest),
            binds="dram",
            attained=attained,
            left=max(0.0, 1 - attained),
        )
        return Evaluation("accepted", DEVICE, (stage,), estimate=estimate, headroom=headroom)


def following(
    problem: SimulatedProblem, request: TurnRequest, parent: Point | None, luck: Random, left: float
) -> Point:
    """The candidate of a reply; `left` is the share of skill left when the prompt exceeds the context."""
    skill = problem.skill
    sample = luck.getrandbits(48)
    if parent is None or request.kind in ("write", "rethink"):
        fresh = _fresh(problem, sample, luck, left)
        if parent is None or request.kind == "write":
            return _judged(fresh, _chance(problem, skill.first_correct, fresh, request, left), luck)
        # A rethink profits from the earlier approach: it starts at least half way up to its speed.
        start = max(fresh.speed, (fresh.speed + parent.speed) / 2)
        fresh = replace(fresh, speed=start, reach=max(fresh.reach, start))
        known = (skill.first_correct + skill.keeps_correct) / 2
        return _judged(fresh, _chance(problem, known, fresh, request, left), luck)
    if request.kind == "repair":
        moved = parent.speed + luck.gauss(0, skill.step_spread / 2)
        chance = skill.repair_correct
    else:
        gain = skill.gain * luck.uniform(0, 2) * left
        moved = parent.speed + gain * max(0.0, parent.reach - parent.speed)
        moved += luck.gauss(0, skill.step_spread)
        chance = skill.keeps_correct
    point = replace(parent, sample=sample, speed=min(moved, problem.ceiling))
    return _judged(point, _chance(problem, chance, point, request, left), luck)


def prompt_tokens(skill: Skill, shown: int) -> int:
    """Tokens of a question: the task, and code and feedback of each turn in view."""
    return skill.task_tokens + shown * (skill.reply_tokens + skill.feedback_tokens)


def price(skill: Skill, sent: int, words: int) -> float:
    """US dollars for so many tokens in and out."""
    return (sent * skill.dollars_per_million_in + words * skill.dollars_per_million_out) / 1_000_000


def skill_left(skill: Skill, prompt: int) -> float:
    """1 while the prompt fits the context, falling towards 0 beyond."""
    return math.exp(-skill.overflow_loss * max(0.0, prompt / skill.context_tokens - 1))


def _fresh(problem: SimulatedProblem, sample: int, luck: Random, left: float) -> Point:
    skill = problem.skill
    speed = min(luck.gauss(problem.start, skill.start_spread), problem.ceiling)
    reach = speed + luck.betavariate(2, 2) * left * (problem.ceiling - speed)
    return Point(sample, False, luck.gauss(0, skill.approach_spread), reach, speed)


def _chance(
    problem: SimulatedProblem, average: float, point: Point, request: TurnRequest, left: float
) -> float:
    """The chance to be correct; turns in view prevent failures, an overfull context brings them."""
    odds = average / (1 - average) * math.exp(problem.ease + point.ease)
    failure = 1 / (1 + odds)
    prevented = (1 - problem.skill.memory) ** max(0, len(request.window) - 1)
    return (1 - failure * prevented) * left


def _judged(point: Point, chance: float, luck: Random) -> Point:
    return replace(point, correct=luck.random() < chance)


def _parent_point(ask: ModelQuery) -> Point | None:
    if ask.request.parent is None:
        return None
    candidate = ask.history.turn(ask.request.parent).candidate
    return None if candidate is None else Point.read(candidate.source)


def _candidates_shown(ask: ModelQuery) -> list[Candidate]:
    turns = (ask.history.turn(index) for index in ask.request.window)
    return [turn.candidate for turn in turns if turn.candidate is not None]


def _fenced(source: str) -> str:
    return f"Simulated reply.\n\n```python\n{source}```\n"
