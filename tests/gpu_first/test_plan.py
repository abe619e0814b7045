"""The machinery of the plan: order, limits, continuation, tables; its stages here are small and real."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.gpu_first.plan import ROOT, Call, Stage, run, stem_of
from benchmarks.gpu_first.record import Record, load, table

SMALL = """
import json, subprocess, sys, time
from pathlib import Path
from benchmarks.gpu_first.record import NotPossible
from kernelagent.domain.errors import EnvironmentFault

def note(record, options):
    record.head("what", "value")
    record.add("device", options.device)
    return "one row is written"

def endless(record, options):
    record.head("number")
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    record.add(1)
    while True:
        time.sleep(0.05)

def leaves_behind(record, options):
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    record.head("pid")
    record.add(process.pid)
    return "it left a process behind"

def breaks(record, options):
    raise RuntimeError("the middle of nowhere")

def no_device(record, options):
    raise EnvironmentFault("the device is busy; free it")

def cannot(record, options):
    raise NotPossible("not done: there is nothing to do it with")
"""
SECOND = 1 / 60


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose module `small` holds the stages' functions; returns where tables go."""
    (tmp_path / "small.py").write_text(SMALL, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path / "out"


def stage(number: int, function: str, seconds: float = 60.0, *, needs_gpu: bool = False) -> Stage:
    work = f"small:{function}"
    return Stage(
        number, function.replace("_", "-"), f"Stage {number}", seconds * SECOND, work, needs_gpu
    )


def record(out: Path, one: Stage) -> Record:
    result = load(out, stem_of(one))
    assert result is not None
    return result


def is_there(pid: int) -> bool:
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
            != "Z"
        )
    except OSError:
        return False


def test_stages_run_in_their_order_and_leave_tables_in_both_forms(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = stage(1, "note"), stage(2, "note")
    assert run((first, second), Call(small, options={"device": "virtual"})) == 0
    assert [line[:2] for line in capsys.readouterr().out.splitlines()] == ["1.", "2."]
    data = json.loads((small / "01-note.json").read_text(encoding="utf-8"))
    assert data["rows"] == [["device", "virtual"]]
    assert data["state"] == "finished"
    assert "| device | virtual |" in (small / "02-note.md").read_text(encoding="utf-8")
    assert (small / "plan.md").read_text(encoding="utf-8").count("one row is written") == 2


@pytest.mark.long
def test_a_stage_that_overruns_is_stopped_said_so_and_keeps_its_rows(small: Path) -> None:
    endless, after = stage(1, "endless", 2.5), stage(2, "note")
    began = time.monotonic()
    assert run((endless, after), Call(small)) == 1
    assert time.monotonic() - began < 30
    result = record(small, endless)
    assert result.state == "stopped"
    assert "overran" in result.sentence
    assert result.rows == [["1"]]
    assert record(small, after).state == "finished"


@pytest.mark.long
def test_what_a_stage_leaves_running_is_ended_and_counted(small: Path) -> None:
    leaving = stage(1, "leaves_behind")
    run((leaving,), Call(small))
    result = record(small, leaving)
    assert "1 processes" in result.notes[0]
    assert not is_there(int(result.rows[0][0]))


@pytest.mark.long
def test_a_stage_that_breaks_says_how_and_the_next_is_begun(small: Path) -> None:
    broken, fault, after = stage(1, "breaks"), stage(2, "no_device"), stage(3, "note")
    assert run((broken, fault, after), Call(small)) == 1
    assert record(small, broken).state == "failed"
    assert "RuntimeError: the middle of nowhere" in record(small, broken).sentence
    assert record(small, fault).sentence == "EnvironmentFault: the device is busy; free it"
    assert record(small, after).state == "finished"


@pytest.mark.long
def test_a_second_call_goes_on_with_what_has_not_ended(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = (stage(1, "note"), stage(2, "cannot"), stage(3, "breaks"))
    run(stages[:2], Call(small))
    capsys.readouterr()
    run(stages, Call(small))
    # What was not possible is tried again; what has finished is not.
    assert [line[:2] for line in capsys.readouterr().out.splitlines()] == ["2.", "3."]
    assert record(small, stages[1]).sentence == "not done: there is nothing to do it with"


def test_one_stage_can_be_asked_for_again(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stages = (stage(1, "note"), stage(2, "note"))
    run(stages, Call(small))
    capsys.readouterr()
    assert run(stages, Call(small, only=1)) == 0
    assert capsys.readouterr().out.startswith("1. ")


def test_a_stage_that_does_not_fit_into_the_call_is_left_to_the_next(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = (stage(1, "note"), stage(2, "note", 600))
    assert run(stages, Call(small, minutes=2)) == 1
    assert "call again to go on with it" in capsys.readouterr().out
    assert load(small, stem_of(stages[1])) is None
    assert run(stages, Call(small)) == 0


@pytest.mark.long
def test_a_slower_machine_has_more_minutes_for_each_stage(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endless = stage(1, "endless", 0.5)
    assert run((endless,), Call(small, slower=4)) == 1
    assert record(small, endless).seconds >= 2
    assert "(limit 0.0333333 min)" in (small / "01-endless.md").read_text(encoding="utf-8")
    stages = (stage(1, "note"), stage(2, "note", 60))
    assert run(stages, Call(small / "other", minutes=1.5, slower=2)) == 1
    assert "needs 2 minutes" in capsys.readouterr().out


@pytest.mark.long
def test_a_call_that_is_interrupted_ends_its_stage_and_the_next_call_begins_it_anew(
    small: Path,
) -> None:
    program = (
        "import signal, sys\n"
        "from pathlib import Path\n"
        "from benchmarks.gpu_first.__main__ import _interrupted\n"
        "from benchmarks.gpu_first.plan import Call, Stage, run\n"
        "signal.signal(signal.SIGTERM, _interrupted)\n"
        "run((Stage(1, 'endless', 'Stage 1', 5, 'small:endless', False),), Call(Path(sys.argv[1])))\n"
    )
    path = os.pathsep.join([str(ROOT), os.environ["PYTHONPATH"]])
    with subprocess.Popen(
        [sys.executable, "-c", program, str(small)],
        env=os.environ | {"PYTHONPATH": path}, stderr=subprocess.DEVNULL,
    ) as running:  # fmt: skip
        item = stage(1, "endless")
        for _ in range(600):
            result = load(small, stem_of(item))
            if result is not None and result.rows:
                break
            time.sleep(0.05)
        running.send_signal(signal.SIGTERM)
        running.wait(30)
    assert record(small, item).state == "interrupted"
    quick = Stage(1, "endless", "Stage 1", 1, "small:note", needs_gpu=False)
    assert run((quick,), Call(small)) == 0


def test_a_table_survives_bars_and_line_breaks_in_its_cells() -> None:
    assert table(["a"], [["x|y\nz"]]) == ["| a |", "| --- |", "| x/y z |"]


def test_a_row_with_another_number_of_cells_is_an_error(tmp_path: Path) -> None:
    item = Record(str(tmp_path), 1, "x", "X", 1)
    item.head("a", "b")
    with pytest.raises(ValueError, match="1 cells for 2 columns"):
        item.add("only")
