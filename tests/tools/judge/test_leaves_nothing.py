"""A judge that loses its controller leaves nothing in the folder for temporary files; for one that is closed see
`tests/end_to_end/test_main_job.py`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.corpus.fixture import problem_path
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.sandbox.spawn import ForkServer

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 120.0
OPENED = """
import sys, time
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge_client import JudgeProcess
from kernelagent.domain.configuration.judge_settings import JudgeSettings

judge = JudgeProcess(JudgeSettings(ProblemSpec(path=sys.argv[1]), device="virtual"))
print("opened", flush=True)
time.sleep(600)
"""


def empty(folder: Path) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while any(folder.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(folder.iterdir())


def test_after_the_conductor_was_killed(tmp_path: Path) -> None:
    controller = subprocess.Popen(
        [sys.executable, "-c", OPENED, str(problem_path("relu_affine"))],
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    )
    assert controller.stdout is not None
    assert controller.stdout.readline() == b"opened\n"
    assert any(tmp_path.iterdir())
    controller.send_signal(signal.SIGKILL)
    controller.wait(PATIENCE_S)
    assert empty(tmp_path)


def settings() -> JudgeSettings:
    return JudgeSettings(ProblemSpec(path=str(problem_path("relu_affine"))), device="virtual")


def test_after_a_context_that_started_its_own_fork_server_as_on_a_gpu() -> None:
    context = JudgeContext.open(settings())
    pid = context.fork_server.pid
    os.kill(pid, 0)
    context.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_shared_fork_server_outlives_the_context(fork_server: ForkServer) -> None:
    JudgeContext.open(settings(), fork_server).close()
    os.kill(fork_server.pid, 0)
