"""Evaluations on a Ray cluster of two local nodes, beside the same ones without Ray.

`python -m benchmarks.ray_judge [--evaluations N] [--kills K] [--write FILE]`

The problem and the candidates are those of `tests/suite/ray`. Each row evaluates them in turn, N in
all; a row with kills sends SIGKILL to the worker or the raylet that is at work, at a stage drawn at
random, and starts a new node for a dead one.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from threading import Lock

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.suite.ray.cluster import Cluster
from kernelagent.tools.judge_client import JudgeProcess
from tests.suite.ray.test_two_nodes import CANDIDATES, PROBLEM, LocalCluster, same

NAMES = list(CANDIDATES)


def settings_in(folder: Path) -> JudgeSettings:
    (folder / "problem.py").write_text(PROBLEM)
    (folder / "steps.py").write_text("def shifted(x):\n    return x * 2.0 + 1.0\n")
    return JudgeSettings(ProblemSpec(path=str(folder / "problem.py")), device="virtual")


def judged(
    judges: list, evaluations: int, on_stage: Callable
) -> tuple[list[tuple[object, ...]], float]:
    """By number, and the seconds it took; as many side by side as there are judges."""
    free: SimpleQueue = SimpleQueue()
    for judge in judges:
        free.put(judge)

    def one(number: int) -> tuple[object, ...]:
        judge = free.get()
        try:
            return same(judge.evaluate(Candidate(CANDIDATES[NAMES[number % len(NAMES)]]), on_stage))
        finally:
            free.put(judge)

    began = time.monotonic()
    with ThreadPoolExecutor(len(judges)) as pool:
        result = list(pool.map(one, range(evaluations)))
    return result, time.monotonic() - began


class Killer:
    """Kills what is at work, at random stages, `kills` times, workers and raylets in turn."""

    def __init__(self, ray: LocalCluster, cluster: Cluster, kills: int, chance: float) -> None:
        self.done: list[str] = []
        self._ray, self._cluster, self._kills, self._chance = ray, cluster, kills, chance
        self._dice, self._lock = random.Random(0), Lock()

    def __call__(self, _stage: object) -> None:
        with self._lock:
            busy = [d for d in self._cluster._devices if d.busy]
            if len(self.done) >= self._kills or self._dice.random() > self._chance or not busy:
                return
            device = self._dice.choice(busy)
            if len(self.done) % 2 == 0:
                os.kill(device.pid, signal.SIGKILL)
                self.done.append("worker")
            else:
                self._ray.add()
                self._ray.kill_raylet(device.host.node.id)
                self.done.append("raylet")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evaluations", type=int, default=16)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    n = given.evaluations
    rows = ["| | s | evaluations / s | verdicts equal |", "|---|---|---|---|"]

    def row(what: str, found: list[tuple[object, ...]], seconds: float) -> None:
        equal = sum(a == b for a, b in zip(found, wanted, strict=True))
        rows.append(f"| {what} | {seconds:.1f} | {n / seconds:.2f} | {equal} of {n} |")
        print(rows[-1], flush=True)

    with tempfile.TemporaryDirectory() as scratch, ExitStack() as after:
        settings = settings_in(Path(scratch))
        with JudgeProcess(settings) as judge:
            wanted, seconds = judged([judge], n, lambda _: None)
        row("one machine, without Ray", wanted, seconds)
        local = LocalCluster()
        after.callback(local.close)
        local.add()
        local.add()
        cluster = after.enter_context(Cluster(local.address, "virtual", "sm_90"))
        lost: list[str] = []
        judges = [
            after.enter_context(cluster.open(settings, lambda _level, text: lost.append(text)))
            for _ in range(2)
        ]
        judged(judges, 2, lambda _: None)
        row("Ray, one at a time", *judged(judges[:1], n, lambda _: None))
        row("Ray, two nodes", *judged(judges, n, lambda _: None))
        if given.kills:
            killer = Killer(local, cluster, given.kills, 0.15)
            row(f"Ray, {given.kills} kills", *judged(judges, n, killer))
            workers, raylets = killer.done.count("worker"), killer.done.count("raylet")
            rows.append("")
            rows.append(
                f"Killed: {workers} workers, {raylets} raylets; {len(lost)} warnings in the logs."
            )
    text = "\n".join(rows) + "\n"
    print(text)
    if given.write is not None:
        given.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
