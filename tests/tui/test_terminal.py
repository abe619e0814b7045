"""The program in a real terminal: tmux with send-keys and capture-pane."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.tui_runs import made_run
from kernelagent.domain.events import Steered, TurnStarted
from kernelagent.storage.run_log import read_events

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 240.0
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]


@dataclass
class Terminal:
    """One tmux server of its own with one pane of 80 by 24."""

    socket: str
    folder: Path

    def tmux(self, *words: str) -> str:
        command = ["tmux", "-L", self.socket, *words]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    def start(self, *words: str) -> None:
        program = [sys.executable, "-m", "kernelagent", *words]
        line = f"{shlex.join(program)}; echo ended with $?; sleep 600"
        environment = f"env PYTHONPATH={shlex.quote(str(ROOT))} TERM=screen-256color"
        self.tmux(
            *("new-session", "-d", "-s", "s", "-x", "80", "-y", "24", "-c", str(self.folder)),
            f"{environment} sh -c {shlex.quote(line)}",
        )

    def keys(self, *keys: str) -> None:
        self.tmux("send-keys", "-t", "s", *keys)

    @property
    def screen(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", "s")

    def until(self, holds: Callable[[str], bool]) -> str:
        """What stands on the screen once something holds of it."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if holds(shown := self.screen):
                return shown
            time.sleep(0.1)
        raise AssertionError(f"it never came to hold; the screen:\n{self.screen}")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(f"kernelagent-{os.getpid()}-{time.time_ns()}", tmp_path)
    yield terminal
    terminal.tmux("kill-server")


def test_a_past_run_is_seen_opened_and_left_by_keys(terminal: Terminal) -> None:
    folder = made_run(terminal.folder / "runs", 12, finished=True)
    terminal.start("tui", str(folder.path))
    parts = ("best so far", "★ best", "ESTIMATE", "turns 12/1.0k")
    shown = terminal.until(lambda text: all(part in text for part in parts))
    assert all(len(line) <= 80 for line in shown.splitlines())
    terminal.keys("?")
    terminal.until(lambda text: "accepted, rejected, could not be judged" in text)
    terminal.keys("Escape")
    terminal.until(lambda text: "enter: open" in text and "Keys" not in text)
    terminal.keys("Home", "Enter")
    terminal.until(lambda text: "1 code" in text and "import triton" in text)
    terminal.keys("3")
    terminal.until(lambda text: "stages" in text)
    terminal.keys("Escape")
    terminal.until(lambda text: "best so far" in text)
    terminal.keys("q")
    terminal.until(lambda text: "ended with 0" in text)


def test_a_run_is_started_steered_and_seen_to_its_end(terminal: Terminal) -> None:
    # Of which the built-in policy has two versions.
    problem = ROOT / "examples" / "matmul_bias_gelu.py"
    terminal.start("optimize", str(problem), "--turns", "1", "--tui", "--device", "virtual")
    terminal.until(lambda text: "RUNNING" in text)
    terminal.keys("b")
    terminal.until(lambda text: "A direction" in text)
    terminal.keys("atomics", "Enter")
    terminal.until(lambda text: "A direction" not in text)
    terminal.keys("u")
    terminal.until(lambda text: "Raise limits" in text)
    terminal.keys("turns=+1", "Enter")
    terminal.until(lambda text: "DONE" in text and "2/2" in text)
    terminal.keys("q")
    terminal.until(lambda text: "ended with 0" in text and "verified, not timed" in text)
    (log,) = (terminal.folder / ".kernelagent" / "runs").glob("*/events.jsonl")
    events = [logged.event for logged in read_events(log)]
    (ban, budget) = (e for e in events if isinstance(e, Steered))
    assert (ban.act, ban.refused) == (
        "ban",
        "compiler reads no prompt: a hint or a ban reaches LLMs only",
    )
    assert (budget.act, budget.refused) == ("budget", None)
    assert sum(isinstance(e, TurnStarted) for e in events) == 2
