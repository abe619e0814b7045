"""The benchmarks that only a GPU makes whole: estimates against times, and an evaluation's split."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import calibrate
from benchmarks.evaluation_split import PROMISED_S, measured, page
from benchmarks.turn_latency import rms_norm_candidate

PROBLEM = Path(__file__).resolve().parents[2] / "examples" / "rms_norm_residual.py"


@pytest.mark.timeout(120)
def test_the_calibration_runs_and_measures(tmp_path: Path) -> None:
    out = calibrate.RESULT if os.environ.get("WRITE_RESULTS") else tmp_path / "calibrate.md"
    assert calibrate.main(["--out", str(out)]) == 0
    text = out.read_text(encoding="utf-8")
    assert "Measured on" in text
    assert "not measured" not in text


@pytest.mark.timeout(120)
def test_an_evaluation_keeps_its_promise(written: Callable[[str, str], None]) -> None:
    name, splits = measured("cuda", PROBLEM, rms_norm_candidate(), 3)
    written("evaluation_split_cuda.md", page(name, "cuda", PROBLEM.name, splits))
    assert all(split.timed_us for split in splits)
    without_compiling = min(split.total - split.steps["verify"] for split in splits)
    assert without_compiling < PROMISED_S
