"""A candidate's text: what is no computation is named, under whatever alias; what honest kernels need is not."""

from __future__ import annotations

import ast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.domain.tables.dtypes import FLOATS
from kernelagent.tools.corpus.honest.idioms import IDIOMS
from kernelagent.tools.corpus.whitebox import text as whitebox_text
from kernelagent.tools.judge.source_reading.allowed import MEMBERS
from kernelagent.tools.judge.source_reading.checks.overrides import MODULE_METHODS
from kernelagent.tools.judge.source_reading.following.collecting import collect
from kernelagent.tools.judge.source_reading.following.names import TooIntricate
from kernelagent.tools.judge.source_reading.installed import installed_triton, missing_from_language
from kernelagent.tools.judge.source_reading.kinds import NOT_JUDGED
from kernelagent.tools.judge.source_reading.reading import disclosures, read

TOP = """
import math
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn


@triton.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)


"""


def module(body, *, init="pass", top="", methods=""):
    """A candidate with these statements in its forward."""
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    return (
        f"{TOP}{top}\nclass ModelNew(nn.Module):\n    def __init__(self, n=4):\n        super().__init__()\n"
        f"        {init}\n\n{methods}\n    def forward(self, x):\n{lines}        return x\n"
    )


def test_what_the_installed_triton_only_refuses_is_on_no_list(tmp_path):
    package = tmp_path / "language"
    package.mkdir()
    (package / "semantic.py").write_text(
        "class TritonSemantic:\n    def make_block_ptr(self): ...\n"
    )
    assert missing_from_language(tmp_path) == frozenset()
    (package / "semantic.py").write_text("class TritonSemantic: ...\n")
    (package / "core.py").write_text("def make_block_ptr(): raise NotImplementedError\n")
    assert missing_from_language(tmp_path) == {"make_block_ptr", "advance"}
    (package / "core.py").write_text("@_aggregate\nclass _block_ptr:\n    base: tensor\n")
    assert missing_from_language(tmp_path) == frozenset()
    assert missing_from_language(None) == frozenset()
    gone = missing_from_language(installed_triton())
    assert ("make_block_ptr" in MEMBERS["triton.language"]) == ("make_block_ptr" not in gone)


def codes(source):
    return {remark.code for remark in read(source)}


QUIET = {
    "a wrapper": "out = torch.empty_like(x)\ndouble[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)",
    "a grid of the settings": "grid = lambda meta: (triton.cdiv(x.numel(), meta['BLOCK']),)\ndouble[grid](x, x, 1, BLOCK=64)",
    "aliases of what computes": "f = F\nx = f.relu(x)\nt = torch\nx = t.nn.functional.gelu(x)",
    "a guard that only refuses": "assert x.is_contiguous() and x.requires_grad is False\n"
    "if x.device != self.w.device:\n    raise ValueError(str(x.device))",
    "a table of addresses": "p = torch.tensor([t.data_ptr() for t in (x, x)], device=x.device)",
    "a list of its own": "parts = []\nfor i in range(3):\n    parts.append(x[i])\nx = torch.stack(parts)",
    "sizes": "b, n = x.shape\nif n % 16 == 0 and x.stride(-1) == 1 and x.dtype == torch.float16:\n    x = x.view(-1)",
    "its own attributes": "x = x * self.w * self.scale\nif self.training:\n    x = self.drop(x)",
    "keyword arguments": "def inner(**options):\n    return options.pop('scale', 1.0)\nx = x * inner(scale=2.0)",
    "numbers": "if not math.isfinite(math.sqrt(x.shape[0])):\n    x = x * 2",
}


@pytest.mark.parametrize("body", QUIET.values(), ids=QUIET.keys())
def test_nothing_is_said_of_what_honest_kernels_need(body):
    init = "self.w, self.scale, self.drop = nn.Parameter(torch.ones(n)), 1.0, nn.Dropout(0.1)"
    assert read(module(body, init=init)) == ()


HANDED_OVER = """
    {how}
    def {name}(cls, module):
        made = cls(module.weight.shape[0])
        made.load_state_dict(module.state_dict())
        return made
"""


@pytest.mark.parametrize(
    ("how", "name", "told"),
    [
        ("@classmethod", "from_reference", set()),
        ("@classmethod", "of_another", {"overrides", "asks_where_it_runs"}),
    ],
)
def test_weights_may_be_handed_over_where_a_module_is_made_of_the_reference(how, name, told):
    text = module("x = x * 2") + HANDED_OVER.format(how=how, name=name)
    assert codes(text) == told


@pytest.mark.parametrize(
    "method",
    [
        "@staticmethod\n    def jvp(ctx, tangent):\n        return tangent",
        "@staticmethod\n    def vmap(info, dims, x):\n        return x, dims",
        "generate_vmap_rule = True",
    ],
)
def test_what_an_autograd_function_has_for_transforms_that_are_not_judged_is_told(method):
    text = f"class Own(torch.autograd.Function):\n    {method}\n"
    assert codes(module("x = x * 2") + "\n" + text) == {"acts_later"}


@pytest.mark.parametrize("name", ["launch_metadata", "repr"])
def test_what_triton_calls_for_a_profiler_or_a_name_is_told(name):
    text = f"@triton.jit({name}=lambda *given: given[0])\ndef other(x):\n    pass\n"
    assert "acts_later" in codes(module("x = x * 2") + "\n" + text)


@pytest.mark.parametrize("row", FLOATS, ids=lambda row: row.name)
def test_every_floating_type_of_the_table_may_be_named_and_written_out(row):
    body = f"x = x.to(torch.{row.name})\nassert x.dim(), f'{{torch.{row.name}}}'"
    kernel = "" if row.triton is None else f"TYPE = tl.{row.triton}\n"
    assert read(module(body, top=kernel)) == ()


@pytest.mark.long
def test_nothing_is_said_of_the_twins_and_of_nearly_all_idioms_of_real_projects():
    twins = [fixture for fixtures in whitebox_text.TWINS.values() for fixture in fixtures]
    assert [fixture.name for fixture in twins if read(fixture.source)] == []
    named = [fixture.name for fixture in IDIOMS if read(fixture.source)]
    assert len(named) < len(IDIOMS) / 10, named


def test_each_cheat_of_the_corpus_is_named_as_the_corpus_says():
    cheats = [fixture for fixtures in whitebox_text.CHEATS.values() for fixture in fixtures]
    assert [f.name for f in cheats if f.discloses not in codes(f.source)] == []


NAMED = {
    "a clock": ("import time as t\nif t.time() > 9:\n    x = x * 0", "asks_where_it_runs"),
    "a flag of torch's": ("y = torch.is_inference_mode_enabled()", "asks_where_it_runs"),
    "a flag of a tensor's": ("if not self.w.requires_grad:\n    x = x * 0", "asks_where_it_runs"),
    "contents that are missing": ("n = 1 if x.data_ptr() else 2", "asks_where_it_runs"),
    "machine code": ("k = double[(1,)](x, x, 1, BLOCK=64)\nn = k.asm", "asks_where_it_runs"),
    "an error": ("try:\n    x = x.view(3)\nexcept RuntimeError:\n    x = x * 2", "asks_where_it_runs"),
    "a card": ("p = torch.cuda.get_device_properties(x.device)", "asks_device_properties"),
    "multiprocessors": ("n = p.multi_processor_count", "asks_device_properties"),
    "fresh memory": ("if torch.empty(1).isnan():\n    x = x * 0", "values_on_host"),
    "a value": ("first = (x == 3).any()\nif first:\n    x = x * 0", "values_on_host"),
    "a count": ("self.calls = getattr(self, 'calls', 0) + 1", "keeps_state"),
    "a list that stays": ("self.kept.append(x)", "keeps_state"),
    "a list under another name": ("kept = self.kept\nkept.append(x)", "keeps_state"),
    "a default": ("def add(v, seen=[]):\n    seen += [v]\n    seen.append(v)\nadd(1)", "keeps_state"),
    "a buffer that a kernel fills": ("double[(1,)](x, self.mine, 1, BLOCK=64)", "keeps_state"),
    "an iterator": ("n = next(self.kept)", "keeps_state"),
    "a stream": ("s = torch.cuda.Stream()", "acts_later"),
    "a hook": ("self.w.register_hook(lambda g: g)", "acts_later"),
    "a constant of torch's": ("torch.pi = 3.0", "changes_others"),
    "a default of another's": ("nn.ReLU.__init__.__defaults__ = (True,)", "changes_others"),
    "a gradient": ("self.w.grad = x", "changes_others"),
    "printing": ("torch.set_printoptions(precision=1)", "changes_others"),
    "memory given back to the driver": ("torch.cuda.empty_cache()", "changes_others"),
    "statistics of the program": ("torch.cuda.reset_peak_memory_stats()", "changes_others"),
    "a file": ("open('/tmp/x')", "reaches_outside"),
    "text that runs": ("eval('1')", "unreadable"),
    "the text of a kernel": ("double._unsafe_update_src('')", "unreadable"),
    "an attribute in a format": ("'{0.is_meta}'.format(x)", "unreadable"),
    "an attribute in a pattern": ("match x:\n    case torch.Tensor(is_meta=True):\n        pass", "asks_where_it_runs"),
}  # fmt: skip


def test_parameters_of_an_empty_part_of_its_own_are_nobody_elses():
    init = "self.part = nn.Module()\n        self.part.w = nn.Parameter(torch.ones(n))"
    assert read(module("x = x * self.part.w", init=init)) == ()
    others = "self.part = n\n        self.part.w = nn.Parameter(torch.ones(4))"
    assert "changes_others" in codes(module("x = x * self.part.w", init=others))


def test_the_type_of_a_kernels_value_is_no_question_and_a_tensors_outside_is_one():
    kernel = "@triton.jit\ndef typed(x_ptr, o_ptr):\n    tl.store(o_ptr, tl.load(x_ptr).to(o_ptr.type.element_ty))\n"
    launched = "typed[(1,)](x, torch.empty_like(x))"
    assert codes(module(launched, top=kernel)) == set()
    assert "asks_where_it_runs" in codes(module("x = x * 2 if x.type() else x"))


def test_what_an_assertion_in_a_kernel_says_is_no_answer():
    kernel = """
@triton.jit
def checked(x_ptr, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK >= 4, f"BLOCK={BLOCK} is too small")
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)

"""
    body = "checked[(1,)](x, BLOCK=4)"
    assert read(module(body, top=kernel)) == ()
    text = kernel.replace("BLOCK >= 4,", "f'{BLOCK}' != '5',")
    assert "asks_where_it_runs" in codes(module(body, top=text))


@pytest.mark.parametrize(("body", "code"), NAMED.values(), ids=NAMED.keys())
def test_what_is_no_computation_is_named(body, code):
    init = "self.w, self.kept, self.mine = nn.Parameter(torch.ones(n)), [], torch.zeros(n)"
    assert code in codes(module(body, init=init))


@pytest.mark.parametrize(
    ("methods", "code"),
    [
        ("    def __del__(self):\n        pass\n", "acts_later"),
        ("    def train(self, mode=True):\n        return self\n", "overrides"),
        ("    state_dict = None\n", "overrides"),
        ("    def __reduce__(self):\n        return 1\n", "overrides"),
    ],
)
def test_methods_that_torch_calls_at_other_times_are_named(methods, code):
    assert code in codes(module("pass", methods=methods))


@pytest.mark.parametrize("asks", ["isinstance(n, tl.constexpr)", "isinstance(n, int)", "hasattr(n, 'value')"])  # fmt: skip
def test_questions_that_a_compiler_answers_otherwise_are_named_in_kernels(asks):
    kernel = TOP.replace(
        "    i = tl.program_id", f"    if {asks}:\n        n = n + 0\n    i = tl.program_id"
    )
    assert read(kernel + "double\n") != ()


def test_methods_that_modules_of_this_torch_have_are_known():
    ordinary = {"__init__", "forward"}
    assert {n for n in dir(torch.nn.Module) if not n.startswith("__")} - ordinary <= MODULE_METHODS


ROUTES = {
    "local": lambda e, i: ([f"m{i} = {e}"], f"m{i}"),
    "tuple": lambda e, i: ([f"m{i}, n{i} = {e}, 1"], f"m{i}"),
    "list": lambda e, i: ([f"m{i} = [{e}]"], f"m{i}[0]"),
    "dictionary": lambda e, i: ([], f"{{1: {e}}}[1]"),
    "walrus": lambda e, i: ([], f"(m{i} := {e})"),
    "choice": lambda e, i: ([], f"({e} if x is not None else None)"),
    "or": lambda e, i: ([], f"({e} or None)"),
    "lambda": lambda e, i: ([f"m{i} = lambda: {e}"], f"m{i}()"),
    "default": lambda e, i: ([f"def f{i}(m={e}):", "    return m"], f"f{i}()"),
    "result": lambda e, i: ([f"def f{i}():", f"    return {e}"], f"f{i}()"),
    "argument": lambda e, i: ([f"def f{i}(m):", "    return m"], f"f{i}({e})"),
    "class": lambda e, i: ([f"class C{i}:", f"    m = {e}"], f"C{i}.m"),
    "instance": lambda e, i: ([f"class C{i}:", f"    def __init__(self):\n            self.m{i} = {e}"], f"[C{i}()][0].m{i}"),
    "self": lambda e, i: ([f"self.m{i} = {e}"], f"self.m{i}"),
    "setattr": lambda e, i: ([f"setattr(self, 'm{i}', {e})"], f"self.m{i}"),
    "global": lambda e, i: ([f"globe{i} = {e}"], f"globe{i}"),
    "loop": lambda e, i: ([f"for m{i} in [{e}]:", "    pass"], f"m{i}"),
    "comprehension": lambda e, i: ([], f"[m for m in ({e},)][0]"),
    "pattern": lambda e, i: ([f"match {e}:", f"    case m{i}:", "        pass"], f"m{i}"),
    "with": lambda e, i: ([f"with {e} as m{i}:", "    pass"], f"m{i}"),
    "star": lambda e, i: ([f"m{i}, *n{i} = {e}, 1"], f"m{i}"),
}  # fmt: skip
ENDS = (
    "{0}.{1}",
    "getattr({0}, '{1}')",
    "f'{{({0}).{1}}}'",
    "{0}.{1}()",
    "[*map(str, [{0}.{1}])]",
    "{0}.{1}.__class__",
)
STARTS = {
    "import time": ("time", "time"),
    "import os as name": ("name", "environ"),
    "import torch as t": ("t.cuda", "is_available"),
    "from torch import cuda as name": ("name", "current_device"),
    "import sys, torch": ("torch", "is_inference_mode_enabled"),
    "import triton.runtime as name": ("name", "driver.active.utils"),
    "import torch.backends": ("torch.backends", "cudnn.enabled"),
    "pass": ("x", "is_meta"),
    "from threading import current_thread as name": ("name()", "name"),
}


@pytest.mark.long
@given(
    st.sampled_from(sorted(STARTS)),
    st.lists(st.sampled_from(sorted(ROUTES)), max_size=4),
    st.sampled_from(ENDS),
)
def test_whatever_alias_leads_there_the_use_is_named(start, routes, end):
    expression, attribute = STARTS[start]
    lines = [start]
    for i, route in enumerate(routes):
        more, expression = ROUTES[route](expression, i)
        lines += more
    source = module("\n".join([*lines, f"y = {end.format(expression, attribute)}"]))
    assert codes(source) - {"keeps_state"} != set()


def test_a_disclosure_says_where_and_what_was_not_judged():
    body = "import time\nfor i in range(9):\n    x = x * time.time()\na = time.time()\nb = time.time()\nc = time.time()"
    (disclosure,) = disclosures(module(body))
    assert disclosure.code == "asks_where_it_runs"
    assert disclosure.message.count("`time.time()`") == 3
    assert ", 1 more: " in disclosure.message
    assert disclosure.message.endswith(NOT_JUDGED["asks_where_it_runs"])


def test_a_text_too_deep_to_follow_is_said_to_be_so():
    deep = "x = " + "+".join(["a"] * 20_000)
    assert [(r.code, r.text) for r in read(deep)] == [("unreadable", "the whole text")]


def test_following_names_ends_after_many_steps():
    tree = ast.parse("a = b\nb = a\n")
    names = collect(tree)
    names.steps = 300_000
    with pytest.raises(TooIntricate):
        names.paths(ast.Name("a", ast.Load()), names.scopes[tree])


@pytest.mark.long
def test_a_long_text_may_take_more_steps_and_a_very_long_one_no_more_than_that():
    short, long, longer = (collect(ast.parse("a = b\n" * n)).most_steps for n in (9, 3_000, 90_000))
    assert 300_000 == short < long < longer == 1_500_000


@pytest.mark.long
def test_names_for_names_for_names_are_followed_at_once():
    doubled = "".join(f"a{i} = a{i - 1} or a{i - 1}\n" for i in range(1, 60))
    assert codes(module("a59.x()", top="import time\na0 = time\n" + doubled)) != set()
    again = "\n".join(["x = x.to(torch.float32)", "x = x.abs()"] * 20)
    assert codes(module(again)) == set()
    assert codes(module("raise DeprecationWarning('old')")) == set()
    assert codes(module(again + "\nx = os.environ\nx.get('HOME')", top="import os")) != set()


def test_what_nothing_calls_is_not_read():
    dead = "def get_inputs():\n    torch.manual_seed(0)\n    return [torch.randn(4)]\n"
    assert read(module("pass", top=dead)) == ()
    assert codes(module("get_inputs()", top=dead)) == {"changes_others"}


HIDING = {
    "a pattern": 'match "__main__":\n    case __name__:\n        pass\n',
    "a global": 'def start():\n    global __name__\n    __name__ = "__main__"\n\n\nstart()\n',
    "a loop": 'for __name__ in ["__main__"]:\n    pass\n',
    "an import": "import math as __name__\n",
    "a handler": "try:\n    pass\nexcept ValueError as __name__:\n    pass\n",
    "the text's own names": 'globals()["__na" + "me__"] = "__main__"\n',
}


@pytest.mark.parametrize("first", HIDING.values(), ids=HIDING.keys())
def test_what_runs_as_a_program_is_read_where_the_text_may_take_itself_for_one(first):
    program = 'if __name__ == "__main__":\n    import time\n    START = time.time()\n'
    assert read(program) == ()
    assert "time.time()" in {remark.text for remark in read(first + program)}


TICK = """class Tick:
    def __init__(self, holder):
        self.before = 0
        holder.count = 1
        SEEN.append(1)


SEEN = []
"""
MADE_LATER = {
    "in a call": ("Tick(self)", TICK, "pass"),
    "under another name": ("self.kind(self)", TICK, "self.kind = Tick"),
    "out of a list": ("self.kinds[0](self)", TICK, "self.kinds = [Tick]"),
    "as what another derives from": ("Tock(self)", TICK + "class Tock(Tick):\n    pass\n", "pass"),
    "by a method of the class": (
        "Made.one(self)",
        TICK + "class Made(Tick):\n    @classmethod\n    def one(cls, h):\n        return cls(h)\n",
        "pass",
    ),
}


@pytest.mark.parametrize(("body", "top", "init"), MADE_LATER.values(), ids=MADE_LATER.keys())
def test_a_constructor_that_runs_in_a_call_may_keep_state(body, top, init):
    named = {(r.code, r.text) for r in read(module(body, top=top, init=init))}
    assert named >= {("changes_others", "holder.count = 1"), ("keeps_state", "SEEN.append(1)")}
    assert not any("self.before" in text for _, text in named)


def test_a_constructor_that_runs_where_the_module_is_made_keeps_no_state_but_may_share_some():
    assert codes(module("pass", top=TICK, init="self.tick = Tick(self)")) == {"shares_state"}


def test_a_function_that_is_kept_as_a_value_runs_later():
    top = "def tick():\n    SEEN.append(1)\n\n\nSEEN = []\n"
    assert codes(module("pass", top=top, init="tick()")) == {"shares_state"}
    assert codes(module("self.tick()", top=top, init="self.tick = tick")) == {"keeps_state"}
    assert codes(module("self.all[0]()", top=top, init="self.all = [tick]")) == {"keeps_state"}
    later = "LATER = (SEEN.append(1) for _ in range(9))\n"
    assert "keeps_state" in codes(module("pass", top=top + later, init="tick()"))


def test_a_plain_attribute_with_the_name_of_a_buffer_is_state():
    body = "self.running_mean.add_(1)"
    kept = module(body, init="self.running_mean = torch.zeros(n)")
    buffer = module(body, init="self.register_buffer('running_mean', torch.zeros(n))")
    own = "    def register_buffer(self, name, value):\n        pass\n"
    assert codes(kept) == {"keeps_state"}
    assert read(buffer) == ()
    assert "keeps_state" in codes(
        module(body, init="self.register_buffer('running_mean', torch.zeros(n))", methods=own)
    )
    assert (
        read(module("self.norm.running_mean.add_(1)", init="self.norm = nn.BatchNorm1d(n)")) == ()
    )


SWALLOWING = {
    "a handler": "try:\n    y = x.view(3)\nexcept RuntimeError:\n    if x.shape:\n        return x\n    raise",
    "a way out": "try:\n    y = x.view(3)\nfinally:\n    return x",
    "a launch": "assert double[(1,)](x, x, 1, BLOCK=64) is None",
    "an own function": "def go():\n    double[(1,)](x, x, 1, BLOCK=64)\nassert go() is None",
    "a name": "y = x\nassert (y := x * 2) is not None",
    "a method in place": "assert x.add_(1) is x",
}


@pytest.mark.parametrize("body", SWALLOWING.values(), ids=SWALLOWING.keys())
def test_errors_that_become_answers_are_named(body):
    assert codes(module(body)) == {"asks_where_it_runs"}


def test_errors_that_stay_errors_are_not_named():
    body = "try:\n    x = x.view(3)\nexcept RuntimeError as error:\n    raise ValueError('no') from error\nfinally:\n    y = 1"
    assert read(module(body)) == ()
    helper = "def fits(x):\n    sizes = [1]\n    return x.shape[0] in sizes\n"
    assert read(module("assert fits(x), 'too long'", top=helper)) == ()


QUIETING = """class Quiet:
    def __enter__(self):
        return self

    def __exit__(self, *raised):
        {}
"""


def test_a_context_manager_that_swallows_errors_is_named():
    body = "with Quiet():\n    assert x.is_leaf"
    assert codes(module(body, top=QUIETING.format("return True"))) == {"asks_where_it_runs"}
    assert read(module(body, top=QUIETING.format("return False"))) == ()


def test_an_error_that_ends_a_loop_is_an_answer():
    top = "class Asks:\n    def __init__(self, x):\n        self.x = x\n\n    def __getitem__(self, i):\n        if self.x.is_leaf:\n            raise IndexError\n        return i\n"
    assert codes(module("for i in Asks(x):\n    break", top=top)) == {"asks_where_it_runs"}


@pytest.mark.parametrize(
    "body", ["print('here')", "import warnings\nwarnings.warn('here')", "p = print\np(1)"]
)
def test_what_writes_to_the_output_of_the_program_is_named(body):
    assert codes(module(body)) == {"reaches_outside"}


def test_printing_in_kernels_is_named():
    text = TOP.replace("    tl.store", "    tl.device_print('x', i)\n    tl.store")
    assert codes(text) == {"reaches_outside"}
    assert "writes to your program's output" in NOT_JUDGED["reaches_outside"]


def test_a_disclosure_quotes_no_characters_that_a_terminal_obeys():
    (remark,) = read("X = open('\x1b[2K\u202e')\n")
    assert remark.text == r"open('\x1b[2K\u202e')"


def test_a_part_of_a_part_that_a_constructor_makes_is_its_own():
    nested = "self.a = nn.Module(); self.a.b = nn.Module(); self.a.b.weight = nn.Parameter(torch.empty(4))"
    assert codes(module("x = x * self.a.b.weight", init=nested)) == set()
    for other in (
        "self.a = nn; self.a.b = nn.Module()",
        "self.a = nn.Module(); self.a.b = torch.relu",
        "self.a = nn.Module(); self.a = nn.functional; self.a.b = nn.Module()",
    ):
        assert "changes_others" in codes(module("x = x * 2", init=other))


@pytest.mark.parametrize("name", ["torch.compiler.disable", "torch._dynamo.disable"])
def test_what_leaves_the_graph_of_torch_compile_is_named(name):
    marked = module("pass").replace("    def forward", f"    @{name}\n    def forward")
    assert "breaks_the_graph" in {remark.code for remark in read(marked)}


@pytest.mark.parametrize(
    "table",
    [
        "torch.full((4,), 0.25, device='cuda')",
        "torch.ones(4).cuda()",
        "torch.ones(4).to('cuda')",
        "torch.ones(4, device=torch.device('cuda'))",
    ],
)
def test_a_table_that_the_file_makes_on_the_gpu_is_named(table):
    made = module("pass", top=f"TABLE = {table}\n")
    assert "asks_where_it_runs" in {remark.code for remark in read(made)}


@pytest.mark.parametrize(
    "line",
    [
        "TABLE = torch.ones(4)",
        "TABLE = torch.ones(4, device='cpu').to(torch.float16)",
        "HALF = torch.float16",
        "DEVICE = torch.device('cuda')",
    ],
)
def test_a_table_on_the_host_or_a_device_alone_is_not_named(line):
    assert read(module("pass", top=f"{line}\n")) == ()
    assert read(module("y = torch.empty(4, device='cuda')")) == ()


def test_the_gradients_of_a_convolution_are_torchs_to_compute_and_other_operators_are_told() -> (
    None
):
    call = "torch.ops.aten.convolution_backward(x, x, x, [1], [1], [0], [1], False, [0], 1, [True, True, True])"
    assert codes(module(f"return {call}[0]")) == set()
    for other in (
        "torch.ops.aten.set_.source_Tensor(x, x)",
        "torch.ops.load_library('/tmp/x.so')",
        "torch.ops.another.f(x)",
        "torch.ops.aten.convolution_backward.op(x)",
    ):
        assert codes(module(f"return {other}")) != set()
    assert codes(module("o = torch.ops.aten\nreturn o.resize_(x, [1])")) == {"reaches_outside"}
    assert "unreadable" in codes(module("return getattr(torch.ops, 'aten').copy_(x, x)"))
