"""What takes too long is ended at its next line of Python, and what is done in time is left alone."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from kernelagent.tools.judge.problem.reference.ended_after import TakesTooLongError, ended_after


def goes_round_for_ever() -> None:
    size = 2
    while size > 1:
        size = size * 3 % 1_000_003 + 2


def test_a_loop_without_end_is_ended() -> None:
    began = time.monotonic()
    with pytest.raises(TakesTooLongError), ended_after(0.2):
        goes_round_for_ever()
    assert time.monotonic() - began < 60


def test_what_is_done_in_time_is_left_alone() -> None:
    with ended_after(0.05):
        total = sum(range(10))
    until = time.monotonic() + 0.2
    while time.monotonic() < until:
        total += 1
    assert total > 45


def test_what_is_traced_afterwards_runs() -> None:
    # In a process of its own: an interpreter that never gets past a traced function takes no signal either.
    text = (
        "import sys\n"
        "from kernelagent.tools.judge.problem.reference.ended_after import ended_after\n"
        "with ended_after(60): pass\n"
        "sys.settrace(lambda *seen: None)\n"
        "(lambda: None)()\n"
    )
    subprocess.run([sys.executable, "-c", text], check=True, timeout=60)
