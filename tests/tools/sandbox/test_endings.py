"""However a candidate's process ends, it is named, and nothing of it is left."""

from __future__ import annotations

import os
import signal
import time

import pytest


def test_a_function_that_returns_ends_with_status_0(ground):
    ended = ground.run("return_at_once")
    assert (ended.code, ended.signal, ended.why) == (0, None, None)


def test_settings_reach_the_function_unchanged(ground):
    settings = {"source": "é\n" * 200_000, "numbers": [1, 2.5, None]}
    assert ground.ask("answer_with_settings", **settings) == settings


@pytest.mark.parametrize(
    ("name", "code"), [("leave_early", 0), ("exit_with_3", 3), ("raise_an_error", 1)]
)
def test_an_exit_is_reported_with_its_status(ground, name, code):
    assert ground.run(name).code == code


def test_an_error_leaves_its_traceback_in_the_output(ground):
    child = ground.start("raise_an_error")
    child.wait(30)
    assert "ValueError: the candidate is wrong" in child.output()


@pytest.mark.parametrize(("name", "signal_name"), [("segfault", "SIGSEGV"), ("abort", "SIGABRT")])
def test_a_crash_is_named_by_its_signal_and_located(ground, name, signal_name):
    child = ground.start(name)
    ended = child.wait(30)
    assert ended is not None
    assert ended.signal == signal_name
    assert ended.describe() == f"was killed by {signal_name}"
    assert f"in {name}" in child.output()


@pytest.mark.long
@pytest.mark.namespaces
@pytest.mark.parametrize("name", ["hang", "hang_in_every_handler", "spin"])
def test_a_hang_is_still_there_until_it_is_killed(ground, name):
    child = ground.start(name)
    assert child.wait(0.3) is None
    began = time.monotonic()
    assert child.kill().signal == "SIGKILL"
    assert time.monotonic() - began < 5


def test_neither_atexit_nor_a_thread_nor_a_replaced_exit_delays_the_end(ground):
    assert ground.run("hang_at_exit").code == 0


@pytest.mark.long
@pytest.mark.namespaces
def test_a_daemon_dies_with_the_process_that_left_it(ground):
    assert ground.run("leave_a_daemon").code == 0
    assert ground.leftovers() == []


def test_killing_twice_gives_the_same_answer(ground):
    child = ground.start("hang")
    assert child.kill() == child.kill()


def test_closing_every_descriptor_harms_only_itself(ground):
    assert ground.run("close_every_descriptor").code in (0, 1)
    assert ground.run("return_at_once").code == 0


@pytest.mark.namespaces
def test_a_killed_keeper_takes_its_tree_along(ground):
    child = ground.start("hang")
    os.kill(child.pid, signal.SIGKILL)
    ended = child.wait(10)
    assert ended is not None
    assert ended.signal == "SIGKILL"
    assert ground.leftovers() == []


@pytest.mark.namespaces
def test_dropping_the_judges_end_ends_the_tree(ground):
    child = ground.start("hang")
    child.report.close()
    assert ground.leftovers() == []


def test_two_processes_run_side_by_side(ground):
    first, second = ground.start("hang"), ground.start("return_at_once")
    ended = second.wait(30)
    assert ended is not None
    assert ended.code == 0
    assert first.wait(0.0) is None
    first.kill()
