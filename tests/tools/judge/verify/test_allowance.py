"""Calls beyond the verdict's own have processor time, which a busy machine does not take away."""

from __future__ import annotations

from kernelagent.tools.judge.verify.beyond.allowance import Allowance
from kernelagent.tools.sandbox.limits import tree_seconds


class Machine:
    """A clock, and how much of its time was worked."""

    def __init__(self) -> None:
        self.now = self.worked = 0.0

    def passes(self, seconds: float, worked: float) -> None:
        self.now += seconds
        self.worked += worked

    def allowance(self) -> Allowance:
        return Allowance(4.0, 20.0, lambda: self.now, lambda: self.worked)


def test_waiting_for_a_busy_machine_spends_nothing() -> None:
    machine = Machine()
    allowance = machine.allowance()
    machine.passes(10.0, 1.0)
    assert not allowance.spent
    machine.passes(5.0, 3.5)
    assert allowance.spent


def test_by_the_clock_it_ends_as_well() -> None:
    machine = Machine()
    allowance = machine.allowance()
    machine.passes(21.0, 0.0)
    assert allowance.spent


def test_work_on_many_cores_within_the_time_spends_nothing() -> None:
    machine = Machine()
    allowance = machine.allowance()
    machine.passes(3.0, 30.0)
    assert not allowance.spent


def test_processor_time_grows_with_what_is_computed() -> None:
    began = tree_seconds()
    count = 0
    while tree_seconds() - began < 0.02 and count < 1000:
        count += 1
        sum(range(100_000))
    assert tree_seconds() - began >= 0.02
