"""Kinds of things in which a candidate may count between two calls, each beside what an honest one keeps."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from kernelagent.tools.calls.state_changes import not_read, state_sentence
from kernelagent.tools.candidate_runner.kept.kept_state import changed, state_of

NAME = "kept_kinds_in_a_test"
IMPORTS = """
import array, collections, contextvars, ctypes, datetime, decimal, enum, fractions, functools, io, itertools
import math, random, re, sys, threading, types, weakref
import numpy as np
import torch


class Tag:
    pass


def right(x):
    return x


def wrong(x):
    return x


ONE, OTHER = Tag(), Tag()
BEFORE, AFTER = float("2.5"), float("2.5")
"""


@pytest.fixture
def module() -> Iterator[ModuleType]:
    made = ModuleType(NAME)
    sys.modules[NAME] = made
    exec(IMPORTS, vars(made))
    yield made
    del sys.modules[NAME]


def told(module: ModuleType, given: str, statement: str) -> tuple[str, ...]:
    exec(given, vars(module))
    before = state_of(module, None)
    assert changed(before, state_of(module, None)) == ()
    exec(statement, vars(module))
    return changed(before, state_of(module, None))


RINGS = {
    "functions": ("right", "wrong"),
    "functions of C": ("math.sin", "math.cos"),
    "functions of torch": ("torch.sin", "torch.cos"),
    "functions of torch in Python": ("torch.nn.functional.silu", "torch.nn.functional.mish"),
    "methods": ("ONE.__init__", "OTHER.__init__"),
    "methods of C": ("[].append", "[].pop"),
    "descriptors of C": ("list.append", "list.pop"),
    "classes": ("type('A', (), {})", "type('A', (), {})"),
    "classes of torch": ("torch.nn.Linear", "torch.nn.Conv1d"),
    "modules": ("math", "random"),
    "objects": ("ONE", "OTHER"),
    "objects without anything": ("object()", "object()"),
    "numbers": ("BEFORE", "AFTER"),
    "types of numbers": ("torch.float32", "torch.float64"),
    "types of numpy's": ("np.dtype('i4')", "np.dtype('i8')"),
    "functions of numpy": ("np.add", "np.subtract"),
    "devices": ("torch.device('cpu')", "torch.device('cuda')"),
    "layouts": ("torch.strided", "torch.sparse_coo"),
    "formats": ("torch.contiguous_format", "torch.channels_last"),
    "constants of Python": ("...", "NotImplemented"),
    "weak references": ("weakref.ref(ONE)", "weakref.ref(OTHER)"),
    "partial functions": ("functools.partial(right)", "functools.partial(wrong)"),
    "texts of functions": ("(lambda: 1).__code__", "(lambda: 2).__code__"),
    "tensors": ("torch.zeros(1)", "torch.zeros(1)"),
    "lists": ("[]", "[]"),
}


@pytest.mark.parametrize("kind", RINGS)
def test_a_ring_that_turns_is_told_whatever_it_is_made_of(module: ModuleType, kind: str) -> None:
    one, other = RINGS[kind]
    given = f"A, B = {one}, {other}\nRING = [A] * 9"
    assert "RING" in told(module, given, "RING.append(B); RING.pop(0)")
    assert "RING" in told(module, given, "RING[0] = B")


@pytest.mark.parametrize("kind", RINGS)
def test_a_ring_that_turns_among_equals_is_the_same_ring(module: ModuleType, kind: str) -> None:
    given = f"A, B = {', '.join(RINGS[kind])}\nRING = [A] * 9"
    assert told(module, given, "RING.append(A); RING.pop(0)") == ()


COUNTERS = {
    "X = np.int64(0)": "X += 1",
    "X = np.float32(0)": "X += 1",
    "X = np.bool_(False)": "X = ~X",
    "X = [np.int64(0)]": "X.append(X.pop() + np.int64(1))",
    "X = np.datetime64('2020-01-01')": "X += 1",
    "X = np.str_('a')": "X += 'a'",
    "X = np.array([ONE, OTHER])": "X[0] = OTHER",
    "X = np.zeros(4).view(type('Own', (np.ndarray,), {}))": "X[3] = 1",
    "X = np.zeros((2, 3))": "X.shape = (3, 2)",
    "BASE = np.zeros(9); X = BASE[0:1]": "X = BASE[1:2]",
    "X = np.zeros(3).flat": "next(X)",
    "X = np.random.default_rng(0)": "X.random()",
    "X = np.random.RandomState(0)": "X.rand()",
    "class Own(np.int64): pass\nX = Own(0)": "X = Own(1)",
    "X = fractions.Fraction(1)": "X += 1",
    "X = decimal.Decimal(1)": "X += 1",
    "X = datetime.datetime(2020, 1, 1)": "X += datetime.timedelta(1)",
    "X = range(3)": "X = range(4)",
    "X = slice(3)": "X = slice(4)",
    "X = slice([])": "X.stop.append(1)",
    "X = 10**5000": "X += 1",
    "X = float('nan')": "X = float(np.array([0x7FF8000000000001]).view('f8')[0])",
    "class Own(int): pass\nX = Own(0)": "X.calls = 1",
    "KEY = type('Own', (str,), {})('a')\nX = {KEY: 0}": "KEY.calls = 1",
    "X = memoryview(bytes(9))": "X = X[1:]",
    "X = memoryview(bytearray(9))": "X[1] = 1",
    "X = array.array('d', [0])": "X[0] += 1",
    "X = ctypes.c_int(0)": "X.value += 1",
    "X = (ctypes.c_int * 3)()": "X[1] += 1",
    "class Own(itertools.count): pass\nX = Own()": "next(X)",
    "X = iter(range(9))": "next(X)",
    "X = reversed([1, 2, 3])": "next(X)",
    "X = itertools.tee([1, 2, 3])[0]": "next(X)",
    "X = itertools.islice(range(9), 5)": "next(X)",
    "X = iter(collections.deque([1, 2]))": "next(X)",
    "class Own(random.Random): pass\nX = Own(0)": "X.random()",
    "X = torch.Generator()": "torch.rand(1, generator=X)",
    "X = torch.zeros(4).untyped_storage()": "X[3] = 1",
    "X = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)": "X[1] = 5.0",
    "X = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])": "X.unbind()[1][2] = 5.0",
    "X = torch.ones(3).to_mkldnn()": "X = (2 * torch.ones(3)).to_mkldnn()",
    "X = torch.zeros(4); Y = torch.zeros(4); Z = X.view(4)": "Z = Y.view(4)",
    "X = torch.zeros(1, requires_grad=True)": "X.grad = torch.ones(1)",
    "X = re.match('a*', 'aaa')": "X = re.match('a', 'aaa')",
    "X = re.compile('a')": "X = re.compile('b')",
    "X = io.BytesIO(b'abc')": "X.read(1)",
    "class Own(io.BytesIO): pass\nX = Own(b'abc')": "X.read(1)",
    "X = threading.Lock()": "X.acquire()",
    "X = threading.RLock()": "X.acquire()",
    "X = threading.local()": "X.calls = 1",
    "X = contextvars.ContextVar('x')": "X.set(1)",
    "X = weakref.ref(ONE)": "X = weakref.ref(OTHER)",
    "X = types.ModuleType('own')": "X.calls = 1",
    "X = types.SimpleNamespace(n=0)": "X.n += 1",
    "X = types.MappingProxyType({'n': [0]})": "X['n'][0] += 1",
    "X = dict(a=0, b=0, c=0)": "X['a'] = X.pop('a')",
    "X = collections.OrderedDict(a=0, b=0, c=0)": "X.move_to_end('a')",
    "X = collections.OrderedDict({1: 0, 2: 0})": "X.move_to_end(1)",
    "class Own(dict): pass\nX = Own(n=0); X.n = 0": "X['n'] += 1",
    "class Own:\n    __slots__ = ('a', '__dict__')\nX = Own(); X.one, X.a = ONE, ONE; X.two = OTHER": "X.a = OTHER",
    "class Own:\n    __slots__ = ('n',)\n    __module__ = 'triton.language'\nX = Own(); X.n = 0": "X.n += 1",
    "def made():\n    class Own:\n        calls = 0\n    return Own()\nX = made()": "type(X).calls += 1",
    "class X:\n    @property\n    def n(self, seen=[]): seen.append(1)": "X().n",
    "class X: pass": "X.__doc__ = 'b'",
    "class X: pass ": "X.__name__ = 'b'",
    "class Meta(type): calls = 0\nX = Meta('Y', (), {})": "type(X).calls += 1",
    "class A: pass\nclass B: pass\nX = A()": "X.__class__ = B",
    "def X(): 'a'": "X.__doc__ = 'b'",
    "def X(): 'a' ": "X.__code__ = (lambda: 1).__code__",
    "def X(a: 'b'): pass": "X.__annotations__['a'] = 'c'",
    "def closing(a):\n    return lambda: a\nX = closing(ONE)": "X.__closure__[0].cell_contents = OTHER",
    "X = ValueError('a')": "X.args = ('b',)",
    "X = UnicodeDecodeError('utf-8', b'abc', 0, 1, 'why')": "X.start += 1",
    "class X(enum.Enum):\n    A = 1": "X.A.calls = 1",
    "X = functools.cache(lambda n: [])": "X(1)",
    "X = functools.partial(right)": "X.calls = 1",
}  # fmt: skip


@pytest.mark.parametrize("given", COUNTERS)
def test_a_number_is_seen_to_change_whatever_holds_it(module: ModuleType, given: str) -> None:
    names = told(module, given, COUNTERS[given])
    assert any(name.partition(".")[0] in {"X", "Z", "KEY", "Meta"} for name in names)
    assert not any(name.endswith(not_read("")) for name in names)


UNREAD = {
    "X = itertools.pairwise([1, 2, 3])": "X",
    "X = iter(memoryview(b'abc'))": "X",
    "import hashlib; X = hashlib.sha256()": "X",
    "import zlib; X = [zlib.compressobj()]": "X",
    "import queue; X = queue.SimpleQueue()": "X",
    "X = re.compile('a').scanner('aaa')": "X",
    "X = weakref.proxy(ONE)": "X",
    "import queue\nclass Own(queue.SimpleQueue): pass\nX = Own()": "X",
}


@pytest.mark.parametrize("given", UNREAD)
def test_what_nothing_reads_is_told_by_its_name(module: ModuleType, given: str) -> None:
    exec(given, vars(module))
    state = state_of(module, None)
    assert changed(state, state) == (not_read(UNREAD[given]),)


def test_of_what_is_not_read_it_is_said_that_it_was_not_judged() -> None:
    assert state_sentence((not_read("X"),)) == (
        "X: of a kind whose contents are not read; whether they change from one call to the next was not judged"
    )
    both = state_sentence(("Y", not_read("X")))
    assert both.startswith("Y changed from one call to the next")
    assert "; X: of a kind" in both


HONEST = {
    "X = (1, 2)": "X = tuple([1, 2])",
    "X = [5000, 5000.5]": "X = [int('5000'), float('5000.5')]",
    "X = {'a': (1, [2])}": "X = {'a': (1, [2])}",
    "X = right": "pass",
    "X = lambda meta: (ONE, 3)": "exec('X = lambda meta: (ONE, 3)')",
    "def grid(n):\n    return lambda meta: (n,)\nX = grid((700, 3))": "X = grid((700, 3))",
    "X = functools.partial(right, 3)": "X = functools.partial(right, 3)",
    "X = Tag()": "X = Tag()",
    "X = Y = Tag()": "X = Y = Tag()",
    "X = torch.zeros(3)": "X = torch.zeros(3)",
    "X = torch.zeros(3); Y = X[1:]": "X = torch.zeros(3); Y = X[1:]",
    "X = torch.device('cpu'), torch.float32": "X = torch.device('cpu'), torch.zeros(1).dtype",
    "X = np.float32(2)": "X = np.float32(2)",
    "X = np.zeros(3)": "X = np.zeros(3)",
    "X = torch.Size([2, 3])": "X = torch.zeros(2, 3).shape",
    "X = {(2, 3): (ONE, 16)}": "X[(2, 3)]",
    "X = {}": "X.setdefault('a', 1); X.clear()",
    "X = functools.lru_cache(lambda n: [n]); X(2)": "X(2)",
    "class X:\n    n: int = 3": "X().n",
    "class X(enum.Enum):\n    A = 1": "X['A']",
    "X = iter([1, 2])": "iter(X)",
    "X = re.compile('a')": "X.match('a')",
    "X = threading.Lock()": "X.acquire(); X.release()",
    "import logging; X = logging.Logger('kept'); X.debug('a')": "X.debug('a')",
    "X = sys.__stderr__": "pass",
    "X = torch.ops.aten.add.Tensor": "X(torch.ones(1), 1)",
    "X = contextvars.ContextVar('x')": "X.reset(X.set(1))",
    "X = random.Random(3)": "X.seed(3)",
}


@pytest.mark.parametrize("given", HONEST)
def test_what_a_call_makes_anew_as_it_was_is_no_change(module: ModuleType, given: str) -> None:
    assert told(module, given, HONEST[given]) == ()


def test_what_an_equal_one_takes_the_place_of_is_told_where_another_name_kept_the_first(
    module: ModuleType,
) -> None:
    assert "Y" in told(module, "X = Y = Tag()", "Y = Tag()")


ELSEWHERE = {
    "a number of numpy's": ("np.int64(0)", "np.int64(1)"),
    "a fraction": ("fractions.Fraction(1, 2)", "fractions.Fraction(1, 3)"),
    "a type of numbers": ("torch.float32", "torch.float64"),
    "a function": ("right", "wrong"),
    "a class": ("Tag", "type('Tag', (), {'__module__': Tag.__module__})"),
    "an object": ("ONE", "OTHER"),
}


@pytest.mark.parametrize("kind", ELSEWHERE)
def test_what_is_exchanged_in_a_thing_of_anothers_is_seen(module: ModuleType, kind: str) -> None:
    words = frozenset({"torch", "nn", "Linear", "kept_here"})
    one, other = ELSEWHERE[kind]
    try:
        exec(f"torch.nn.Linear.kept_here = {one}", vars(module))
        before = state_of(module, None, words)
        assert changed(before, state_of(module, None, words)) == ()
        exec(f"torch.nn.Linear.kept_here = {other}", vars(module))
        names = changed(before, state_of(module, None, words))
        assert names
        assert all(name.startswith("Linear.kept_here") for name in names)
    finally:
        exec("del torch.nn.Linear.kept_here", vars(module))


def test_versions_which_tensors_of_inference_mode_have_none_of_count_where_the_text_names_them(
    module: ModuleType,
) -> None:
    exec("X = torch.zeros(3)", vars(module))
    exec("with torch.inference_mode(): Y = torch.zeros(3)", vars(module))
    for words, seen in ((frozenset({"_version"}), True), (frozenset({"zero_"}), False)):
        before = state_of(module, None, words)
        exec("X.zero_()", vars(module))
        assert ("X" in changed(before, state_of(module, None, words))) is seen


def test_nothing_of_a_candidates_own_is_called_to_look_at_it(module: ModuleType) -> None:
    text = """
def method(self, *given): CALLED.append(type(self))
names = "__repr__ __hash__ __eq__ __iter__ __len__ __bytes__ __index__ __int__ __float__ __str__ __reduce__"
names += " __reduce_ex__ __getstate__ __getattribute__ tobytes keys items __buffer__ __get__"
every = dict.fromkeys(names.split(), method)
CALLED = []
kinds = (int, float, str, bytes, bytearray, list, dict, set, object, itertools.count, random.Random, np.int64)
kinds += (np.ndarray, decimal.Decimal, datetime.datetime, io.BytesIO, collections.OrderedDict, array.array)
X = []
for kind in kinds:
    given = ((2,),) if kind is np.ndarray else ("i",) if kind is array.array else ()
    given = (2020, 1, 1) if kind is datetime.datetime else given
    X.append(kind.__new__(type("Own", (kind,), every), *given))
class Meta(type):
    __repr__ = __str__ = __format__ = __hash__ = __eq__ = __getattribute__ = method
class Kind(metaclass=Meta):
    __slots__ = ("n",)
X.append(object.__new__(Kind))
CALLED.clear()
"""
    exec(text, vars(module))
    state_of(module, None)
    assert vars(module)["CALLED"] == []
