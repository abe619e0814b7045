"""The driver of a suite of recorded runs whose evaluations are done by a Ray cluster, made to be killed.

`python recorded_on_ray.py FOLDER ADDRESS [--problems N] [--jobs N]` begins the suite in FOLDER, or goes
on with it. All but the replies and the verdicts is real: suite, loop, logs, cluster, what travels.
With `none` for the address the verdicts are looked up here, without Ray.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.events import Subscriber
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.serialization import to_data
from kernelagent.loop.queries.exclusive_gpu import Judges
from kernelagent.storage.run_log import RunFolder
from kernelagent.suite.log import ClusterChanged, SuiteFolder, SuiteLog, SuiteStarted
from kernelagent.suite.problems import SuiteProblem
from kernelagent.suite.ray.cluster import Cluster
from kernelagent.suite.run_suite import conduct, run_here
from tests.loop.resume.recorded_run import REPLIES, config_of
from tests.suite.ray.recorded_host import RecordedHere, RecordedHost
from tests.suite.recorded_suite import Silent


def begin(path: Path, problems: int, jobs: int) -> SuiteFolder:
    """The suite's folder, its problem and its recording, with the suite's first record."""
    for part in ("runs", "modules"):
        (path / part).mkdir(parents=True, exist_ok=True)
    (path / "toy.py").write_text("class Model: ...\n", encoding="utf-8")
    lines = (json.dumps({"reply": reply}) for reply in REPLIES)
    (path / "replies.jsonl").write_text("".join(f"{item}\n" for item in lines), encoding="utf-8")
    folder = SuiteFolder(path)
    named = tuple(SuiteProblem(f"p{n}", ProblemSpec(path="toy.py")) for n in range(problems))
    config = replace(config_of("sequential"), model=("replay:replies.jsonl",), out=None)
    log = SuiteLog(folder)
    log.publish(SuiteStarted(path.name, named, (), to_data(config), jobs))
    log.close()
    return folder


def run_one(
    judges: Judges,
    problem: SuiteProblem,
    config: RunConfig,
    folder: RunFolder | None,
    subscribers: Sequence[Subscriber],
    stop_asked: Callable[[], bool],
) -> tuple[int, str]:
    """The ordinary run; problem n has more turns than the one before."""
    turns = int(problem.key.removeprefix("p")) % 8 * 2 + 3
    mine = replace(config, turns=turns)
    return run_here(problem, mine, folder, subscribers, stop_asked, judges=judges)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("address")
    parser.add_argument("--problems", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    path = given.folder.absolute()
    folder = SuiteFolder(path)
    if not (folder.log.exists() and b"\n" in folder.log.read_bytes()):
        folder = begin(path, given.problems, given.jobs)
    os.chdir(path)
    if given.address == "none":
        sys.exit(0 if conduct(folder, Silent(), run_one=partial(run_one, RecordedHere())) else 1)
    with Cluster(given.address, "virtual", "sm_90", host=RecordedHost) as cluster:

        def opening(log: SuiteLog) -> None:
            cluster.on_message(lambda message: log.publish(ClusterChanged(message)))

        whole = conduct(folder, Silent(), run_one=partial(run_one, cluster), opening=opening)
    sys.exit(0 if whole else 1)


if __name__ == "__main__":
    main()
