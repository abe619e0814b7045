"""Objects that outlive a call: each use that is not known only to read one is named, and honest reading is not."""

from __future__ import annotations

import ast
import re

import pytest

from kernelagent.tools.judge.source_reading.following.bindings import NAMING
from kernelagent.tools.judge.source_reading.reading import read
from tests.tools.judge.source_reading.test_source_reading import codes, module

WITHOUT_A_NAME = {
    "Global.names",
    "Nonlocal.names",
    "Name.id",
    "Attribute.attr",
    "ImportFrom.module",
    "alias.name",
    "alias.asname",
    "arg.arg",
    "keyword.arg",
    "MatchClass.kwd_attrs",
}
"""Names in the grammar that bind nothing, or that a `ctx`, an import or a call binds."""


def test_every_name_in_pythons_grammar_is_known_to_bind_or_not_to():
    found = set()
    for kind in vars(ast).values():
        text = getattr(kind, "__doc__", None) or ""
        if isinstance(kind, type) and text.startswith(f"{kind.__name__}("):
            fields = re.findall(r"identifier[*?]? (\w+)", text)
            found |= {f"{kind.__name__}.{name}" for name in fields}
    known = {f"{kind}.{field}" for kind, field in NAMING.items()} | WITHOUT_A_NAME
    assert found >= {"FunctionDef.name", "MatchAs.name", "MatchMapping.rest"}
    assert found <= known


BINDINGS = {
    "a definition": "def noted(): pass",
    "a class": "class noted: pass",
    "an import": "import math as noted",
    "an import of a member": "from math import pi as noted",
    "a capture": "match x.dim():\n    case noted: pass",
    "a capture of a rest": "match [1, 2]:\n    case [_, *noted]: pass",
    "a capture of other keys": "match {1: 2}:\n    case {1: 2, **noted}: pass",
    "a capture by as": "match 1:\n    case 1 as noted: pass",
    "an error": "try:\n    pass\nexcept ValueError as noted:\n    raise",
    "a loop": "for noted in (1,): pass",
    "a context": "with nullcontext(1) as noted: pass",
    "a walrus": "y = (noted := 1)",
    "a walrus in a comprehension": "y = [(noted := i) for i in (1,)]",
    "a row": "(noted, *y) = 1, 2",
    "a deletion": "del noted",
    "an annotation": "noted: int = 1",
}


@pytest.mark.parametrize("body", BINDINGS.values(), ids=BINDINGS.keys())
def test_a_name_of_the_file_is_seen_to_change_by_whatever_binds_it(body):
    top = "from contextlib import nullcontext\n\nnoted = None\n"
    named = "keeps_state"
    assert named in codes(module(f"global noted\n{body}", top=top))
    assert named not in codes(module(body, top=top))


TARGETS = {
    "a comprehension": "[None for BOX.wrong in [1]]",
    "a generator": "any(None for BOX.wrong in [1])",
    "a loop": "for BOX.wrong in [1]: pass",
    "a context": "with nullcontext(1) as BOX.wrong: pass",
    "an asterisk": "*BOX.wrong, y = [1, 2]",
    "a deletion": "del BOX.wrong",
    "a constructor": "BOX.__init__()",
    "a constructor by its class": "Box.__init__(BOX)",
    "a method that torch alone gives a context": "Step.note(BOX)",
    "a forward that is called with another": "Step.forward(BOX, x)",
    "a default": "def inner(y=NOTES.append(1)): pass",
    "a wrapper": "View(NOTES).rows.append(1)",
    "a row of a class": "View(()).all.append(1)",
    "a list of its own": "list([NOTES])[0].append(1)",
    "a list that is filled": "rows = []\nrows.append(NOTES)\nrows[0].append(1)",
    "a choice": "(NOTES or [])[:].append(1) if n else (NOTES if x is x else NOTES).append(1)",
    "a loop over rows": "for row in [NOTES]:\n    row.append(1)",
    "what another function gives": "given().append(1)",
    "a function out of a list": "HELPERS[0](KEPT)",
    "a kernel out of a list": "KERNELS[0][(1,)](x, KEPT, 1, BLOCK=64)",
    "a tensor in a tuple": "double[(1,)](x, (KEPT, x)[0], 1, BLOCK=64)",
    "arguments in a row": "given = x, KEPT\ndouble[(1,)](*given, 1, BLOCK=64)",
    "an output": "torch.add(x, 1, out=KEPT)",
    "a parameter that no module has": "double[(1,)](x, FREE, 1, BLOCK=64)",
    "a layer that no module has": "double[(1,)](x, LAYER.running_mean, 1, BLOCK=64)",
    "a view": "torch.atleast_1d(KEPT).fill_(1)",
    "a function that another made": "NOTE()",
    "a part of another": "PART()",
}


@pytest.mark.parametrize("body", TARGETS.values(), ids=TARGETS.keys())
def test_what_outlives_a_call_is_named_where_it_may_be_written(body):
    top = """
from contextlib import nullcontext
from functools import partial


class Box:
    def __init__(self):
        self.wrong = 0


class View:
    all = []

    def __init__(self, rows):
        self.rows = rows


class Step(torch.autograd.Function):
    @staticmethod
    def note(box):
        box.wrong = 1

    @staticmethod
    def forward(ctx, x):
        ctx.wrong = 1
        return x


def note(rows):
    rows.fill_(1.0)


def given():
    return NOTES


def make():
    rows = []
    return lambda: rows.append(1)


n, BOX, NOTES, KEPT, FREE = 4, Box(), [], torch.zeros(4), nn.Parameter(torch.zeros(4))
HELPERS, KERNELS, LAYER, NOTE, PART = [note], [double], nn.BatchNorm1d(4), make(), partial(note, KEPT)
"""
    assert codes(module(body, top=top)) & {"keeps_state", "changes_others"}


KERNELS = {
    "another name": "put(b_ptr + i, 1)",
    "a keyword": "tl.store(pointer=b_ptr + i, value=1)",
    "a choice of two": "tl.store(tl.where(i > 2, a_ptr, b_ptr), 1)",
    "a number": "tl.store((b_ptr.to(tl.int64) * 1).to(tl.pointer_type(tl.float32)), 1)",
    "a loop": "for p in tl.static_range(1):\n        q = b_ptr\n        tl.store(q, p)",
    "a function that it is given": "BLOCK(b_ptr)",
    "a function out of a row": "(put,)[0](b_ptr, 1)",
    "assembly": "tl.inline_asm_elementwise('st', '=r,l', [b_ptr], tl.int32, False, 1)",
    "another function of a name": "helper(value=1, to=b_ptr)",
    "an address that a function makes": "p, _ = moved(b_ptr)\n    tl.store(p, 1)",
    "an address of a function that asks another": "tl.store(moved_again(i, to=b_ptr), 1)",
}


@pytest.mark.parametrize("store", KERNELS.values(), ids=KERNELS.keys())
def test_what_a_kernel_may_write_is_seen_however_it_stores(store):
    top = f"""
from triton.language import store as put


@triton.jit
def helper(to, value):
    put(to, value)


@triton.jit
def moved(to):
    return to + 1, tl.load(to)


@triton.jit
def moved_again(by, to):
    place, _ = moved(to)
    return place + by


@triton.jit
def both(a_ptr, b_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    {store}
    tl.store(a_ptr + i, tl.load(b_ptr + i))


KEPT = torch.zeros(4)
"""
    body = "both[(1,)](x, KEPT, BLOCK=64)"
    assert "keeps_state" in codes(module(body, top=top))
    assert "keeps_state" not in codes(module(body, top=top.replace(store, "pass")))


def test_what_a_function_loads_and_gives_back_is_no_address():
    top = """
@triton.jit
def product(a_desc, b_desc, n: tl.constexpr):
    sums = tl.zeros((16, 16), tl.float32)
    for at in range(0, n, 16):
        sums = tl.dot(a_desc.load([0, at]), b_desc.load([at, 0]), sums)
    return sums, tl.max(sums, axis=1)


@triton.jit
def whole(a_desc, b_desc, c_ptr, n: tl.constexpr):
    sums, largest = product(a_desc, b_desc, n)
    tl.store(c_ptr + tl.arange(0, 16), largest)


KEPT = torch.zeros(16, 16)
"""
    body = "whole[(1,)](TensorDescriptor.from_tensor(KEPT, [16, 16]), x, x, n=16)"
    top = f"from triton.tools.tensor_descriptor import TensorDescriptor\n{top}"
    assert "keeps_state" not in codes(module(body, top=top))
    assert "keeps_state" in codes(module(body, top=top.replace("tl.max(sums, axis=1)", "a_desc")))


CONSTRUCTORS = {
    "its class": "ModelNew.n = n",
    "a list of all": "MADE.append(self)",
    "a number of all": "global COUNT; COUNT = n",
    "a tensor of all": "self.w = nn.Parameter(KEPT[0])",
    "a function with its object": "self.mine = lambda: self.w",
    "a default with its object": "self.mine = lambda me=self: me.w",
    "a function with its weight": "w = self.w = nn.Parameter(torch.ones(n)); self.mine = lambda: w",
    "a method of its weight": "self.w = nn.Parameter(torch.ones(n)); self.mine = self.w.detach",
    "what another function makes of it": "self.mine = make(self)",
}


@pytest.mark.parametrize("init", CONSTRUCTORS.values(), ids=CONSTRUCTORS.keys())
def test_what_a_constructor_shares_with_other_modules_is_named(init):
    top = "MADE, COUNT, KEPT = [], 0, torch.ones(4, 4)\n\n\ndef make(one):\n    return lambda: one.w\n"
    assert "shares_state" in codes(module("pass", init=init, top=top))


def test_a_class_that_only_the_file_makes_shares_nothing():
    top = "NAMES = []\n\n\nclass Kind:\n    def __init__(self, name):\n        NAMES.append(name)\n\n\nFIRST = Kind('a')\n"
    assert read(module("x = x * len(NAMES)", top=top)) == ()


PARTS = ["[*self.parameters()][0]", "dict(self.named_buffers())", "getattr(self, 'state_dict')()"]


@pytest.mark.parametrize("asked", PARTS)
def test_what_a_replica_lacks_is_no_place_to_take_weights_from(asked):
    assert "asks_where_it_runs" in codes(module(f"y = {asked}"))
    assert codes(module("pass", init="self.n = len([*self.parameters()])")) == set()


def test_a_generator_that_runs_on_when_it_is_freed_is_named_and_a_context_is_not():
    lines = "def held(w):\n    try:\n        yield w\n    finally:\n        w.zero_()\n"
    body = "for y in held(x):\n    break"
    assert "acts_later" in codes(module(body, top=lines))
    entered = f"from contextlib import contextmanager\n\n\n@contextmanager\n{lines}"
    assert "acts_later" not in codes(module("with held(x):\n    pass", top=entered))


READING = {
    "a table": "BLOCK = SIZES[x.dtype][0]\ndouble[(1,)](x, torch.empty_like(x), 1, BLOCK=BLOCK)",
    "a table of types": "kind = TYPES[x.dtype]\ndouble[(1,)](x, torch.empty_like(x), 1, BLOCK=kind)",
    "a table that may lack it": "n = SIZES.get(x.dtype, (64, 4))[1]\nx = x * n",
    "a tensor of the file": "x = x * KEPT.to(x.dtype) + torch.where(x > 0, KEPT, x)",
    "a tensor that a kernel reads": "y = torch.empty_like(x)\ndouble[(1,)](KEPT, y, 1, BLOCK=64)",
    "a tensor that a function hands on": "def inner(t):\n    s = t.float()\n    return x * s\nx = inner(KEPT)",
    "a kernel by name": "kernel = KERNELS['double']\nkernel[(1,)](x, torch.empty_like(x), 1, BLOCK=64)",
    "a row of sizes": "for size in ROW:\n    x = x[:size]\nx = x.view(*ROW) if len(ROW) == x.dim() else x",
    "an object of the file": "x = x * BOX.scale() * BOX.by",
    "a list of its own": "self.rows = [x.shape[0]]\nx = x * self.table[0] * self.rows[0]",
}


@pytest.mark.parametrize("body", READING.values(), ids=READING.keys())
def test_nothing_is_said_of_what_is_only_read(body):
    top = """
class Box:
    by = 2.0

    def scale(self):
        return self.by


BOX, KEPT, ROW = Box(), torch.ones(4), [4, 4]
SIZES = {torch.float32: (64, 4), torch.float16: (128, 8)}
TYPES = {torch.float32: tl.float32, torch.float8_e4m3fn: tl.float8e4nv}
KERNELS = {"double": double}
"""
    found = read(module(body, init="self.table = [1, 2]", top=top))
    assert [r for r in found if "self.rows" not in r.text] == []
