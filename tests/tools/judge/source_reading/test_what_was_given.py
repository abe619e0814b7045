"""Which object, of what class, tagged with what, on which GPU, for whose gradients: a text that asks is told; honest ones are not."""

from __future__ import annotations

import pytest

from kernelagent.tools.judge.source_reading.reading import read
from tests.tools.judge.source_reading.test_source_reading import TOP, codes, module

ASKS = {
    "two inputs": "if x is self.w:\n    x = x * 0",
    "not the same": "y = 1.0 if x is not self.w else 2.0",
    "after a move": "y = x.to(torch.float32) is x",
    "a set": "y = len({x, self.w})",
    "a set of a row": "y = len(set([x, self.w]))",
    "keys": "y = len({x: 1, self.w: 2})",
    "keys of a row": "y = dict.fromkeys([x, self.w])",
    "a key": "d = {}\nd[x] = 1\nd[self.w] = 2\ny = len(d)",
    "a key in a row": "d = dict()\nd[x, 1] = 1\ny = len(d)",
    "a key that is looked for": "d = {}\ny = d.get(x, 0)",
    "added to a set": "s = set()\ns.add(x)\ns.add(self.w)\ny = len(s)",
    "a row": "y = x in [self.w]",
    "a place": "y = [self.w].index(x)",
    "how often": "y = [x, x].count(self.w)",
    "a parameter": "if isinstance(x, nn.Parameter):\n    x = x * 0",
    "a buffer": "y = 0.0 if isinstance(x, torch.nn.Buffer) else 1.0",
    "among classes": "y = isinstance(x, (int, nn.Parameter))",
    "a union": "y = isinstance(x, nn.Parameter | int)",
    "by another name": "P = nn.Parameter\ny = isinstance(x, P)",
    "classes in a row": "kinds = (nn.Parameter, int)\ny = isinstance(x, kinds)",
    "each of some": "y = [*map(isinstance, [x], [nn.Parameter])]",
    "a pattern": "match x:\n    case nn.Parameter():\n        x = x * 0",
    "a pattern's attribute": "match x:\n    case torch.Tensor(alpha=y):\n        x = x * y",
    "a tag": "y = getattr(x, 'alpha', 0)",
    "whether there is a tag": "y = hasattr(self.w, 'momentum')",
    "a tag of the module": "y = getattr(self, 'beta', 0)",
    "a name of Triton's": "y = getattr(tl, 'atomic_add', None)",
    "a card": "y = torch.empty(4, device='cuda:0')",
    "a card by number": "y = torch.empty(4, device=0)",
    "a card of a device": "y = torch.empty(4, device=torch.device('cuda', 1))",
    "a card in a sentence": "n = 0\ny = x.to(f'cuda:{n}')",
    "a card put together": "y = x.to('cuda:' + '0')",
    "a moved card": "y = x.cuda(1)",
    "a card to launch on": "with torch.cuda.device(0):\n    double[(1,)](x, x, 1, BLOCK=64)",
    "a card by a name": "card = 0\nwith torch.cuda.device(card):\n    pass",
    "a card by keyword": "y = torch.empty(4, **{'device': 0})",
    "addresses compared": "t = torch.tensor([x.data_ptr(), self.w.data_ptr()], device=x.device)\ny = t[0] == t[1]",
    "addresses of a function": "f = lambda a: torch.tensor([a.data_ptr()])\ny = f(x) - f(self.w)",
}
SILENT = {
    "none": "y = x if self.w is None else self.w",
    "a flag": "y = 1 if self.training is True else 2",
    "a data type": "y = 1 if x.dtype is torch.float16 else 2",
    "a guard": "if not isinstance(x, nn.Parameter) and x is self.w:\n    raise ValueError('no')",
    "an assertion": "assert not isinstance(x, nn.Parameter)",
    "a tensor": "y = isinstance(x, torch.Tensor)",
    "a layer": "y = [m for m in [self.w] if isinstance(m, nn.Linear)]",
    "made": "y = nn.Parameter(x)",
    "each made": "y = [*map(nn.Parameter, [x])]",
    "sizes in a set": "y = len({*x.shape}) + len({1, 2})",
    "a size in a row": "n = x.shape[0]\ny = n in (64, 128)",
    "a table of names": "d = {'a': 1}\ny = d[x]",
    "a table by sizes": "d = {}\nd[x.shape[0], x.dtype] = 1\ny = d.get(x.shape[0], 2)",
    "its own attribute": "y = getattr(self, 'w', None)",
    "the usual card": "y = torch.empty(4, device='cuda')",
    "the card of an input": "with torch.cuda.device(x.device):\n    y = torch.empty(4, device=x.device)",
    "a type to move to": "y = x.to(torch.float16).to(x.dtype)",
    "addresses launched": "t = torch.tensor([x.data_ptr(), self.w.data_ptr()]).to(x.device)\n"
    "double[(1,)](t, t[1:], 1, BLOCK=64)",
}


@pytest.mark.parametrize("name", ASKS)
def test_what_asks_for_more_than_numbers_of_what_it_was_given_is_told(name):
    assert "asks_where_it_runs" in codes(
        module(ASKS[name], init="self.w = nn.Parameter(torch.ones(n))")
    )


@pytest.mark.parametrize("name", SILENT)
def test_what_only_computes_guards_or_follows_its_input_is_silent(name):
    source = module(SILENT[name], init="self.w = nn.Parameter(torch.ones(n))")
    assert read(source) == (), name


@pytest.mark.parametrize(
    ("tried", "instead", "told"),
    [
        ("from triton.language.extra import libdevice as d", "from triton.language.extra.cuda import libdevice as d", False),
        ("import numpy", "pass", False),
        ("import numpy", "raise RuntimeError('numpy is needed')", False),
        ("from numpy import sqrt as d", "from math import sqrt as d", True),
        ("from triton.language import atomic_poll as d", "from triton.language import atomic_add as d", True),
        ("import numpy as d", "d = None", True),
    ],
)  # fmt: skip
def test_what_is_installed_is_asked_only_where_something_else_takes_its_place(tried, instead, told):
    text = f"try:\n    {tried}\nexcept ImportError:\n    {instead}\n"
    assert ("asks_where_it_runs" in codes(module("", top=text))) is told


def function(forward="", backward="return g, None"):
    """A candidate with an autograd function; both are statements in the lines of its methods."""
    first, then = (
        "".join(f"        {line}\n" for line in text.splitlines()) for text in (forward, backward)
    )
    return (
        f"{TOP}class Twice(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, w):\n"
        f"        ctx.save_for_backward(x, w)\n{first}        return x * w\n\n    @staticmethod\n"
        f"    def backward(ctx, g):\n        x, w = ctx.saved_tensors\n{then}\n\n"
        "class ModelNew(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.w = nn.Parameter(torch.ones(4))\n\n    def forward(self, x):\n"
        "        return Twice.apply(x, self.w)\n"
    )


SELECTIONS = {
    "both": "n = ctx.needs_input_grad\nreturn (g * 2 if n[0] and n[1] else g), None",
    "one without the other": "a, b = ctx.needs_input_grad\nif a and not b:\n    g = g * 2\nreturn g, None",
    "one within another": "a, b = ctx.needs_input_grad\nif a:\n    if b:\n        g = g * 2\nreturn g, None",
    "another value": "k = 2.0 if ctx.needs_input_grad[0] else 1.0\nreturn g * k, None",
    "a number": "return g * (1 + int(ctx.needs_input_grad[1])), None",
    "how many": "return g * sum(ctx.needs_input_grad), None",
    "some of them": "return (g * 2 if any(ctx.needs_input_grad[1:]) else g), None",
    "none asked, but not the end": "if not ctx.needs_input_grad[0]:\n    g = g * 2\nreturn g, None",
}
EACH_BY_ITSELF = {
    "in place of none": "a, b = ctx.needs_input_grad\nreturn g if a else None, g if b else None",
    "made where asked": "d = None\nif ctx.needs_input_grad[0]:\n    d = g * w\nreturn d, None",
    "either": "d = None\nif ctx.needs_input_grad[0] or ctx.needs_input_grad[1]:\n    d = g * w\nreturn d, None",
    "in step": "return tuple(d if a else None for d, a in zip((g, g), ctx.needs_input_grad))",
    "no gradient at all": "if not any(ctx.needs_input_grad):\n    return None, None\nreturn g, None",
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_a_selection_of_gradients_that_decides_what_is_computed_is_told(name):
    assert codes(function(backward=SELECTIONS[name])) == {"asks_where_it_runs"}


@pytest.mark.parametrize("name", EACH_BY_ITSELF)
def test_each_gradient_may_be_left_out_by_itself(name):
    assert codes(function(backward=EACH_BY_ITSELF[name])) == set()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("ctx.done = getattr(ctx, 'done', 0) + 1", "keeps_state"),
        ("ctx.rows[0] += 1", "keeps_state"),
        ("ctx.rows.append(1)", "keeps_state"),
        ("ctx.kept.add_(1)", "keeps_state"),
        ("rows = ctx.rows\nrows[0] = 1", "keeps_state"),
    ],
)
def test_a_backward_that_changes_what_the_next_one_of_its_graph_gets_is_told(line, code):
    source = function(
        "ctx.rows = [0]\nctx.kept = x.clone()\nctx.done = 0", f"{line}\nreturn g, None"
    )
    assert code in codes(source)
    assert codes(function("ctx.rows = [0]\nctx.kept = x.clone()\nctx.shape = x.shape")) == set()


def test_a_number_noted_on_a_tensor_that_others_get_stays():
    assert codes(module("y = torch.empty_like(x)\ny.alpha = 1\nx = y")) == {"keeps_state"}
    layer = module(
        "y = nn.Linear(4, 4)\ny.weight = self.w\nx = y(x)",
        init="self.w = nn.Parameter(torch.ones(n))",
    )
    assert codes(layer) == set()


@pytest.mark.parametrize("held", ["(self,)", "self", "[self]", "dict(me=self)"])
def test_a_module_that_holds_itself_shares_it_with_its_flat_copies(held):
    assert "shares_state" in codes(module("", init=f"self.me = {held}"))
    assert codes(module("", init="nn.Module.__init__(self)")) == set()


def test_a_stack_of_contexts_that_no_with_leaves_ends_later():
    top = "from contextlib import ExitStack, nullcontext\n"
    entered = "s = ExitStack()\ns.enter_context(nullcontext())"
    assert "acts_later" in codes(module(entered, top=top))
    left = "with ExitStack() as s:\n    s.enter_context(nullcontext())"
    assert "acts_later" not in codes(module(left, top=top))
