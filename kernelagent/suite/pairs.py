"""Two suites over the same problems, paired problem by problem: `kernelagent bench diff A B`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from kernelagent.domain.errors import UsageError
from kernelagent.suite.log import SuiteFolder, started
from kernelagent.suite.results import ProblemResult, Score, results_of
from kernelagent.suite.statistics import RESAMPLES, Share, geometric, mean, resampled

SCHEMA = "kernelagent.bench_diff/1"
Ratio = Literal["eager", "estimate"]


@dataclass(frozen=True)
class Pair:
    """One problem in both suites."""

    key: str
    before: Score
    after: Score
    change: float | None
    """after's ratio over before's, of the best of history; None unless both have one."""
    of: Ratio | None
    """`eager`: measured speedups; `estimate`: estimated ratios, which prove nothing."""


@dataclass(frozen=True)
class SuiteDiff:
    """`kernelagent bench diff --json`."""

    before: str
    after: str
    pairs: tuple[Pair, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    correct_change: Share
    """Mean over pairs of correct(after) − correct(before), each 0 or 1; bootstrap over problems."""
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    geometric_mean_change: Share | None
    """Geometric mean of `change` over the pairs that have one."""
    schema: str = SCHEMA


def compare(before: SuiteFolder, after: SuiteFolder, *, resamples: int = RESAMPLES) -> SuiteDiff:
    """Pairs by key; raises `UsageError` when the suites share no problem."""
    item = {row.key: row for row in results_of(before)}
    other = {row.key: row for row in results_of(after)}
    shared = [key for key in item if key in other]
    if not shared:
        raise UsageError(f"{before.path.name} and {after.path.name} share no problem")
    pairs = tuple(_pair(item[key], other[key]) for key in shared)
    draws = resampled(len(pairs), resamples)
    logs = [None if pair.change is None else math.log(pair.change) for pair in pairs]
    return SuiteDiff(
        before=started(before).suite,
        after=started(after).suite,
        pairs=pairs,
        only_before=tuple(key for key in item if key not in other),
        only_after=tuple(key for key in other if key not in item),
        correct_change=mean([float(p.after.correct) - p.before.correct for p in pairs], draws),
        gained=_keys(p for p in pairs if p.after.correct and not p.before.correct),
        lost=_keys(p for p in pairs if p.before.correct and not p.after.correct),
        geometric_mean_change=geometric(logs, draws),
    )


def _pair(before: ProblemResult, after: ProblemResult) -> Pair:
    item, other = before.best, after.best
    if item.eager is not None and other.eager is not None:
        return Pair(before.key, item, other, other.eager / item.eager, "eager")
    if item.estimate is not None and other.estimate is not None:
        return Pair(before.key, item, other, other.estimate / item.estimate, "estimate")
    return Pair(before.key, item, other, None, None)


def _keys(pairs: Iterable[Pair]) -> tuple[str, ...]:
    return tuple(pair.key for pair in pairs)
