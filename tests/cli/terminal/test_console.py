"""What a log is told between the turns: steps that took long, and a judging that goes on at smaller sizes."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console

from kernelagent.cli.terminal.console import Progress
from kernelagent.domain.evaluation import Stage
from kernelagent.domain.events import Event, Logged, StageFinished, WinnerMeasured
from tests import evaluations


def told(events: Sequence[Event]) -> list[str]:
    stream = io.StringIO()
    progress = Progress(Console(file=stream, width=200))
    for number, event in enumerate(events):
        progress(Logged(number, float(number), event))
    progress.close()
    return stream.getvalue().splitlines()


def finished(turn: int, name: str, status: str = "passed", seconds: float = 1.0) -> StageFinished:
    return StageFinished(turn, Stage(name, status, seconds))  # type: ignore[arg-type]


def test_a_step_that_took_long_is_a_line_and_quick_ones_are_none() -> None:
    lines = told(
        [
            finished(0, "verify", seconds=65.2),
            finished(0, "audit"),
            finished(0, "neighbours", seconds=31),
        ]
    )
    assert lines == [
        "turn 0: verify: passed, 65 s",
        "turn 0: inputs near yours, tried: passed, 31 s",
    ]


def test_a_judging_that_begins_again_at_smaller_sizes_is_told() -> None:
    lines = told(
        [finished(3, "verify", "failed", 30.0), finished(3, "parse"), finished(3, "start")]
    )
    assert [line for line in lines if "smaller" in line] == [
        "turn 3 could not be judged in time at these sizes; it is judged again at smaller ones"
    ]


def test_a_refused_candidate_is_not_said_to_be_judged_at_smaller_sizes() -> None:
    refused = WinnerMeasured(0, evaluations.rejected("wrong_output"))
    ways: list[list[Event]] = [
        [finished(0, "verify", "failed"), refused, finished(0, "parse")],
        [finished(0, "verify", "failed"), finished(1, "parse")],
    ]
    assert not any("smaller" in line for events in ways for line in told(events))
