"""A suite of recorded runs, made to be killed and resumed.

`python recorded_suite.py FOLDER [--problems N] [--jobs N] [--pause SECONDS]` begins the suite in
FOLDER, or goes on with it. Suite, loop, logs and reports are the real ones; only each run's model
and judge are recordings (`tests/loop/resume/recorded_run.py`). Problem n has n + 1 turns at most.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.events import Logged, Subscriber
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.serialization import to_data
from kernelagent.storage.run_log import RunFolder
from kernelagent.suite.log import SuiteFolder, SuiteLog, SuiteStarted
from kernelagent.suite.problems import SuiteProblem
from kernelagent.suite.run_suite import conduct
from tests.loop.resume.recorded_run import conduct as run_recorded
from tests.loop.resume.recorded_run import config_of, pauses


class Silent:
    """A watcher that shows nothing."""

    def begun(self, key: str) -> None: ...
    def happened(self, key: str, logged: Logged) -> None: ...
    def ended(self, key: str, exit_status: int, why: str) -> None: ...


def begin(path: Path, problems: int, jobs: int) -> SuiteFolder:
    """The suite's folder with its first record, under a name that is always the same."""
    for part in ("runs", "modules"):
        (path / part).mkdir(parents=True, exist_ok=True)
    folder = SuiteFolder(path)
    named = tuple(SuiteProblem(f"p{n}", ProblemSpec(path="toy.py")) for n in range(problems))
    log = SuiteLog(folder)
    log.publish(SuiteStarted(path.name, named, (), to_data(config_of("sequential")), jobs))
    log.close()
    return folder


def recorded(longest_pause: float):
    """Runs one problem out of the recording, as `kernelagent.loop.run.optimize` would."""

    def run_one(
        problem: SuiteProblem,
        config: RunConfig,
        folder: RunFolder | None,
        subscribers: Sequence[Subscriber],
        stop_asked: Callable[[], bool],
    ) -> tuple[int, str]:
        turns = int(problem.key.removeprefix("p")) % 8 * 2 + 3
        short = replace(config, turns=turns)
        path = folder.path if folder else Path(config.runs) / "20260101-000000-toy-0000"
        state = run_recorded(path, short, resume=folder is not None, pause=pauses(longest_pause))
        assert state.finished is not None
        return state.finished.exit_status, state.finished.why

    return run_one


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--problems", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--pause", type=float, default=0.002, help="longest pause, in seconds")
    given = parser.parse_args()
    path = given.folder.absolute()
    folder = SuiteFolder(path)
    begun = folder.log.exists() and b"\n" in folder.log.read_bytes()
    if not begun:
        folder = begin(path, given.problems, given.jobs)
    os.chdir(path.parent)
    began = time.monotonic()
    conduct(folder, Silent(), run_one=recorded(given.pause))
    sys.stdout.write(f"{time.monotonic() - began}\n")


if __name__ == "__main__":
    main()
