"""Kills of whatever a suite on a local Ray cluster consists of, and the table it comes to all the same."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from kernelagent.domain.events import Remarked
from kernelagent.storage.run_log import LOG, read_events
from kernelagent.suite.log import SuiteFolder
from kernelagent.suite.results import results_of
from kernelagent.suite.summary import report_of
from kernelagent.suite.text import grids
from tests.suite.ray.test_two_nodes import LocalCluster

TESTS = Path(__file__).resolve().parents[2]
Victim = Literal["driver", "worker", "raylet"]
DRIVER = "tests.suite.ray.recorded_on_ray"
_PATIENCE_S = 600.0


@dataclass
class Yard:
    """A local cluster of recorded hosts, and the suites that run on it."""

    folder: Path
    cluster: LocalCluster
    started: int = 0
    done: dict[str, int] = field(default_factory=dict)

    @property
    def hosts(self) -> Path:
        return self.folder / "hosts"

    def suite(
        self, problems: int, address: str | None = None
    ) -> tuple[Path, Callable[[], subprocess.Popen[bytes]]]:
        """A new suite's folder, and what begins it or goes on with it."""
        self.started += 1
        path = self.folder / f"suite-{self.started:03d}" / "20260101-000000-suite-0000"
        path.parent.mkdir()
        where = address or self.cluster.address
        words = ["-m", DRIVER, str(path), where, "--problems", str(problems)]

        def drive() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                [sys.executable, *words], cwd=TESTS.parent, stderr=subprocess.PIPE
            )

        return path, drive

    def workers(self) -> list[int]:
        """The hosts that are alive now, by their processes."""
        return [int(mark.name) for mark in self.hosts.iterdir() if is_host(int(mark.name))]

    def kill(self, victim: Victim, driver: subprocess.Popen[bytes], dice: random.Random) -> bool:
        """Kill one at random; False where there is none right now."""
        match victim:
            case "driver":
                driver.kill()
            case "worker":
                alive = self.workers()
                if not alive:
                    return False
                with contextlib.suppress(ProcessLookupError):
                    os.kill(dice.choice(alive), signal.SIGKILL)
            case "raylet":
                # Another one joins first, so that the cluster is never without a device for long.
                node = dice.choice(self.cluster.nodes)
                self.cluster.add()
                self.cluster.kill_raylet(node.node_id)
                self.cluster.nodes.remove(node)
        self.done[victim] = self.done.get(victim, 0) + 1
        return True


@contextlib.contextmanager
def yard(folder: Path, pause_s: float = 0.1) -> Iterator[Yard]:
    """A head and two nodes on this machine; `pause_s`: the longest of the pauses in an evaluation."""
    (folder / "hosts").mkdir(parents=True)
    os.environ |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RECORDED_HOSTS": str(folder / "hosts"),
        "RECORDED_PAUSE": str(pause_s),
        "PYTHONPATH": str(TESTS.parent),
    }
    made = LocalCluster()
    try:
        made.add()
        made.add()
        yield Yard(folder, made)
    finally:
        made.close()


def whole(place: Yard, problems: int, *, on_ray: bool) -> Path:
    """An undisturbed suite."""
    path, drive = place.suite(problems, None if on_ray else "none")
    _ended(drive())
    return path


def killed(place: Yard, victim: Victim, kills: int, problems: int, dice: random.Random) -> Path:
    """A suite of which `kills` victims were killed, or as many as it lived for; gone on to its end."""
    path, drive = place.suite(problems)
    process = drive()
    left = kills
    while left and process.poll() is None:
        _until_it_moves(process, path, dice.randint(2, 25))
        if process.poll() is None and place.kill(victim, process, dice):
            left -= 1
        if victim == "driver" and process.wait() == -signal.SIGKILL:
            process.communicate()
            process = drive()
    _ended(process)
    return path


def table(suite: Path) -> tuple[object, ...]:
    """Every row but its times and its run's name, and the statistics: what suites must agree in."""
    folder = SuiteFolder(suite)
    rows = [
        replace(row, run="", wall_s=0.0, device_s=0.0, reproduce=None) for row in results_of(folder)
    ]
    return (*rows, str(grids(report_of(folder))[0]))


def run_again(suite: Path) -> int:
    """How often a log says that something was lost with its host and ran again."""
    events = (item.event for log in suite.glob(f"runs/*/*/{LOG}") for item in read_events(log))
    reported = (event.message for event in events if isinstance(event, Remarked))
    return sum("runs again elsewhere" in message for message in reported)


def lines_in(suite: Path) -> int:
    logs = [suite / "suite.jsonl", *suite.glob(f"runs/*/*/{LOG}")]
    return sum(log.read_bytes().count(b"\n") for log in logs if log.exists())


def is_host(pid: int) -> bool:
    """Whether that process still is one of ours: numbers are given again."""
    with contextlib.suppress(OSError):
        return b"RecordedHost" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _until_it_moves(process: subprocess.Popen[bytes], suite: Path, lines: int) -> None:
    """Until the logs have so many more lines."""
    wanted, until = lines_in(suite) + lines, time.monotonic() + _PATIENCE_S
    while process.poll() is None and lines_in(suite) < wanted:
        assert time.monotonic() < until, f"nothing has moved in {suite} for {_PATIENCE_S:.0f} s"
        time.sleep(0.005)


def _ended(process: subprocess.Popen[bytes]) -> None:
    _, message = process.communicate(timeout=_PATIENCE_S)
    assert process.returncode == 0, message.decode(errors="replace")
