"""A judge leaves nothing in the folder for temporary files, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelagent.candidate import Candidate
from kernelagent.problem import ProblemSpec
from kernelagent.tools.corpus.fixture import honest_kernel, problem_path
from kernelagent.tools.judge_client import JudgeProcess
from kernelagent.tools.settings import JudgeSettings

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 120.0
OPENED = """
import sys, time
from kernelagent.problem import ProblemSpec
from kernelagent.tools.judge_client import JudgeProcess
from kernelagent.tools.settings import JudgeSettings

judge = JudgeProcess(JudgeSettings(ProblemSpec(path=sys.argv[1]), device="virtual"))
print("opened", flush=True)
time.sleep(600)
"""


def empty(folder: Path) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while any(folder.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(folder.iterdir())


def test_after_a_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    problem = ProblemSpec(path=str(problem_path("relu_affine")))
    with JudgeProcess(JudgeSettings(problem, device="virtual")) as judge:
        found = judge.evaluate(Candidate(honest_kernel("relu_affine")), lambda _: None)
        assert any(tmp_path.iterdir())
    assert found.accepted
    assert empty(tmp_path)


def test_after_the_conductor_was_killed(tmp_path: Path) -> None:
    conductor = subprocess.Popen(
        [sys.executable, "-c", OPENED, str(problem_path("relu_affine"))],
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    )
    assert conductor.stdout is not None
    assert conductor.stdout.readline() == b"opened\n"
    assert any(tmp_path.iterdir())
    conductor.send_signal(signal.SIGKILL)
    conductor.wait(PATIENCE_S)
    assert empty(tmp_path)
