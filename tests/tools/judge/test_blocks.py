"""How far a measurement is: told by the judge, carried by the log, shown by console and screen."""

from __future__ import annotations

from benchmarks.tui_runs import first_events
from kernelagent.domain.evaluation import Stage
from kernelagent.domain.events import (
    Logged,
    StageFinished,
    StageProgressed,
    TurnStarted,
    from_line,
    stage_event,
    to_line,
)
from kernelagent.domain.history import TurnRequest
from kernelagent.prompts.wording import doing_after, line_for
from kernelagent.tools.judge.stages import Stages
from kernelagent.tools.judge.timing.blocks import EVERY_S, Blocks
from kernelagent.tui.panels import now_text
from kernelagent.tui.view import View


def test_the_blocks_that_are_expected_grow_with_those_that_were_needed() -> None:
    reported: list[tuple[int, int]] = []
    ticks = iter(range(1000))
    blocks = Blocks(lambda done, of: reported.append((done, of)), lambda: float(next(ticks)))
    blocks.expect(3)
    for _ in range(5):
        blocks.took()
    blocks.expect(3)
    blocks.took(2)
    assert reported == [(1, 3), (2, 3), (3, 3), (4, 4), (5, 5), (7, 8)]


def test_a_thousand_blocks_a_second_are_told_of_a_few_times() -> None:
    reported: list[int] = []
    now = [0.0]
    blocks = Blocks(lambda done, of: reported.append(done), lambda: now[0])
    for _ in range(1000):
        blocks.took()
        now[0] += 0.001
    assert len(reported) == 1 + int(1 / EVERY_S)


def test_what_a_stage_tells_while_it_runs_is_no_stage_of_the_evaluation() -> None:
    reported: list[Stage] = []
    stages = Stages(reported.append)
    with stages.step("measure") as running:
        running(2, 6)
    assert [stage.status for stage in reported] == ["running", "passed"]
    assert [stage.name for stage in stages.done] == ["measure"]
    first, last = (stage_event(4, stage) for stage in reported)
    assert first == StageProgressed(4, "measure", 2, 6)
    assert isinstance(last, StageFinished)
    assert from_line(to_line(Logged(7, 1.0, first))).event == first


def test_the_block_stands_on_the_screen_with_the_seconds_since_the_first() -> None:
    view = View()
    turn = TurnStarted(0, TurnRequest("write", "a"), "0" * 64)
    blocks = [StageProgressed(0, "measure", done, 6) for done in (1, 3, 6)]
    for number, event in enumerate([*first_events("r", measured=True), turn, *blocks]):
        view.take(Logged(number, 100.0 + number, event))
        if event == blocks[1]:
            assert doing_after(Logged(0, 0.0, event)) == view.doing
            shown = now_text(view, True, 110.0, 60, 10).plain.split("\n")[0]
            assert shown == "● judging turn 0: measuring block 4 of 6 (0:07)"
    assert view.doing == "judging turn 0: measuring block 6 of 6"
    assert view.since_s == 103.0
    assert line_for(Logged(0, 0.0, blocks[0])) is None
