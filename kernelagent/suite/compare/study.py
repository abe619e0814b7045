"""Strategies under one budget, paired by problem and seed, folded into anytime curves.

A run, simulated or real, is its logged events; everything here reads those alone. What a run is worth
at a moment is its best score so far, or 1 (the eager module, kept) where nothing accepted beats it;
runs are averaged by the geometric mean. Intervals are percentile bootstraps over problems, the same
draws for every strategy; where there is one problem, over its runs.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, get_args

from kernelagent.domain.configuration.budget import Spent
from kernelagent.domain.errors import UsageError
from kernelagent.domain.evaluation import Interval
from kernelagent.domain.events import Evaluated, Logged, TurnVoid
from kernelagent.prompts.repeats import normal_form

Axis = Literal["turns", "tokens", "dollars", "seconds"]
AXES: tuple[Axis, ...] = get_args(Axis)
Take = Callable[[str, str, int], Iterable[Logged]]
"""One run: strategy, problem, seed → its logged events."""
RESAMPLES = 400
NOTHING_REAL = "SIMULATED: no model was asked, no kernel was run"
NOTHING_TIMED = (
    "ESTIMATED: nothing was timed, differences within the interval of an estimate mean nothing"
)


@dataclass(frozen=True)
class Moment:
    """What a run had used, and its best score (0: nothing accepted), after one of its turns."""

    turns: float
    tokens: float
    dollars: float
    seconds: float
    best: float

    def at(self, axis: Axis) -> float:
        return float(getattr(self, axis))


@dataclass(frozen=True)
class Run:
    """One run, folded."""

    strategy: str
    problem: str
    seed: int
    moments: tuple[Moment, ...]
    evaluated: int
    accepted: int
    void: int
    """Turns without anything to evaluate, refused repeats among them."""
    duplicates: int
    """Evaluations of a program that this run had evaluated before, however it was spelled."""
    estimated: bool = False
    """Some score is an estimate's ratio, for lack of a device that times."""

    @property
    def end(self) -> Moment:
        return self.moments[-1] if self.moments else Moment(0, 0, 0, 0, 0)

    def best_at(self, axis: Axis, limit: float) -> float:
        """The best score of the turns that ended within `limit`; 0 when none was accepted."""
        # The slack forgives sums of floats that should be equal to the limit.
        place = bisect_right(self.moments, limit * (1 + 1e-9), key=lambda m: m.at(axis))
        return self.moments[place - 1].best if place else 0.0

    def worth_at(self, axis: Axis, limit: float) -> float:
        return max(1.0, self.best_at(axis, limit))


@dataclass(frozen=True)
class Curve:
    """The anytime curve of one strategy: geometric mean over runs at each place of the axis."""

    strategy: str
    axis: Axis
    places: tuple[float, ...]
    values: tuple[Interval, ...]
    """95 % intervals; of no width where there is a single run."""


@dataclass(frozen=True)
class Row:
    """One strategy at one limit of one axis; counts are means over runs, up to their end."""

    strategy: str
    worth: Interval
    correct: float
    """Share of runs with an accepted candidate within the limit."""
    turns: float
    tokens: float
    dollars: float
    duplicates: int
    """Over all runs."""
    void: float


@dataclass(frozen=True)
class CompareView:
    """`kernelagent compare`: what every strategy was worth at its end, and by when."""

    simulated: bool
    warning: str
    """What a reader of its numbers must know first; empty when all of them were measured."""
    problems: tuple[str, ...]
    rows: tuple[Row, ...]
    curves: tuple[Curve, ...]
    """For each strategy one against turns, tokens, dollars and seconds."""
    schema: str = "kernelagent.compare/1"


@dataclass(frozen=True)
class Comparison:
    """All runs of a comparison; every strategy took the same problems with the same seeds."""

    strategies: tuple[str, ...]
    runs: tuple[Run, ...]
    simulated: bool = False

    @property
    def warning(self) -> str:
        """What a reader of its numbers must know first; empty when all of them were measured."""
        if self.simulated:
            return NOTHING_REAL
        return NOTHING_TIMED if any(run.estimated for run in self.runs) else ""

    def of(self, strategy: str) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if run.strategy == strategy)

    def curves(
        self, axis: Axis = "turns", *, places: int = 40, resamples: int = RESAMPLES
    ) -> tuple[Curve, ...]:
        """A curve for each strategy, on one axis from 0 to the most any run used."""
        most = max((run.end.at(axis) for run in self.runs), default=0.0)
        count = min(places, int(most)) if axis == "turns" else places
        grid = tuple(most * step / count for step in range(count + 1)) if count else (0.0,)
        if axis == "turns":
            grid = tuple(dict.fromkeys(float(round(place)) for place in grid))
        return tuple(self._curve(strategy, axis, grid, resamples) for strategy in self.strategies)

    def rows(
        self, axis: Axis = "turns", limit: float = math.inf, *, resamples: int = RESAMPLES
    ) -> tuple[Row, ...]:
        """A row for each strategy, each run read at `limit`."""
        return tuple(self._row(strategy, axis, limit, resamples) for strategy in self.strategies)

    def view(self) -> CompareView:
        """All of it as one record."""
        return CompareView(
            self.simulated,
            self.warning,
            tuple(dict.fromkeys(run.problem for run in self.runs)),
            self.rows(),
            tuple(curve for axis in AXES for curve in self.curves(axis)),
        )

    def ratio(
        self,
        strategy: str,
        other: str,
        axis: Axis = "turns",
        limit: float = math.inf,
        *,
        resamples: int = RESAMPLES,
    ) -> Interval:
        """What `strategy` is worth over `other`, run by run of the same problem and seed."""
        beside = {(run.problem, run.seed): run for run in self.of(other)}
        logs = _by_problem(
            (
                run.problem,
                math.log(
                    run.worth_at(axis, limit) / beside[run.problem, run.seed].worth_at(axis, limit)
                ),
            )
            for run in self.of(strategy)
        )
        return geometric_mean(logs, resamples)

    def _curve(self, strategy: str, axis: Axis, grid: tuple[float, ...], resamples: int) -> Curve:
        values = tuple(self._worth(strategy, axis, place, resamples) for place in grid)
        return Curve(strategy, axis, grid, values)

    def _worth(self, strategy: str, axis: Axis, limit: float, resamples: int) -> Interval:
        runs = self.of(strategy)
        logs = _by_problem((run.problem, math.log(run.worth_at(axis, limit))) for run in runs)
        return geometric_mean(logs, resamples)

    def _row(self, strategy: str, axis: Axis, limit: float, resamples: int) -> Row:
        runs = self.of(strategy)
        count = len(runs)
        return Row(
            strategy=strategy,
            worth=self._worth(strategy, axis, limit, resamples),
            correct=sum(run.best_at(axis, limit) > 0 for run in runs) / count,
            turns=sum(run.end.turns for run in runs) / count,
            tokens=sum(run.end.tokens for run in runs) / count,
            dollars=sum(run.end.dollars for run in runs) / count,
            duplicates=sum(run.duplicates for run in runs),
            void=sum(run.void for run in runs) / count,
        )


def compare(
    strategies: Sequence[str],
    problems: Sequence[str],
    take: Take,
    *,
    seeds: Sequence[int] = (0,),
    simulated: bool = False,
    on_run: Callable[[Run], None] = lambda _: None,
) -> Comparison:
    """Every strategy on every problem with every seed; whatever `take` raises ends the comparison.

    Problem by problem and seed by seed, so that what is done when it is interrupted is paired.
    """
    for given, what in ((strategies, "strategies"), (problems, "problems"), (seeds, "seeds")):
        if len(set(given)) != len(given) or not given:
            raise UsageError(f"the {what} to compare must be given, each once")
    runs = []
    for problem in problems:
        for seed in seeds:
            for strategy in strategies:
                events = take(strategy, problem, seed)
                runs.append(fold_run(strategy, problem, seed, events))
                on_run(runs[-1])
    return Comparison(tuple(strategies), tuple(runs), simulated)


def fold_run(strategy: str, problem: str, seed: int, events: Iterable[Logged]) -> Run:
    """One run out of its log; a turn counts as over with its verdict."""
    spent, best, void, accepted, duplicates = Spent(), 0.0, 0, 0, 0
    began: float | None = None
    moments: list[Moment] = []
    tried: set[str] = set()
    evaluated, estimated = 0, False
    for logged in events:
        began = logged.time_s if began is None else began
        spent = spent.after(logged.event)
        match logged.event:
            case Evaluated() as event:
                evaluated += 1
                accepted += event.evaluation.accepted
                best = max(best, event.evaluation.score)
                estimated = estimated or event.evaluation.estimate is not None
                program = normal_form(event.source)
                duplicates += program in tried
                tried.add(program)
            case TurnVoid():
                void += 1
            case _:
                continue
        seconds = logged.time_s - began
        moments.append(Moment(spent.turns, spent.tokens, spent.dollars, seconds, best))
    return Run(
        strategy, problem, seed, tuple(moments), evaluated, accepted, void, duplicates, estimated
    )


def geometric_mean(
    logs: Mapping[str, Sequence[float]], resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """Mean over problems of each one's mean, and its 95 % percentile bootstrap; values are logs.

    Problems are drawn; a single problem's runs instead. The same seed draws the same problems.
    """
    units = [sum(values) / len(values) for values in logs.values()]
    if len(units) == 1:
        units = list(next(iter(logs.values())))
    value = math.exp(sum(units) / len(units))
    count = len(units)
    luck = Random(seed)
    means = sorted(sum(luck.choices(units, k=count)) / count for _ in range(resamples))
    if not means or count == 1:
        return Interval(value, value, value)
    low, high = means[int(0.025 * resamples)], means[min(resamples - 1, int(0.975 * resamples))]
    return Interval(value, min(value, math.exp(low)), max(value, math.exp(high)))


def _by_problem(values: Iterable[tuple[str, float]]) -> dict[str, list[float]]:
    result: dict[str, list[float]] = {}
    for problem, value in values:
        result.setdefault(problem, []).append(value)
    return result
