"""Statistics over the problems of a suite: fast_p, means that say which mean, bootstrap intervals."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from kernelagent.suite.results import ProblemResult, Score

THRESHOLDS = (0.0, 1.0, 1.2, 1.5, 2.0)
RESAMPLES = 2000
Against = Literal["eager", "compile", "estimate"]


@dataclass(frozen=True)
class Share:
    """A statistic over problems with its 95 % bootstrap interval (percentiles, over problems)."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Speeds:
    """How fast, against one baseline; `estimate` is no baseline but an estimated ratio to eager."""

    against: Against
    fast: dict[str, Share]
    """`fast_p` by p: share of ALL problems that are correct with ratio ≥ p; p = 0: correct."""
    geometric_mean_of_correct: Share | None
    """Geometric mean of the ratio over the correct, those slower than 1 included; None: none is."""
    geometric_mean_of_all: Share
    """Geometric mean over all problems; one without a correct candidate counts as 1 (kept as is)."""
    measured: int
    """Correct problems that have this ratio."""


@dataclass(frozen=True)
class Taken:
    """One way of taking a candidate per problem."""

    correct: Share
    eager: Speeds | None
    """None where nothing was timed."""
    compile: Speeds | None
    """Against the best torch.compile mode of each problem; None where none was measured."""
    estimate: Speeds | None
    """None where it was measured instead."""


@dataclass(frozen=True)
class Group:
    """The same statistics over some of the problems."""

    problems: int
    last_turn: Taken
    best_of_history: Taken


def group(rows: Sequence[ProblemResult], resamples: int = RESAMPLES) -> Group:
    """The statistics of these problems."""
    draws = resampled(len(rows), resamples)
    return Group(
        problems=len(rows),
        last_turn=_taken([row.last for row in rows], draws),
        best_of_history=_taken([row.best for row in rows], draws),
    )


def fast(scores: Sequence[Score], ratio: Callable[[Score], float | None], p: float) -> list[float]:
    """By problem: 1 when it is correct and its ratio at least p, else 0; p = 0 asks only correct."""
    return [float(score.correct and (p == 0.0 or (ratio(score) or 0.0) >= p)) for score in scores]


Draws = Sequence[Sequence[int]]
"""For each resample the numbers of the problems drawn."""


def _taken(scores: Sequence[Score], draws: Draws) -> Taken:
    return Taken(
        correct=mean([float(score.correct) for score in scores], draws),
        eager=_speeds("eager", scores, lambda score: score.eager, draws),
        compile=_speeds("compile", scores, lambda score: score.compiled, draws),
        estimate=_speeds("estimate", scores, lambda score: score.estimate, draws),
    )


def _speeds(
    against: Against,
    scores: Sequence[Score],
    ratio: Callable[[Score], float | None],
    draws: Draws,
) -> Speeds | None:
    result = [ratio(score) if score.correct else None for score in scores]
    measured = sum(value is not None for value in result)
    if not measured:
        return None
    logs = [None if value is None else math.log(value) for value in result]
    return Speeds(
        against=against,
        fast={f"{p:g}": mean(fast(scores, ratio, p), draws) for p in THRESHOLDS},
        geometric_mean_of_correct=geometric(logs, draws),
        geometric_mean_of_all=_exp(mean([value or 0.0 for value in logs], draws)),
        measured=measured,
    )


def mean(values: Sequence[float], draws: Draws) -> Share:
    """The arithmetic mean of one number a problem, with its interval."""
    if not values:
        return Share(0.0, 0.0, 0.0)
    means = sorted(sum(values[i] for i in draw) / len(draw) for draw in draws)
    return Share(sum(values) / len(values), *_ends(means))


def geometric(logs: Sequence[float | None], draws: Draws) -> Share | None:
    """Geometric mean of what is there, from its logarithms; None when nothing is.

    A resample without any says nothing and is left out.
    """
    there = [value for value in logs if value is not None]
    means = []
    for draw in draws:
        drawn = [value for i in draw if (value := logs[i]) is not None]
        if drawn:
            means.append(sum(drawn) / len(drawn))
    return _exp(Share(sum(there) / len(there), *_ends(sorted(means)))) if there else None


def _exp(share: Share) -> Share:
    return Share(math.exp(share.value), math.exp(share.low), math.exp(share.high))


def _ends(means: Sequence[float]) -> tuple[float, float]:
    last = len(means) - 1
    return means[round(0.025 * last)], means[round(0.975 * last)]


def resampled(size: int, resamples: int) -> Draws:
    """The same resamples for every statistic and every call: a report is a function of the logs."""
    dice = random.Random(size)
    return [dice.choices(range(size), k=size) for _ in range(resamples)] if size else []
