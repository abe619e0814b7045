"""What a run had used, and what it was worth, after each of its turns: the curve of its history."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from kernelagent.domain.better import better, ratio_interval, standing
from kernelagent.domain.configuration.budget import Spent
from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.events import Evaluated, Logged, TurnVoid
from kernelagent.report.charts.series import Point, Series

Axis = Literal["turns", "tokens", "dollars", "seconds"]


@dataclass(frozen=True)
class Moment:
    """After one turn; dollars are those whose price is known, seconds count from the run's start."""

    turns: float
    tokens: float
    dollars: float
    seconds: float
    best: Point

    def at(self, axis: Axis) -> float:
        return float(getattr(self, axis))


START = Moment(0.0, 0.0, 0.0, 0.0, Point.exact(1.0))
"""Before any turn: the eager module, against itself."""


def moments(events: Iterable[Logged]) -> tuple[Moment, ...]:
    """The start, then a moment for each turn that ended; a resumed run's pauses count as seconds."""
    spent, result, began = Spent(), [START], None
    ended: set[int] = set()
    shown: Evaluation | None = None
    for logged in events:
        began = logged.time_s if began is None else began
        spent = spent.after(logged.event)
        if not isinstance(logged.event, Evaluated | TurnVoid):
            continue
        ended.add(logged.event.turn)
        best = result[-1].best
        if isinstance(logged.event, Evaluated) and _rises(shown, logged.event.evaluation):
            shown = logged.event.evaluation
            best = worth(shown)
        seconds = max(result[-1].seconds, logged.time_s - began)
        result.append(Moment(len(ended), spent.tokens, spent.dollars, seconds, best))
    return tuple(result)


def worth(evaluation: Evaluation) -> Point:
    """Times the eager module's speed: measured with its interval, or an estimate; 1 unless accepted."""
    if not evaluation.accepted:
        return START.best
    if evaluation.timing is not None:
        ratio = evaluation.timing.speedup_eager
        return Point(ratio.value, ratio.low, ratio.high)
    interval = ratio_interval(evaluation)
    if interval is None:
        return START.best
    return Point(interval.value, interval.low, interval.high)


def curve(moments: Iterable[Moment], name: str, axis: Axis) -> Series:
    """The best so far along an axis; of several moments at one place the last holds."""
    at = {moment.at(axis): moment.best for moment in moments}
    return Series(name, tuple(at), tuple(at.values()))


def _rises(shown: Evaluation | None, evaluation: Evaluation) -> bool:
    """Whether it is better beyond its interval: than eager first, then than the best so far."""
    if shown is None:
        return evaluation.accepted and standing(evaluation) == "faster"
    return better(evaluation, shown)
