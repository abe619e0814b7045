"""What counts as work of the host in a forward: the text's own lines, and functions that are nobody's but Python's."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch

from kernelagent.tools.candidate_runner.host_work import HostWork
from kernelagent.tools.judge.bounds.host_time import Allowed
from kernelagent.tools.judge.verify.candidate_process import OnTheHost

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
LITTLE = {
    "shapes": "x = torch.ones(8, 4)\nrows, width = x.shape\nout = x.new_empty(rows)\n",
    "work of torch": "torch.ones(512, 512) @ torch.ones(512, 512)\n",
    "a module of torch": "torch.nn.Linear(256, 256)(torch.ones(256, 256))\n",
    "an if": "x = torch.ones(4)\nassert x.is_contiguous() and len(x.shape) == 1\n",
}


def worked(text: str) -> HostWork:
    code = compile(text, "candidate.py", "exec")
    names = {"torch": torch, "np": np, "time": time}
    with HostWork("candidate.py") as work:
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


@pytest.mark.parametrize("work", LITTLE)
def test_what_torch_does_is_not_the_texts_own_work(work):
    done = worked(LITTLE[work])
    assert done.lines < 10
    assert done.elsewhere_s < 1e-3


def test_what_followed_the_interpreter_before_does_so_again():
    import sys

    before = sys.gettrace(), sys.getprofile()
    worked("x = 1\n")
    assert (sys.gettrace(), sys.getprofile()) == before
