"""The benchmark over problems at their own sizes: what it refuses, and what it reads in a log."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import real_sizes


@pytest.mark.parametrize("names", [[], ["--only", "9_"]])
def test_a_selection_without_problems_is_an_error_and_not_an_empty_table(
    names: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if names:
        (tmp_path / "level1").mkdir()
        (tmp_path / "level1" / "7_Softplus.py").write_text("")
    monkeypatch.setattr(sys, "argv", ["real_sizes.py", str(tmp_path), *names])
    with pytest.raises(SystemExit, match="no problem found under"):
        real_sizes.main()
    assert capsys.readouterr().out == ""


def log_of(folder: Path, *events: tuple[str, float]) -> Path:
    (folder / "20260101-run").mkdir()
    lines = [json.dumps({"kind": kind, "time_s": at, "data": {}}) for kind, at in events]
    (folder / "20260101-run" / "events.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def test_the_stages_of_a_run_are_read_from_its_log(tmp_path: Path) -> None:
    runs = log_of(
        tmp_path,
        ("RunStarted", 1000.0),
        ("ProblemDescribed", 1012.0),
        ("StageFinished", 1020.0),
        ("Evaluated", 1052.4),
        ("WinnerMeasured", 1099.0),
    )
    assert real_sizes.stages(runs) == ["12", "40", "47"]


def test_a_stage_that_was_not_reached_has_no_seconds(tmp_path: Path) -> None:
    log = log_of(tmp_path, ("RunStarted", 1000.0), ("ProblemDescribed", 1012.0))
    assert real_sizes.stages(log) == ["12", "", ""]
    assert real_sizes.stages(tmp_path / "none") == ["", "", ""]
