"""What is done every few moments takes a small share of a processor, and waits for nothing else that is slow."""

from __future__ import annotations

import time

from kernelagent.tools.sandbox.supervisor import CENSUS_SHARE, Regular


def work(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_what_costs_much_is_done_less_often() -> None:
    counting = Regular(0.0)
    counting.call_if_due(lambda: work(0.05))
    assert counting.left_s > 0.8 * 0.05 / CENSUS_SHARE


def test_what_only_waits_for_a_processor_is_done_as_often() -> None:
    # On a busy machine a count may take a second of which it computes a millisecond.
    counting = Regular(0.0)
    counting.call_if_due(lambda: time.sleep(0.2))
    assert counting.left_s < 0.1


def test_what_is_not_due_is_not_done() -> None:
    done: list[int] = []
    looking = Regular(60.0)
    looking.call_if_due(lambda: done.append(1))
    assert done == []
    assert 59.0 < looking.left_s <= 60.0


def test_a_slow_neighbour_puts_off_nothing() -> None:
    counting, looking = Regular(0.0), Regular(0.0)
    done: list[int] = []
    counting.call_if_due(lambda: work(0.05))
    looking.call_if_due(lambda: done.append(1))
    assert done == [1]
