"""Ctrl-C, sent to real runs as a terminal sends it: once finishes the turn, twice stops now."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelagent.domain.events import Event, ReplyReceived, RunFinished, TurnStarted
from kernelagent.domain.history import Turn
from kernelagent.storage.run_log import RunFolder, read_events
from kernelagent.storage.run_state import RunState, fold
from tests.end_to_end.test_main_job import KERNEL, PROBLEM, reply

ROOT = Path(__file__).parents[3]
WRONG = [KERNEL.replace("(x, 0.0)", f"(x, {bound / 4})") for bound in range(1, 5)]
"""Candidates the judge refuses, each for its own numbers."""
PATIENCE_S = 300

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def problem_in(folder: Path, sources: list[str]) -> Path:
    """A problem and a recorded conversation about it."""
    lines = [json.dumps({"reply": reply(source, "Another try.")}) for source in sources]
    (folder / "scale.py").write_text(PROBLEM, encoding="utf-8")
    (folder / "talk.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder


class Running:
    """`kernelagent optimize` in a process group of its own, like the foreground job of a terminal."""

    def __init__(self, where: Path, *words: str) -> None:
        self._where = where
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kernelagent", "optimize", *words, "--runs", "runs"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=where,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )

    def wait_for(self, happened: Callable[[Event], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not any(happened(event) for event in events_in(self._where)):
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def interrupt(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)

    def hear(self, words: str) -> None:
        assert self.process.stderr is not None
        assert any(words in line for line in iter(self.process.stderr.readline, ""))

    def end(self) -> tuple[int, str]:
        """Exit status, and what it said since it was last listened to."""
        message, talk = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, message + talk


def events_in(where: Path) -> list[Event]:
    log = next(where.glob("runs/*/events.jsonl"), None)
    return [] if log is None else [logged.event for logged in read_events(log)]


def state_in(where: Path) -> RunState:
    return fold(read_events(next(where.glob("runs/*/events.jsonl"))))


def resumed(where: Path) -> RunState:
    run = next(where.glob("runs/*")).name
    status, message = Running(where, "--resume", run).end()
    assert "Traceback" not in message
    assert status in {0, 1}, message
    return state_in(where)


def told(turn: Turn) -> tuple[Any, ...]:
    """A turn without the numbers that its secret inputs made."""
    assert turn.evaluation is not None
    return turn.index, turn.request, turn.reply, turn.evaluation.verdict


def is_reply_of(turn: int) -> Callable[[Event], bool]:
    return lambda event: isinstance(event, ReplyReceived) and event.turn == turn


def nothing_is_paid_twice(where: Path) -> bool:
    turns = [event.turn for event in events_in(where) if isinstance(event, ReplyReceived)]
    return turns == list(range(len(WRONG)))


WORDS = ("scale.py", "--model", "replay:talk.jsonl", "--device", "virtual")


def test_ctrl_c_once_finishes_the_turn_and_the_run_can_be_resumed(tmp_path: Path) -> None:
    where = problem_in(tmp_path, WRONG)
    run = Running(where, *WORDS)
    run.wait_for(is_reply_of(0))
    run.interrupt()
    status, message = run.end()
    assert status == 130
    assert "stopping after this turn" in message
    assert "Traceback" not in message
    stopped = state_in(where)
    assert stopped.finished is not None
    assert (stopped.finished.outcome, stopped.finished.exit_status) == ("interrupted", 130)
    assert not stopped.begun, "the turn was finished"
    done = len(stopped.history.turns)
    assert 1 <= done < len(WRONG)

    ended = resumed(where)
    assert len(ended.history.turns) == len(WRONG)
    assert ended.history.turns[:done] == stopped.history.turns
    assert nothing_is_paid_twice(where)


def test_ctrl_c_twice_stops_now_and_the_run_can_be_resumed(tmp_path: Path) -> None:
    where = problem_in(tmp_path, WRONG)
    run = Running(where, *WORDS)
    run.wait_for(is_reply_of(1))
    run.interrupt()
    run.hear("stopping after this turn")
    run.interrupt()
    status, message = run.end()
    assert status == 130
    assert "Traceback" not in message
    last = events_in(where)[-1]
    assert isinstance(last, RunFinished)
    assert last.outcome == "interrupted"
    stopped = state_in(where)

    ended = resumed(where)
    assert len(ended.history.turns) == len(WRONG)
    known = [told(turn) for turn in stopped.history.finished]
    assert [told(turn) for turn in ended.history.turns][: len(known)] == known
    assert nothing_is_paid_twice(where)
    begun = [event.turn for event in events_in(where) if isinstance(event, TurnStarted)]
    assert sorted(set(begun)) == sorted(begun), "a turn was begun twice"


def test_ctrl_c_with_a_winner_in_hand_writes_it(tmp_path: Path) -> None:
    where = problem_in(tmp_path, [KERNEL, *WRONG])
    run = Running(where, *WORDS)
    run.wait_for(is_reply_of(1))
    run.interrupt()
    status, message = run.end()
    assert status == 0, message
    assert (where / "scale_optimized.py").is_file()
    stopped = state_in(where)
    assert stopped.winner_turn == 0
    assert 2 <= len(stopped.history.turns) < 1 + len(WRONG)

    ended = resumed(where)
    assert len(ended.history.turns) == 1 + len(WRONG)
    assert ended.winner == stopped.winner, "what was measured is not measured again"


def test_a_second_resume_of_a_run_that_goes_on_is_refused(tmp_path: Path) -> None:
    where = problem_in(tmp_path, WRONG)
    first = Running(where, *WORDS)
    first.wait_for(is_reply_of(0))
    folder = RunFolder(next(where.glob("runs/*")))
    status, message = Running(where, "--resume", folder.id).end()
    assert status == 2
    assert f"process {first.process.pid}" in message
    first.interrupt()
    assert first.end()[0] == 130
