"""How far a suite had come after so many turns of each problem: shares of all problems, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from kernelagent.report.charts.anytime import Labels, anytime_svg, anytime_text
from kernelagent.report.charts.series import Point, Series
from kernelagent.report.document import Chart
from kernelagent.suite.results import ProblemResult, Score
from kernelagent.suite.statistics import Draws, Share, fast, mean

Of = Literal["best_of_history", "last_turn"]
Asks = Literal["correct", "eager", "compile", "estimate"]
_RATIOS: dict[Asks, Callable[[Score], float | None]] = {
    "eager": lambda score: score.eager,
    "compile": lambda score: score.compiled,
    "estimate": lambda score: score.estimate,
}
_ASKED: dict[Asks, tuple[Callable[[Score], float | None], float]] = {
    "correct": (lambda _: None, 0.0),
    **{asks: (ratio, 1.0) for asks, ratio in _RATIOS.items()},
}
"""Which ratio is looked at, and how large it must be at least."""
_TITLES: dict[Asks, str] = {
    "correct": "Problems with a correct candidate (fast_0)",
    "eager": "Problems at least as fast as eager (fast_1, measured)",
    "compile": "Problems at least as fast as the best torch.compile mode (fast_1, measured)",
    "estimate": "Problems estimated at least as fast as eager (ESTIMATE)",
}
_NAMES: dict[Of, str] = {"best_of_history": "best of history", "last_turn": "last turn"}


@dataclass(frozen=True)
class Curve:
    """The share of ALL problems that had it, after 1, 2, … turns of each.

    Every turn counts as it was judged then, not as the second judging of the winner found it. A
    problem whose run ended earlier keeps what it had.
    """

    of: Of
    asks: Asks
    """`correct`: fast_0; else fast_1 against that baseline."""
    shares: tuple[Share, ...]


def curves_of(rows: Sequence[ProblemResult], draws: Draws) -> tuple[Curve, ...]:
    """Both ways of taking a candidate, for correctness and for each baseline that was used."""
    most = max((len(row.by_turn) for row in rows), default=0)
    scores = [score for row in rows for score in row.by_turn]
    used = [asks for asks, of in _RATIOS.items() if any(of(score) is not None for score in scores)]
    kinds: tuple[Asks, ...] = ("correct", *used) if most else ()
    ways: tuple[Of, ...] = ("best_of_history", "last_turn")
    return tuple(
        Curve(of, asks, tuple(_share(rows, of, asks, turns, draws) for turns in range(1, most + 1)))
        for asks in kinds
        for of in ways
    )


def _share(rows: Sequence[ProblemResult], of: Of, asks: Asks, turns: int, draws: Draws) -> Share:
    held = []
    for row in rows:
        seen = row.by_turn[:turns] if of == "best_of_history" else row.by_turn[:turns][-1:]
        held.append(max(fast(seen, *_ASKED[asks]), default=0.0))
    return mean(held, draws)


def charts(curves: Sequence[Curve]) -> tuple[Chart, ...]:
    """One drawing for each thing asked, both ways of taking a candidate in it."""
    return tuple(
        _chart(asks, [curve for curve in curves if curve.asks == asks])
        for asks in dict.fromkeys(curve.asks for curve in curves)
    )


def _chart(asks: Asks, curves: Sequence[Curve]) -> Chart:
    warning = "ESTIMATE, not timed: differences within its interval mean nothing"
    labels = Labels(
        title=_TITLES[asks],
        across="turns of each problem",
        up="% of all problems",
        warning=warning if asks == "estimate" else "",
        least_step=1.0,
    )
    series = [_series(curve) for curve in curves]
    text = f"{labels.title}\n{anytime_text(series, labels, width=64, height=12)}"
    return Chart(anytime_svg(series, labels), text)


def _series(curve: Curve) -> Series:
    points = [Point(100 * s.value, 100 * s.low, 100 * s.high) for s in curve.shares]
    end = curve.shares[-1]
    return Series(
        _NAMES[curve.of],
        tuple(float(turn) for turn in range(len(points) + 1)),
        (Point.exact(0.0), *points),
        note=f"{end.value:.0%} [{end.low:.0%}, {end.high:.0%}]",
    )
