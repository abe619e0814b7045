"""kill -9 at random moments: the resumed run comes to what the uninterrupted one came to."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kernelagent.strategies import BUILT_IN
from tests.loop.resume.recorded_run import conduct, config_of
from tests.loop.resume.same_run import RUN, answered, asked, differences

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ("-m", "tests.loop.resume.recorded_run")
PAUSE = 0.002
OFTEN, SELDOM, BY_HAND = (range(first, last) for first, last in ((0, 7), (7, 12), (12, 212)))
"""Seeds: one for each strategy on every commit, five more in the long lane, the rest in the soak."""


def lines_in(log: Path) -> int:
    return log.read_bytes().count(b"\n") if log.exists() else 0


@dataclass
class Killed:
    """A run that was killed again and again, and what it had to show each time."""

    run: Path
    strategy: str
    kills: int = 0
    in_flight: Counter[int] = field(default_factory=Counter)
    """By turn: how many kills came between its ask and its logged reply."""

    def go_on(self, kill_after: int | None, then: float = 0.0) -> bool:
        """Start or resume; True when it ended.

        It is killed `then` seconds after the log has `kill_after` lines; None: not at all.
        """
        known, before = answered(self.run), asked(self.run)
        log = self.run / "events.jsonl"
        words = [str(self.run), "--strategy", self.strategy, "--pause", str(PAUSE)]
        words += ["--resume"] if lines_in(log) else []
        process = subprocess.Popen(
            [sys.executable, *SCRIPT, *words], cwd=ROOT, stderr=subprocess.PIPE, text=True
        )
        while kill_after is not None and process.poll() is None:
            if lines_in(log) >= kill_after:
                time.sleep(then)
                process.kill()
            time.sleep(0.001)
        _, message = process.communicate()
        assert process.returncode in {0, -signal.SIGKILL}, message
        new = asked(self.run) - before
        assert not known & set(new), "a logged reply was asked for again"
        self.in_flight.update(set(new) - answered(self.run))
        self.kills += process.returncode != 0
        return process.returncode == 0


@pytest.fixture(scope="module")
def wholes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By strategy: an uninterrupted run."""
    result = {}
    with pytest.MonkeyPatch.context() as patch:
        for strategy in BUILT_IN:
            result[strategy] = tmp_path_factory.mktemp(strategy) / RUN
            patch.chdir(result[strategy].parent)
            conduct(result[strategy], config_of(strategy), resume=False)
    return result


def kill_and_resume(seed: int, wholes: dict[str, Path], where: Path) -> None:
    dice = random.Random(seed)
    strategy = list(BUILT_IN)[seed % len(BUILT_IN)]
    whole = wholes[strategy]
    last = lines_in(whole / "events.jsonl") - 1
    killed = Killed(where / RUN, strategy)
    ended, moment = False, dice.randint(0, last)
    while not ended:
        # Pauses are up to PAUSE and a write takes about as long: this reaches the next events too.
        ended = killed.go_on(moment, dice.uniform(0, 4 * PAUSE))
        moment = dice.randint(moment, last)
        if dice.random() < 0.6:
            break
    assert ended or killed.go_on(None)
    assert killed.kills, "it was never killed"
    assert not differences(killed.run, whole)
    assert set(asked(killed.run)) == set(asked(whole))
    for turn, times in asked(killed.run).items():
        assert times == 1 + killed.in_flight[turn], f"turn {turn} was asked {times} times"


@pytest.mark.long
@pytest.mark.parametrize(
    "seed", [*OFTEN, *(pytest.param(seed, marks=pytest.mark.long) for seed in SELDOM)]
)
def test_a_run_killed_at_a_random_moment_goes_on_as_if_it_had_not_been(
    seed: int, wholes: dict[str, Path], tmp_path: Path
) -> None:
    kill_and_resume(seed, wholes, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("seed", BY_HAND)
def test_two_hundred_runs_killed_at_random_moments_go_on_as_if_they_had_not_been(
    seed: int, wholes: dict[str, Path], tmp_path: Path
) -> None:
    kill_and_resume(seed, wholes, tmp_path)
