"""What a candidate keeps between two calls, and what it asks torch for on the host, as it is seen."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from kernelagent.tools.candidate_runner.host_reads import HostReads
from kernelagent.tools.candidate_runner.kept_state import changed, state_of

NAME = "kept_in_a_test"
TEXT = """
import array, collections, functools, itertools, random, torch

COUNT = itertools.count()
CYCLE = itertools.cycle([1, 2, 3])
ZIP = zip(range(9), "abcdefghi")
MAP = map(str, iter(range(9)))
LIST = iter([1, 2, 3, 4, 5])
DICT = iter({1: 2, 3: 4})
TENSOR = torch.zeros(4)
SET = {1}
BYTES = bytearray(4)
ARRAY = array.array("i", [1, 2])
BOX = [[]]
MISSING = collections.defaultdict(lambda: len(MISSING))
QUEUE = collections.deque([1])
CHANCE = random.Random(3)


def generate():
    calls = 0
    while True:
        calls += 1
        yield calls


MADE = generate()


def default(seen=[]):
    seen += [1]


def closing():
    calls = 0

    def inner():
        nonlocal calls
        calls += 1

    return inner


inner = closing()
bound = functools.partial(default)


@functools.lru_cache
def cached(key):
    return key


class Plain:
    calls = 0


class Slots:
    __slots__ = ("calls",)

    def __init__(self):
        self.calls = 0


class Hidden(dict):
    __module__ = "torch"


PLAIN, SLOTS, HIDDEN = Plain(), Slots(), Hidden()


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(2))
        self.register_buffer("saved", torch.zeros(2))
        self.register_buffer("scratch", torch.zeros(2), persistent=False)
        self.inner = torch.nn.Linear(2, 2)


MODEL = None
"""


@pytest.fixture
def module() -> Iterator[ModuleType]:
    made = ModuleType(NAME)
    sys.modules[NAME] = made
    exec(TEXT, vars(made))
    yield made
    del sys.modules[NAME]


CHANGES = {
    "next(COUNT)": "COUNT",
    "next(CYCLE)": "CYCLE",
    "next(ZIP)": "ZIP",
    "next(MAP)": "MAP",
    "next(LIST)": "LIST",
    "next(DICT)": "DICT",
    "TENSOR.add_(1)": "TENSOR",
    "TENSOR.data[3] = 1": "TENSOR",
    "SET.add(2)": "SET",
    "BYTES[0] = 1": "BYTES",
    "ARRAY[0] = 7": "ARRAY",
    "BOX[0].append(1)": "BOX",
    "MISSING[len(MISSING)]": "MISSING",
    "QUEUE.rotate(); QUEUE.append(2)": "QUEUE",
    "CHANCE.random()": "CHANCE",
    "next(MADE)": "MADE",
    "default()": "default",
    "bound()": "default",
    "inner()": "inner",
    "cached(9)": "cached",
    "default.calls = 1": "default",
    "Plain.calls += 1": "Plain.calls",
    "PLAIN.other = 1": "PLAIN.other",
    "SLOTS.calls += 1": "SLOTS",
    "HIDDEN['a'] = 1": "HIDDEN.a",
    "NEW = 1": "NEW",
}


@pytest.mark.parametrize("statement", CHANGES)
def test_what_a_call_leaves_changed_is_named(module: ModuleType, statement: str) -> None:
    before = state_of(module, None)
    assert changed(before, state_of(module, None)) == ()
    exec(statement, vars(module))
    assert CHANGES[statement] in changed(before, state_of(module, None))


OF_MODULES = {
    "m.scratch.add_(1)": ("self.scratch",),
    "m.inner.calls = 1": ("self.inner.calls",),
    "m.kept = [m.weight]": ("self.kept",),
    "m.weight.data.add_(1)": (),
    "m.saved.add_(1)": (),
}


@pytest.mark.parametrize("statement", OF_MODULES)
def test_of_a_module_all_but_what_is_compared_with_the_reference_is_seen(
    module: ModuleType, statement: str
) -> None:
    model = vars(module)["ModelNew"]()
    before = state_of(module, model)
    exec(statement, {"m": model})
    names = changed(before, state_of(module, model))
    expected = OF_MODULES[statement]
    assert all(name.startswith(tuple(expected)) for name in names) if expected else names == ()
    assert bool(names) is bool(expected)


READS = {
    "repr(x)": "__repr__",
    "f'{x[0]}'": "__format__",
    "'%s' % x": "__repr__",
    "'{}'.format(x[0])": "__format__",
    "x.tolist()": "tolist",
    "1.0 in x": "__contains__",
    "len(x.nonzero())": "nonzero",
    "x[x > 0].shape": "__getitem__",
    "[*map(float, x)]": "__float__",
    "max(x)": "__bool__",
    "[1, 2, 3, 4][x.argmax()]": "__index__",
    "torch.zeros(x[0].long())": "item",
    "x.split([x[0].long(), 3 - x[0].long()])": "item",
    "torch.equal(x, x)": "equal",
}


def seen(expression: str, file: Path) -> tuple[str, ...]:
    given: dict[str, Any] = {"torch": torch}
    exec(compile(f"def forward(x):\n    return {expression}\n", str(file), "exec"), given)
    with HostReads(str(file)) as reads:
        given["forward"](torch.tensor([1.0, 2.0, 3.0]))
    return reads.names


@pytest.mark.parametrize("expression", READS)
def test_a_value_that_is_taken_to_the_host_is_seen(expression: str, tmp_path: Path) -> None:
    assert READS[expression] in seen(expression, tmp_path / "candidate.py")


@pytest.mark.parametrize(
    "expression", ["x.sum() * 2", "x[1:], x[0]", "x.shape[0], len(x)", "torch.where(x > 0, x, 0.0)"]
)
def test_what_stays_on_the_device_is_no_read(expression: str, tmp_path: Path) -> None:
    assert seen(expression, tmp_path / "candidate.py") == ()


def test_what_others_ask_for_is_not_the_candidates(tmp_path: Path) -> None:
    with HostReads(str(tmp_path / "candidate.py")) as reads:
        torch.ones(3).tolist()
    assert reads.names == ()
