"""kill -9 at random moments: the resumed run comes to what the uninterrupted one came to."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from same_run import answered, asked, differences
from test_cuts import BATCHES, OPEN, OPEN_IN_BATCHES, RUN

from kernelagent.strategies import BUILT_IN

SCRIPT = Path(__file__).with_name("recorded_run.py")
PAUSE = 0.004
SHORT, LONG = 12, 200


@dataclass
class Killed:
    """A run that was killed again and again, and what it had to show each time."""

    run: Path
    strategy: str
    kills: int = 0
    in_flight: Counter[int] = field(default_factory=Counter)
    """By turn: how many kills came between its ask and its logged reply."""

    def go_on(self, deadline: float | None) -> bool:
        """Start or resume, kill at `deadline` seconds after it is ready; True when it ended."""
        known, before = answered(self.run), asked(self.run)
        words = [str(self.run), "--strategy", self.strategy, "--pause", str(PAUSE)]
        has_begun = (self.run / "events.jsonl").exists() and (
            b"\n" in (self.run / "events.jsonl").read_bytes()
        )
        words += ["--resume"] if has_begun else []
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            _, said = process.communicate(timeout=deadline)
            assert process.returncode == 0, said
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.kills += 1
        new = asked(self.run) - before
        assert not known & set(new), "a logged reply was asked for again"
        self.in_flight.update(set(new) - answered(self.run))
        return process.returncode == 0


@pytest.fixture(scope="module")
def wholes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, float]]:
    """By strategy: an uninterrupted run, and how long it took once it was ready."""
    found = {}
    for strategy in BUILT_IN:
        run = tmp_path_factory.mktemp(strategy) / RUN
        began = time.monotonic()
        assert Killed(run, strategy).go_on(None)
        found[strategy] = run, time.monotonic() - began
    return found


def kill_and_resume(
    seed: int, wholes: dict[str, tuple[Path, float]], where: Path, capsys: pytest.CaptureFixture
) -> None:
    dice = random.Random(seed)
    strategy = list(BUILT_IN)[seed % len(BUILT_IN)]
    whole, lasted = wholes[strategy]
    killed = Killed(where / RUN, strategy)
    ended = killed.go_on(dice.uniform(0, lasted))
    while not ended and dice.random() < 0.4:
        ended = killed.go_on(dice.uniform(0, lasted / 2))
    if not ended:
        assert killed.go_on(None)
    known = OPEN | (OPEN_IN_BATCHES if strategy in BATCHES else frozenset())
    assert not set(differences(killed.run, whole)) - known
    assert set(asked(killed.run)) == set(asked(whole))
    for turn, times in asked(killed.run).items():
        assert times == 1 + killed.in_flight[turn], f"turn {turn} was asked {times} times"
    with capsys.disabled():
        print(f" {strategy}: {killed.kills} kills", end="")  # noqa: T201


@pytest.mark.parametrize("seed", range(SHORT))
def test_a_run_killed_at_a_random_moment_goes_on_as_if_it_had_not_been(
    seed: int,
    wholes: dict[str, tuple[Path, float]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
) -> None:
    kill_and_resume(seed, wholes, tmp_path, capsys)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SHORT, SHORT + LONG))
def test_two_hundred_runs_killed_at_random_moments_go_on_as_if_they_had_not_been(
    seed: int,
    wholes: dict[str, tuple[Path, float]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
) -> None:
    kill_and_resume(seed, wholes, tmp_path, capsys)
