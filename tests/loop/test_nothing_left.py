"""Resuming a run: whether it has anything left to do, and with what it goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kernelagent.cli.commands.optimize import optimize
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.errors import ExitStatus
from kernelagent.domain.evaluation import HeadroomFacts
from kernelagent.domain.events import (
    Evaluated,
    Event,
    Logged,
    ModelExhausted,
    ModuleEmitted,
    RunStarted,
    WholeModelChecked,
)
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.serialization import to_data
from kernelagent.domain.whole_model import WholeModel
from kernelagent.loop.nothing_left import go_on_with, nothing_left
from kernelagent.storage.run_log import EventLog, RunFolder
from kernelagent.storage.run_state import RunState, fold
from tests.report.logs import GPU, run_on_gpu

MODEL = ProblemSpec(path="model.py")
PART = ProblemSpec(bundle="b", module="norm", submodule="norm", whole=MODEL)
CONFIG = replace(RunConfig(), device="cuda", model=("scripted",), turns=4)
WHOLE = WholeModel("model", ("norm",), True, "it stayed right", 3, 3, GPU)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "runs", "norm", now=0.0)


def written(folder: RunFolder, *more: Event, emitted: bool = True) -> RunState:
    """A run of four turns over a part, in its folder; its file is there."""
    out = folder.path / "norm_optimized.py"
    out.write_text("class ModelNew: ...\n", encoding="utf-8")
    log = EventLog(folder)
    for item in run_on_gpu(emitted=emitted):
        event = item.event
        if isinstance(event, RunStarted):
            event = replace(event, problem=PART, config=to_data(CONFIG))
        if isinstance(event, ModuleEmitted):
            event = replace(event, path=str(out), of_a_part=True)
        log.publish(event)
    for event in more:
        log.publish(event)
    log.close()
    return fold(_events(folder))


def _events(folder: RunFolder) -> list[Logged]:
    from kernelagent.storage.run_log import read_events

    return list(read_events(folder.log))


def test_a_run_whose_turns_are_spent_has_nothing_left_and_goes_on_with_more(
    folder: RunFolder,
) -> None:
    state = written(folder, WholeModelChecked(WHOLE))
    assert nothing_left(PART, CONFIG, state) == "the budget of 4 turns is spent"
    assert go_on_with(folder, PART, CONFIG).endswith(" --turns 8")
    assert nothing_left(PART, replace(CONFIG, turns=8), state) is None


def test_a_part_that_the_whole_model_was_not_asked_about_is_not_done(folder: RunFolder) -> None:
    assert nothing_left(PART, CONFIG, written(folder)) is None
    assert "--turns" not in go_on_with(folder, PART, CONFIG)


def test_what_was_found_of_an_earlier_file_says_nothing_of_the_next(folder: RunFolder) -> None:
    state = written(folder, WholeModelChecked(WHOLE))
    again = state.after(Logged(99, 2000.0, ModuleEmitted(2, "norm_optimized.py", "e" * 64, True)))
    assert state.whole == WHOLE
    assert again.whole is None


def test_a_file_that_is_gone_or_wanted_elsewhere_is_written_again(folder: RunFolder) -> None:
    state = written(folder, WholeModelChecked(WHOLE))
    assert nothing_left(PART, replace(CONFIG, out="other.py"), state) is None
    Path(str(state.emitted)).unlink()
    assert nothing_left(PART, CONFIG, state) is None


def ended(
    folder: RunFolder, config: RunConfig, *more: Event, left: float | None = None
) -> RunState:
    """A run over a whole model without a file, with these events before its last; `left`: of each candidate's time."""
    *begun, last = (item.event for item in run_on_gpu(emitted=False))
    log = EventLog(folder)
    for event in [*begun, *more, last]:
        if isinstance(event, RunStarted):
            event = replace(event, problem=MODEL, config=to_data(config))
        if isinstance(event, Evaluated) and left is not None:
            facts = HeadroomFacts("default", 1 << 20, {}, 10.0, "dram", 1 - left, left)
            event = replace(event, evaluation=replace(event.evaluation, headroom=facts))
        log.publish(event)
    log.close()
    return fold(_events(folder))


EXHAUSTED = ModelExhausted("scripted", "no more")


def test_a_run_whose_models_have_nothing_more_goes_on_with_another(folder: RunFolder) -> None:
    config = replace(CONFIG, turns=8)
    state = ended(folder, config, EXHAUSTED)
    assert nothing_left(MODEL, config, state) == "scripted has nothing left to try"
    assert go_on_with(folder, MODEL, config).endswith(" --model NAME")


def test_a_run_that_came_as_close_as_was_asked_goes_on_where_more_is_asked(
    folder: RunFolder,
) -> None:
    config = replace(CONFIG, turns=8, stop_at_headroom=1.0)
    state = ended(folder, config, left=0.1)
    assert "10% of the time" in str(nothing_left(MODEL, config, state))
    assert go_on_with(folder, MODEL, config).endswith(" --stop-at-headroom 0")
    assert nothing_left(MODEL, replace(config, stop_at_headroom=0.0), state) is None


def test_a_run_that_lacks_two_things_is_offered_both(folder: RunFolder) -> None:
    ended(folder, CONFIG, EXHAUSTED)
    assert go_on_with(folder, MODEL, CONFIG).endswith(" --turns 8 --model NAME")


def test_resuming_a_run_that_is_done_says_so_and_shows_its_last_screen(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    written(folder, WholeModelChecked(WHOLE))
    status = optimize(None, {}, {}, None, str(folder.path), lambda: False, as_json=False)
    said = capsys.readouterr()
    assert status is ExitStatus.OK
    assert f"nothing is left to do in run {folder.id}: the budget of 4 turns is spent" in said.err
    assert "--turns 8" in said.err
    assert "whole model: it stayed right, 3 calls of the part" in said.out
