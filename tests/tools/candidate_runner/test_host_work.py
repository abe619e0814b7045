"""What counts as work of the host in a forward: the text's own lines, and functions that are nobody's but Python's."""

from __future__ import annotations

import inspect
import statistics
import time
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from kernelagent.tools.candidate_runner.host.host_reads import HostReads
from kernelagent.tools.candidate_runner.host.host_work import HostWork
from kernelagent.tools.candidate_runner.host.own_work import OwnWork, slowness
from kernelagent.tools.judge.bounds.host_time import Allowed
from kernelagent.tools.judge.verify.process.answers import OnTheHost
from kernelagent.tools.virtual.executor.argument_values import values_of

LOOPS = {
    "for": "for at in range(2000):\n    total = at\n",
    "while": "at = 0\nwhile at < 2000: at += 1\n",
    "a list": "[at for at in range(2000)]\n",
    "a generator": "sum(at for at in range(2000))\n",
    "a function": "def one(): return 1\nfor at in range(1000): one()\n",
}
ELSEWHERE = {
    "sleeping": "time.sleep(0.02)\n",
    "a sum in C": "sum(range(1_000_000))\n",
    "sorting": "sorted(range(500_000), key=abs)\n",
    "a library": "np.unique(np.arange(200_000).repeat(4))\n",
}
IN_A_LINE = {
    "a long integer": "number = 3\nfor turn in range(17): number = number * number\n",
    "a long text": "text = 'n' * 30_000_000\n",
    "a list": "numbers = [0] * 3_000_000\n",
    "a function": "numbers = sum(range(1_000_000))\n",
}
LITTLE = {
    "shapes": "x = torch.ones(8, 4)\nrows, width = x.shape\nout = x.new_empty(rows)\n",
    "work of torch": "torch.ones(512, 512) @ torch.ones(512, 512)\n",
    "a module of torch": "torch.nn.Linear(256, 256)(torch.ones(256, 256))\n",
    "an if": "x = torch.ones(4)\nassert x.is_contiguous() and len(x.shape) == 1\n",
}


def worked(text: str) -> HostWork:
    code = compile(text, "candidate.py", "exec")
    names = {"torch": torch, "np": np, "time": time}
    with HostReads("candidate.py"), HostWork("candidate.py") as work:
        exec(code, names)
    return work


@pytest.mark.parametrize("loop", LOOPS)
def test_each_turn_of_a_loop_is_counted(loop):
    assert worked(LOOPS[loop]).lines >= 2000


def test_counting_ends_before_it_takes_long():
    assert worked("for at in range(200_000): pass\n").lines <= 21_000


def test_calls_of_torch_count_whether_they_launch_anything_or_not():
    assert worked("x = torch.ones(4)\nfor at in range(500): x.view(2, 2)\n").calls >= 500


def test_the_time_of_launches_is_nobodys_work():
    spent = iter([0.0, 5.0])
    code = compile("time.sleep(0.01)\n", "candidate.py", "exec")
    with HostWork("candidate.py", lambda: next(spent)) as work:
        exec(code, {"time": time})
    assert work.elsewhere_s == 0.0


@pytest.mark.parametrize(
    ("done", "told"),
    [
        (OnTheHost(lines=60, calls=40, elsewhere_s=2e-5), None),
        (OnTheHost(lines=1100), None),
        (OnTheHost(lines=4000), "4,000 lines"),
        (OnTheHost(calls=500), "500 times"),
        (OnTheHost(elsewhere_s=1e-3), "1.0 ms in functions of other libraries"),
        (OnTheHost(values=60), None),
        (OnTheHost(values=150), "150 values to its launches"),
    ],
)
def test_what_a_launch_needs_is_not_told(done, told):
    said = Allowed.of(launches=1, operations=0).beyond(done)
    assert said is None if told is None else told in (said or "")


def test_a_reference_of_many_operations_allows_as_much_of_a_candidate():
    assert Allowed.of(launches=1, operations=512).beyond(OnTheHost(lines=5000, calls=2000)) is None


@pytest.mark.parametrize("work", ELSEWHERE)
def test_functions_that_are_nobodys_but_pythons_are_timed(work):
    assert worked(ELSEWHERE[work]).elsewhere_s > 2e-3


@pytest.mark.long
@pytest.mark.parametrize("work", IN_A_LINE)
def test_what_one_line_works_is_measured_though_it_calls_nothing(work):
    def share() -> float:
        names: dict[str, object] = {}  # kept, so that freeing what was made is not timed
        code = compile(IN_A_LINE[work], "bare.py", "exec")
        began = time.thread_time()
        exec(code, names)
        bare = time.thread_time() - began
        # What is measured is in seconds of a core of usual speed, and so is this.
        return worked(IN_A_LINE[work]).busy_s * slowness() / bare

    # The median, since memory that a turn left is had for less by the next one.
    assert statistics.median(share() for _ in range(9)) > 0.5


@pytest.mark.parametrize("work", LITTLE)
def test_what_torch_does_is_not_the_texts_own_work(work):
    done = [worked(LITTLE[work]) for _ in range(5)]
    assert done[0].lines < 10
    assert done[0].elsewhere_s < 1e-3
    assert min(one.busy_s for one in done) < 1e-4


@pytest.mark.parametrize(("of_turns", "left"), [(13e-6, 7e-6), (26e-6, 0.0), (6e-6, 7e-6)])
def test_what_being_followed_takes_is_left_out_in_the_seconds_of_this_machine(
    of_turns: float, left: float
) -> None:
    # Three looks at how slow Python is here, then 14 µs from a line to a call of torch.
    times = iter([0.0, of_turns, 0.0, of_turns, 0.0, of_turns, 0.0, 14e-6])
    work = OwnWork(lambda _: True, lambda: next(times))
    frame = inspect.currentframe()
    assert frame is not None
    work.called(frame)
    work.go_on()
    work.called(frame, free=True)
    assert work.seconds() == pytest.approx(left, abs=1e-9)


def test_following_the_text_is_none_of_its_work():
    def share() -> float:
        began = time.thread_time()
        done = worked("x = 1\n" * 500)
        return done.busy_s / (time.thread_time() - began)

    assert min(share() for _ in range(5)) < 0.05


def test_sleeping_is_no_work_of_the_thread():
    done = worked(ELSEWHERE["sleeping"])
    assert done.elsewhere_s > 0.01
    assert done.busy_s < 0.005


@dataclass(frozen=True)
class Table:
    """As a constant of a kernel may be."""

    entries: tuple[int, ...]
    name: str = "table"


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ((torch.ones(1000), 5, 0.5, None, "text"), 5),
        (((1, 2), (3, (4, torch.ones(2)))), 8),
        ((7**1000,), 44),
        ((Table((1,) * 50), torch.float32), 54),
        ((), 0),
    ],
)
def test_the_values_of_a_launch_are_those_that_triton_looks_at(arguments, values):
    assert values_of(arguments) == values


def test_what_followed_the_interpreter_before_does_so_again():
    import sys

    before = sys.gettrace(), sys.getprofile()
    worked("x = 1\n")
    assert (sys.gettrace(), sys.getprofile()) == before
