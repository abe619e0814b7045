"""What a run had used, and what it was worth, after each of its turns: the curve of its history."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from kernelagent.budget import Spent
from kernelagent.charts.series import Point, Series
from kernelagent.evaluation import Evaluation
from kernelagent.events import Evaluated, Logged, TurnVoid

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
    spent, found, began = Spent(), [START], None
    ended: set[int] = set()
    for logged in events:
        began = logged.time_s if began is None else began
        spent = spent.after(logged.event)
        if not isinstance(logged.event, Evaluated | TurnVoid):
            continue
        ended.add(logged.event.turn)
        best = found[-1].best
        if isinstance(logged.event, Evaluated):
            best = max(best, worth(logged.event.evaluation), key=_rank)
        seconds = max(found[-1].seconds, logged.time_s - began)
        found.append(Moment(len(ended), spent.tokens, spent.dollars, seconds, best))
    return tuple(found)


def worth(evaluation: Evaluation) -> Point:
    """Times the eager module's speed: measured with its interval, or an estimate; 1 unless accepted."""
    if not evaluation.accepted:
        return START.best
    if evaluation.timing is not None:
        ratio = evaluation.timing.speedup_eager
        return Point(ratio.value, ratio.low, ratio.high)
    return Point.exact(evaluation.score)


def curve(found: Iterable[Moment], name: str, axis: Axis) -> Series:
    """The best so far along an axis; of several moments at one place the last holds."""
    at = {moment.at(axis): moment.best for moment in found}
    return Series(name, tuple(at), tuple(at.values()))


def _rank(point: Point) -> float:
    # As the run itself ranks: by what is certain.
    return point.low
