"""kill -9 of a real run, with the built-in policy and the judge of `virtual`, and its resumption."""

from __future__ import annotations

import ast
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kernelagent.domain.history import Turn
from kernelagent.storage.run_log import read_events
from kernelagent.storage.run_state import RunState, fold

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "softmax_scale_mask.py"
WORDS = (str(EXAMPLE), "--turns", "3", "--model", "compiler", "--device", "virtual")
KILLS = 10
GRACE_S = 20.0
"""How long the processes of a killed run may take to see that they are alone."""

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]


def start(where: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "kernelagent", "optimize", *words, "--runs", "runs"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=where,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


def finish(process: subprocess.Popen[str]) -> None:
    message, talk = process.communicate(timeout=600)
    assert process.returncode == 0, message + talk


def log_of(where: Path) -> Path | None:
    return next(where.glob("runs/*/events.jsonl"), None)


def state_of(where: Path) -> RunState:
    log = log_of(where)
    assert log is not None
    return fold(read_events(log))


def told(turn: Turn) -> tuple[Any, ...]:
    """A turn without the numbers that its secret inputs and the clock made."""
    result = turn.evaluation
    assert result is not None
    code = result.reason.code if result.reason else None
    source = turn.candidate.source if turn.candidate else None
    return turn.index, turn.request, turn.reply, source, result.verdict, code, result.estimate


def module_of(where: Path) -> str:
    """The emitted program without its header, which names run, day and errors."""
    tree = ast.parse((where / "out.py").read_text(encoding="utf-8"))
    return ast.dump(ast.Module(tree.body[1:], []))


def descendants(process: int) -> set[int]:
    result: set[int] = set()
    for line in Path(f"/proc/{process}/task").glob("*/children"):
        for child in map(int, line.read_text().split()):
            result |= {child} | descendants(child)
    return result


def alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("whole")
    finish(start(where, *WORDS, "--out", "out.py"))
    return where


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_real_run_that_was_killed_ends_as_if_it_had_not_been(
    seed: int, whole: Path, tmp_path: Path
) -> None:
    dice = random.Random(seed)
    whole_log = log_of(whole)
    assert whole_log is not None
    kill_after = dice.randint(1, whole_log.read_bytes().count(b"\n") - 1)
    process = start(tmp_path, *WORDS, "--out", "out.py")
    while process.poll() is None:
        log = log_of(tmp_path)
        if log is not None and log.read_bytes().count(b"\n") >= kill_after:
            break
        time.sleep(0.005)
    time.sleep(dice.uniform(0, 0.2))
    helpers = descendants(process.pid)
    process.kill()
    process.communicate()
    deadline = time.monotonic() + GRACE_S
    while any(map(alive, helpers)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [helper for helper in helpers if alive(helper)], "a killed run left processes"

    log = log_of(tmp_path)
    assert log is not None
    finish(start(tmp_path, "--resume", log.parent.name))
    result, wanted = state_of(tmp_path), state_of(whole)
    assert list(map(told, result.history.turns)) == list(map(told, wanted.history.turns))
    assert result.winner_turn == wanted.winner_turn
    assert result.winner is not None
    assert result.winner.accepted
    assert module_of(tmp_path) == module_of(whole)
    report = json.loads((log.parent / "report.json").read_text(encoding="utf-8"))
    assert report["outcome"] == "better"
