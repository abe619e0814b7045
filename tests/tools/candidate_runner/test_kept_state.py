"""What a candidate keeps between two calls, and what it asks torch for on the host, as it is seen."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from kernelagent.tools.calls.state_changes import BEYOND, state_sentence
from kernelagent.tools.candidate_runner.host.host_reads import HostReads
from kernelagent.tools.candidate_runner.kept import kept_objects
from kernelagent.tools.candidate_runner.kept.kept_elsewhere import words_of
from kernelagent.tools.candidate_runner.kept.kept_state import changed, state_of, walk

NAME = "kept_in_a_test"
TEXT = """
import array, collections, functools, itertools, random, torch, triton
import triton.language as tl

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
__author__ = []
MISSING = collections.defaultdict(lambda: len(MISSING))
QUEUE = collections.deque([1])
CHANCE = random.Random(3)


def generate():
    calls = 0
    while True:
        calls += 1
        yield calls


def pass_on():
    yield from range(10**9)


def repeat():
    for _ in map(str, itertools.repeat(1, 10**9)):
        yield _


MADE = generate()
PASSED = pass_on()
REPEATED = repeat()
next(PASSED), next(REPEATED)


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
BOXED = frozenset([Plain()])
VIEW = torch.zeros(8)[:1]
SQUARE = torch.zeros(2, 2)
SPARSE = torch.eye(3).to_sparse()
ONE = tl.constexpr(1)
FLOAT = torch.zeros(1)


@torch.no_grad()
def wrapped(seen=[]):
    seen += [1]


@triton.jit
def kernel(x_ptr):
    tl.store(x_ptr, 1.0)


class Iterates(list):
    def __iter__(self):
        raise RuntimeError("the candidate's own code must not be called")


ITERATES = Iterates([[1]])


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(2))
        self.register_buffer("saved", torch.zeros(2))
        self.register_buffer("scratch", torch.zeros(2), persistent=False)
        self.inner = torch.nn.Linear(2, 2)
        self.tail = torch.nn.Parameter(torch.zeros(8)[:2])
        self.square = torch.nn.Parameter(torch.zeros(2, 2))
        self.running_mean = torch.zeros(2)


MODEL = None
"""


@pytest.fixture
def module(tmp_path: Path) -> Iterator[ModuleType]:
    made = ModuleType(NAME)
    sys.modules[NAME] = made
    # Triton reads a kernel's text from its file.
    file = tmp_path / "candidate.py"
    file.write_text(TEXT)
    exec(compile(TEXT, str(file), "exec"), vars(made))
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
    "SLOTS.calls += 1": "SLOTS.calls",
    "HIDDEN['a'] = 1": "HIDDEN.a",
    "NEW = 1": "NEW",
    "__author__.append(1)": "__author__",
    "next(PASSED)": "PASSED",
    "next(REPEATED)": "REPEATED",
    "[*BOXED][0].count = 1": "BOXED",
    "VIEW.untyped_storage()[17] = 1": "VIEW",
    "SQUARE.t_()": "SQUARE",
    "SQUARE.kept = 1": "SQUARE.kept",
    "FLOAT.requires_grad_()": "FLOAT",
    "SPARSE.values()[1] = 2": "SPARSE",
    "ONE.value += 1": "ONE.value",
    "kernel.calls = 1": "kernel.calls",
    "kernel.noinline = True": "kernel.noinline",
    "kernel.compile = 7": "kernel.compile",
    "kernel.pre_run_hooks.append(1)": "kernel.pre_run_hooks",
    "wrapped()": "wrapped.attributes.__wrapped__",
    "ITERATES[0].append(1)": "ITERATES",
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
    "m.weight.calls = 1": ("self.weight.calls",),
    "m.tail.untyped_storage()[11] = 1": ("self.tail",),
    "m.square.data = m.square.data.t()": ("self.square",),
    "m.running_mean.add_(1)": ("self.running_mean",),
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


def test_memory_that_is_kept_is_counted_but_for_what_the_reference_has(module: ModuleType) -> None:
    model = vars(module)["ModelNew"]()
    before = walk(module, model).bytes
    model.weight.grad = None
    assert walk(module, model).bytes == before
    model.workspace = [torch.empty(1000)]
    model.again = model.workspace[0][:10]
    model.own = model.weight.detach()
    assert walk(module, model).bytes == before + 4000


ELSEWHERE = {
    "torch.nn.Linear.calls = 1": "Linear.calls",
    "torch.nn.functional.relu.calls = 1": "relu.calls",
    "torch.kept = [1]": "torch.kept",
    "triton.language.tensor.calls = 1": "tensor.calls",
}


@pytest.mark.parametrize("statement", ELSEWHERE)
def test_what_is_kept_in_a_thing_of_anothers_that_the_text_names_is_seen(
    module: ModuleType, statement: str
) -> None:
    words = words_of(TEXT + statement)
    before = state_of(module, None, words)
    exec(statement, vars(module))
    try:
        assert ELSEWHERE[statement] in changed(before, state_of(module, None, words))
    finally:
        exec(f"del {statement.partition(' = ')[0]}", vars(module))
    assert changed(before, state_of(module, None, words)) == ()


def test_what_triton_writes_into_a_kernel_that_is_launched_is_not_the_candidates(
    module: ModuleType,
) -> None:
    from triton import compiler

    before = state_of(module, None)
    kernel = vars(module)["kernel"]
    kernel.hash, kernel.compile, kernel.ASTSource = "a", compiler.compile, compiler.ASTSource
    assert kernel.params[0].is_constexpr is False
    assert changed(before, state_of(module, None)) == ()


@pytest.mark.long
def test_the_middle_of_a_large_tensor_and_the_end_of_a_long_list_are_looked_at() -> None:
    kept = ModuleType("large")
    large = torch.zeros(80 << 20, dtype=torch.uint8)
    long = [[i] for i in range(60_000)]
    vars(kept).update(large=large, long=long)
    before = state_of(kept, None)
    large[41_234_567], large[41_234_568] = 1, 255
    long[-1].append(1)
    assert set(changed(before, state_of(kept, None))) == {"large", "long"}


def test_a_tensor_that_torch_compile_traced_with_holds_nothing_but_its_attributes() -> None:
    kept = ModuleType("traced")
    with FakeTensorMode():
        traced = torch.empty(4)
    vars(kept).update(traced=traced)
    before = state_of(kept, None)
    assert changed(before, state_of(kept, None)) == ()
    setattr(traced, "calls", 1)  # noqa: B010 - torch's class does not name it
    assert changed(before, state_of(kept, None)) == ("traced.calls",)


def test_where_more_is_kept_than_is_looked_at_it_is_said(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_objects, "_MOST_OBJECTS", 20)
    state = state_of(module, None)
    assert changed(state, state) == (BEYOND,)
    assert "more is kept than is looked at" in state_sentence((BEYOND,))
    assert state_sentence(("self.a", BEYOND)).startswith("self.a changed from one call to the next")


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
    "len(torch.bincount(x.long()))": "bincount",
    "len(x.repeat_interleave(x.long()))": "repeat_interleave",
    "torch.linalg.cholesky(x[:1, None])": "linalg",
    "torch.linalg.inv(x[:1, None])": "linalg",
    "torch.inverse(x[:1, None])": "linalg",
    "torch.linalg.solve(x[:1, None], x[:1])": "linalg",
    "len(x.to_sparse().coalesce().values())": "to_sparse",
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
    "expression",
    [
        "x.sum() * 2",
        "x[1:], x[0]",
        "x.shape[0], len(x)",
        "torch.where(x > 0, x, 0.0)",
        "x.repeat_interleave(2)",
        "x.repeat_interleave(x.long(), output_size=6)",
        "torch.linalg.cholesky_ex(x[:1, None])",
    ],
)
def test_what_stays_on_the_device_is_no_read(expression: str, tmp_path: Path) -> None:
    assert seen(expression, tmp_path / "candidate.py") == ()


def test_what_others_ask_for_is_not_the_candidates(tmp_path: Path) -> None:
    with HostReads(str(tmp_path / "candidate.py")) as reads:
        torch.ones(3).tolist()
    assert reads.names == ()
