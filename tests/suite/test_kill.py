"""kill -9 of a whole suite at random moments: nothing is asked twice, and the table is the same."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from kernelagent.suite.log import ProblemEnded, SuiteFolder, read_suite
from kernelagent.suite.results import ProblemResult, results_of
from kernelagent.suite.run_suite import conduct
from kernelagent.suite.summary import report_of
from kernelagent.suite.text import grids
from tests.loop.resume.same_run import answered, asked
from tests.suite.recorded_suite import Silent, begin, recorded

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ("-m", "tests.suite.recorded_suite")
NAME = "20260101-000000-suite-0000"
PROBLEMS = 8


def lines_in(suite: Path) -> int:
    logs = [suite / "suite.jsonl", *suite.glob("runs/*/*/events.jsonl")]
    return sum(log.read_bytes().count(b"\n") for log in logs if log.exists())


def runs_in(suite: Path) -> list[Path]:
    return [log.parent for log in suite.glob("runs/*/*/events.jsonl") if b"\n" in log.read_bytes()]


def go_on(suite: Path, kill_after: int | None, then: float = 0.0) -> bool:
    """Begin or resume; True when it ended. Killed `then` s after all logs have `kill_after` lines."""
    known = {run: answered(run) for run in runs_in(suite)}
    before = {run: asked(run) for run in known}
    ended = set(finished(suite))
    process = subprocess.Popen(
        [sys.executable, *SCRIPT, str(suite)], cwd=ROOT, stderr=subprocess.PIPE
    )
    while kill_after is not None and process.poll() is None:
        if lines_in(suite) >= kill_after:
            time.sleep(then)
            process.kill()
        time.sleep(0.002)
    _, message = process.communicate()
    assert process.returncode in {0, -signal.SIGKILL}, message.decode()
    for run, replies in known.items():
        assert not replies & set(asked(run) - before[run]), "a logged reply was asked for again"
    assert max(Counter(finished(suite)).values(), default=1) == 1, "an ended problem ran again"
    assert ended <= set(finished(suite))
    return process.returncode == 0


def finished(suite: Path) -> list[str]:
    folder = SuiteFolder(suite)
    if not folder.log.exists() or b"\n" not in folder.log.read_bytes():
        return []
    return [record.key for record in read_suite(folder) if isinstance(record, ProblemEnded)]


def rows(suite: Path) -> list[ProblemResult]:
    """The table but for its times: a verdict that a kill interrupted is reached a second time."""
    return [
        replace(row, wall_s=0.0, device_s=0.0, reproduce=None)
        for row in results_of(SuiteFolder(suite))
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undisturbed suite."""
    suite = tmp_path_factory.mktemp("whole") / NAME
    folder = begin(suite, PROBLEMS, jobs=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(suite.parent)
        assert conduct(folder, Silent(), run_one=recorded(0.0))
    return suite


def kill_and_resume(seed: int, whole: Path, where: Path) -> None:
    dice = random.Random(seed)
    suite, last, kills, moment = where / NAME, lines_in(whole) - 1, 0, 0
    for _ in range(dice.randint(1, 4)):
        moment = dice.randint(moment, last)
        kills += not go_on(suite, moment, dice.uniform(0, 0.01))
    assert kills or lines_in(suite) >= moment
    assert go_on(suite, None)
    assert rows(suite) == rows(whole)
    statistics, wanted = (grids(report_of(SuiteFolder(s)))[0] for s in (suite, whole))
    assert statistics == wanted


@pytest.mark.parametrize("seed", [1])
def test_a_suite_killed_at_random_moments_comes_to_the_undisturbed_table(seed, whole, tmp_path):
    kill_and_resume(seed, whole, tmp_path)


@pytest.mark.parametrize("seed", [0, *range(2, 21)])
def test_twenty_suites_killed_at_random_moments_come_to_the_undisturbed_table(
    seed, whole, tmp_path
):
    kill_and_resume(seed, whole, tmp_path)


def test_the_undisturbed_suite_is_no_table_of_equal_rows(whole):
    result = rows(whole)
    assert len(result) == PROBLEMS
    assert len({row.turns for row in result}) == PROBLEMS
    assert len({row.best.estimate for row in result}) > 2
