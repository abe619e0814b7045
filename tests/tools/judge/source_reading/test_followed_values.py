"""What the reading follows through a text: devices, sets, what text is made of, effects, and names for what is kept."""

from __future__ import annotations

import pytest

from kernelagent.tools.judge.source_reading.reading import read
from tests.tools.judge.source_reading.test_source_reading import codes, module

HELD = "self.w, self.kept, self.mine, self.held = nn.Parameter(torch.ones(n)), [0] * 9, torch.zeros(n), {}"


def asks(body, **parts):
    """Whether these statements are said to ask where they run."""
    return "asks_where_it_runs" in codes(module(body, init=HELD, **parts))


TEXTS = {
    "a class": "y = str(ModelNew)",
    "a kernel": "y = f'{double}'",
    "a tensor": "y = repr(x)",
    "itself": "y = '%s %d' % (self, 1)",
    "a template by a name": "form = '%s'\ny = form % double",
    "a template in bytes": "y = b'%a' % double",
    "a template that is handed on": "def show(form, v):\n    return form % v\ny = show('%s', double)",
    "a template that changes": "form = '%r'\nform %= ModelNew",
    "a part of a format": "y = '{it}'.format(it=ModelNew)",
    "format itself": "y = format(double)",
    "another name for str": "s = str\ny = s(ModelNew)",
    "str in a row": "y = (str, 1)[0](ModelNew)",
    "str as a default": "def f(v, s=str):\n    return s(v)\ny = f(x)",
    "str as a key": "y = sorted([x, x], key=str)",
    "str as a decorator": "@str\nclass T:\n    pass",
    "a class of texts": "class T(str):\n    pass\ny = T(double)",
    "each of a row": "y = [*map(repr, [double])]",
    "what a row holds": "y = str([1, self])",
    "an argument of its own": "def f(v):\n    return f'{v}'\ny = f(ModelNew)",
    "an error": "try:\n    x.view(3)\nexcept Exception as e:\n    y = str(e)\n    raise",
    "a sign made of a number": "y = f'{37:c}s'",
}


@pytest.mark.parametrize("body", TEXTS.values(), ids=TEXTS.keys())
def test_text_made_of_what_has_a_name_or_an_address_is_named(body):
    assert asks(body)


PLAIN_TEXTS = {
    "numbers and shapes": "y = f'{x.shape[0]:>4} {x.dtype} {len(x.shape)}' + str(x.numel() // 2)",
    "what loops count": "y = [f'layer{i}' for i in range(3)] + [str(i) for i, t in enumerate([x])]",
    "names of its own": "kind = 'a' if x.dim() == 2 else 'b'\nfor key in ('c', kind):\n    y = '%s' % key",
    "an own function's": "def label(n):\n    return '-'.join(['a', 'b'])\ny = str(label(3))",
    "a remainder": "y = (x.shape[0] % self.w.shape[0]) * '%'",
    "what an error says": "if x.dim() > 9:\n    raise ValueError(f'{x} and {self}')",
    "what a parameter is": "def f(v: str | None = None) -> str:\n    return 'a' if isinstance(v, (str, int)) else 'b'\ny = f()",
}  # fmt: skip


@pytest.mark.parametrize("body", PLAIN_TEXTS.values(), ids=PLAIN_TEXTS.keys())
def test_text_made_of_numbers_and_shapes_is_not_named(body):
    assert read(module(body, init=HELD)) == ()


@pytest.mark.parametrize(
    ("arguments", "pattern"),
    [("('__module__',)", "ModelNew(y)"), ("ARGS", "ModelNew(y)"), ("()", "ModelNew(__dict__=y)")],
)
def test_a_pattern_that_reads_what_the_class_lists_is_named(arguments, pattern):
    body = f"match self:\n    case {pattern}:\n        pass"
    lists = f"    __match_args__ = {arguments}\n    __dict__ = None\n"
    assert codes(module(body, top="ARGS = ('__dict__',)\n", methods=lists)) != set()


def test_a_pattern_of_its_own_attributes_and_of_builtins_is_not_named():
    body = "match self, 3:\n    case ModelNew(y), int(n):\n        x = x * n"
    lists = "    __match_args__ = ('scale',)\n"
    assert read(module(body, init="self.scale = 2.0", methods=lists)) == ()


ORDERS = {
    "a loop": "for n in {'a', 'b'}:\n    y = n",
    "pop": "y = {'a'}.pop()",
    "pop by another name": "s = {'a'}\np = s.pop\ny = p()",
    "a list": "y = list({'a', 'b'})",
    "a star": "y = [*{'a', 'b'}]",
    "names for its elements": "a, b = {'a', 'b'}",
    "an iterator": "y = iter({'a'})",
    "another name for set": "k = set\ny = [*k('ab')]",
    "a frozen one": "y = [n for n in frozenset('ab')]",
    "keys of two dictionaries": "y = [*({'a': 1}.keys() & {'a': 2}.keys())]",
    "what a union gives": "y = [*{1}.union('ab')]",
    "the method of the class": "y = [*set.union({1}, 'ab')]",
    "a text of it": "y = ''.join({'a', 'b'})",
    "an attribute": "self.s = {'a', 'b'}\ny = [*getattr(self, 's')]",
    "an argument": "def f(s):\n    return [*s]\ny = f({'a', 'b'})",
    "one among many": "def f(*k, **m):\n    return [*m['s']]\ny = f(s={'a', 'b'})",
    "a default": "def f(s={'a', 'b'}):\n    return [*s]\ny = f()",
    "a list that grows by it": "y = []\ny += {'a', 'b'}",
    "a slice": "y = []\ny[:] = {'a', 'b'}",
    "a dictionary of it": "y = dict.fromkeys({'a', 'b'})",
    "sorted with ties": "y = sorted({'ab', 'cd'}, key=len)",
    "sorted sets": "y = sorted({frozenset('a'), frozenset('b')})",
    "a sum that rounds": "y = sum({0.1, 0.2, 0.3})",
    "a class of sets": "class K(set):\n    pass\ny = [*K('ab')]",
    "a dictionary that makes them": "from collections import defaultdict\nd = defaultdict(set)\nd[1].add('a')\ny = [*d[1]]",
    "a generator": "def g():\n    yield from {'a', 'b'}\ny = [*g()]",
}  # fmt: skip


@pytest.mark.parametrize("body", ORDERS.values(), ids=ORDERS.keys())
def test_the_order_of_a_set_is_named(body):
    assert asks(body)


UNORDERED = {
    "asking for one": "known = {'a', 'b'}\nassert 'a' in known and len(known) == 2\nif 'b' not in known:\n    x = x * 2",
    "a union": "s = {1}\ns |= {2}\ns.add(3)\ny = (s | {4}) >= {1} and s.issubset({1, 2, 3})",
    "sorted numbers": "y = [sorted({0, max(n - 1, 0), n}) for n in range(3)] + [min({1, x.shape[0]})]",
    "a set of axes": "axes = set(range(x.dim()))\ny = [d for d in range(3) if d in axes]",
    "a key": "y = {frozenset('ab'): 1}[frozenset('ab')]",
    "a kind": "def f(v: set[int]) -> set | None:\n    return v if isinstance(v, (set, frozenset)) else None\ny = f({1})",
    "what only refuses": "if len([*{x.dtype, torch.float32}]) > 1:\n    raise ValueError('mixed')",
}  # fmt: skip


@pytest.mark.parametrize("body", UNORDERED.values(), ids=UNORDERED.keys())
def test_a_set_that_is_only_asked_is_not_named(body):
    assert read(module(body, init=HELD)) == ()


DEVICES = {
    "a comparison": "y = x.device == torch.device('cuda:0')",
    "another name": "d = x.device\nif d != torch.device('cuda:0'):\n    x = x * 2",
    "getattr": "y = getattr(x, 'device') == 1",
    "its number": "if x.device.index:\n    x = x * 2",
    "its number in a launch": "double[(1,)](x, x, x.device.index, BLOCK=64)",
    "its number as the last word": "y = x.device.index and 2",
    "an attribute": "self.d = x.device\ny = self.d == torch.device('cuda:0')",
    "a function": "def f(t):\n    return t.device\ny = f(x) == torch.device('cuda:0')",
    "an argument": "def f(*, d):\n    return d == torch.device('cuda:0')\ny = f(d=x.device)",
    "a constructor": "class P:\n    def __init__(self, d):\n        self.e = d\ny = P(x.device).e == 1",
    "a class of data": "from dataclasses import dataclass\n@dataclass\nclass P:\n    d: object\ny = P(x.device) == P(1)",
    "a key": "y = {torch.device('cuda:0'): 1}[x.device]",
    "a row": "y = (x.device, 1) == (torch.device('cuda:0'), 1)",
    "a list that counts": "y = [x.device].count(torch.device('cuda:0'))",
    "one of a list": "y = x.device in [torch.device('cuda:0')]",
    "a text": "y = '%s' % x.device",
    "a format": "y = '{device}'.format(device=x.device)",
    "texts of a row": "y = ''.join(map(str, [x.device]))",
    "a pattern": "match x:\n    case torch.Tensor(device=y):\n        pass",
    "what is matched": "match x.device:\n    case y:\n        pass",
    "a dictionary": "y = dict(device=x.device)['device'] == 1",
    "a fresh tensor": "if torch.empty(1).is_cuda:\n    x = x * 2",
    "a fresh tensor's kind": "d = torch.empty(1).device.type\nif d == 'cuda':\n    x = x * 2",
    "a module that is made for it": "class P(nn.Module):\n    def forward(self, t):\n        return 1 if t.is_cuda else 2\ny = P()(torch.empty(1))",
}  # fmt: skip


@pytest.mark.parametrize("body", DEVICES.values(), ids=DEVICES.keys())
def test_a_device_that_decides_something_is_named(body):
    assert asks(body)


HANDED_ON = {
    "where something is made": "d = x.device\ny = torch.empty(4, device=d) + x.new_zeros(4, device=d)",
    "where something is moved": "y = torch.ones(4).to(x.device) + torch.ones(4).cuda(x.device.index)",
    "by an own function": "def make(n, device=None):\n    device = None if device is None else torch.device(device)\n"
    "    return torch.empty(n, device=device)\ny = make(4, x.device)",
    "with other settings": "options = {'device': x.device, 'dtype': x.dtype}\ny = torch.empty(4, **options)\n"
    "z = torch.empty(4, **dict(device=x.device))",
    "to a context": "with torch.cuda.device(x.device):\n    y = x * 2",
    "what only refuses": "assert x.device == self.w.device\nif x.device.index != 0:\n    raise ValueError(x.device)",
    "an input that is on no GPU": "if not x.is_cuda or x.device.type != 'cuda':\n    return x * 2",
}


@pytest.mark.parametrize("body", HANDED_ON.values(), ids=HANDED_ON.keys())
def test_a_device_that_is_handed_on_is_not_named(body):
    assert read(module(body, init=HELD)) == ()


EFFECTS = {
    "a list that grows": "p = []\nassert p.append(1) is None",
    "in the message": "p = [1]\nassert p, p.pop()",
    "a name in the message": "assert x is not None, (y := 1)",
    "a dictionary": "d = {}\nassert d.setdefault('a', 1)",
    "a dictionary that fills in": "from collections import defaultdict\nd = defaultdict(int)\nassert d['a'] == 0",
    "another name for a method": "p = []\nput = p.append\nassert put(1) is None",
    "a method of the class": "p = []\nassert list.append(p, 1) is None",
    "what calls a method": "p = []\nassert not any(map(p.append, [1]))",
    "an iterator": "p = iter([1, 2])\nassert 1 in p",
    "a generator": "p = (n for n in [1, 2])\nassert any(p)",
    "where a result goes": "y = torch.empty(4)\nassert torch.add(x, x, out=y) is not None",
    "random numbers": "assert F.dropout(x) is not None",
    "a function that changes its argument": "def put(p):\n    p += [1]\n    return True\nq = []\nassert put(q)",
    "a function by another name": "q = []\ndef put():\n    q.append(1)\n    return True\ngo = put\nassert go()",
    "a lambda": "q = []\ngo = lambda: q.append(1)\nassert go() is None",
    "a property": "class P:\n    @property\n    def a(self):\n        self.b = 1\n        return 1\np = P()\nassert p.a",
    "a length": "class P:\n    def __len__(self):\n        self.b = 1\n        return 1\np = P()\nassert p",
    "the target of a comprehension": "class P:\n    pass\np = P()\nassert [1 for p.a in [1]]",
    "a decorator": "def d(f):\n    return f\n@d\ndef ok(v):\n    return True\nassert ok(x)",
    "a constructor": "class P:\n    def __init__(self, q):\n        q.append(1)\nq = []\nassert P(q)",
}  # fmt: skip


@pytest.mark.parametrize("body", EFFECTS.values(), ids=EFFECTS.keys())
def test_an_assertion_that_does_something_is_named(body):
    assert any(r.text.startswith("assert") for r in read(module(body, init=HELD)))


CHECKS = {
    "sizes": "assert x.is_contiguous() and x.size(0) % 2 == 0, f'{x.shape[0]} is odd'",
    "functions": "assert torch.is_tensor(x) and math.isfinite(triton.cdiv(x.numel(), 2)) and isinstance(4, int)",
    "an own check": "def fits(n):\n    sizes = []\n    for i in range(3):\n        sizes.append(i)\n        n += 1\n"
    "    return n in sizes\nassert fits(x.shape[0]), 'no'",
    "a lambda": "fits = lambda n: n > 0\nassert fits(x.dim()) and all(fits(n) for n in x.shape)",
}


@pytest.mark.parametrize("body", CHECKS.values(), ids=CHECKS.keys())
def test_an_assertion_that_only_checks_is_not_named(body):
    assert read(module(body, init=HELD)) == ()


LEAVING = {
    "a generator": "    def __exit__(self, *raised):\n        yield\n",
    "a coroutine": "    async def __exit__(self, *raised):\n        pass\n",
    "a decorated one": "    @other\n    def __exit__(self, *raised):\n        pass\n",
    "another function": "    __exit__ = other\n",
    "a lambda": "    __exit__ = lambda *raised: None\n",
    "one by chance": "    if other:\n        def __exit__(self, *raised):\n            return 1\n",
    "a loop": "    for __exit__ in [other]:\n        pass\n",
    "an import": "    from functools import partial as __exit__\n",
    "a value": "    def __exit__(self, *raised):\n        return raised\n",
}


@pytest.mark.parametrize("method", LEAVING.values(), ids=LEAVING.keys())
def test_whatever_may_end_an_error_at_the_end_of_a_context_is_named(method):
    top = f"def other(*a):\n    return True\n\n\nclass Quiet:\n    def __enter__(self):\n        return self\n\n{method}"
    assert asks("with Quiet():\n    assert x.is_contiguous()", top=top)


def test_a_context_that_gives_its_errors_on_is_not_named():
    method = "    def __exit__(self, *raised):\n        if raised:\n            return False\n        return None\n"
    top = f"class Plain:\n    def __enter__(self):\n        return self\n\n{method}"
    assert read(module("with Plain():\n    x = x * 2", top=top)) == ()
    stack = "from contextlib import ExitStack\nwith ExitStack() as stack:\n    stack.{}"
    own = "class Own:\n    push = 1\n"
    assert asks(stack.format("push(lambda *raised: True)"), top=own)
    assert read(module(stack.format("enter_context(torch.no_grad())"), top=own)) == ()


KEPT = {
    "a method that is called later": "put = self.kept.append\nput(1)",
    "a method that something calls": "y = [*map(self.kept.append, [1])]",
    "getattr": "getattr(self.kept, 'append')(1)",
    "the method of the class": "from collections import deque\ndeque.append(self.kept, 1)",
    "a function in place": "torch.Tensor.add_(self.mine, 1)",
    "where a result goes": "torch.add(x, x, out=self.mine)",
    "a list that grows": "k = self.kept\nk += [1]",
    "a list that grows by a name": "k, one = self.kept, [1]\nk += one",
    "a dictionary": "k = self.held\nk |= {1: 2}",
    "a view": "k = self.mine.view(-1)\nk += 1",
    "a view by a function": "k = torch.as_strided(self.mine, (2,), (1,))\ndouble[(1,)](x, k, 1, BLOCK=64)",
    "an argument": "def f(k):\n    k += [1]\nf(self.kept)",
    "a result": "def f():\n    return self.held\nk = f()\nk[0] = 1",
    "a loop": "for k in (self.held,):\n    k[0] = 1",
    "an element": "ks = [self.kept]\nks[0].append(1)",
    "a choice": "k = self.held or {}\nk[0] = 1",
    "a pattern": "match self:\n    case ModelNew(held=k):\n        k[0] = 1",
}


@pytest.mark.parametrize("body", KEPT.values(), ids=KEPT.keys())
def test_what_stays_is_named_whatever_it_is_called_when_it_changes(body):
    assert "keeps_state" in codes(module(body, init=HELD))


@pytest.mark.parametrize(
    "call", ["getattr(self, 'tick')()", "match self:\n    case ModelNew(tick=go):\n        go()"]
)
def test_a_method_that_is_reached_by_its_name_as_text_runs_later(call):
    tick = "    def tick(self):\n        self.count = 1\n"
    assert read(module("pass", init="self.tick()", methods=tick)) == ()
    assert "keeps_state" in codes(module(call, init="self.tick()", methods=tick))


OF_THE_CALL = {
    "a list": "parts = []\nput = parts.append\nput(x)\nparts += [x]\nfor part in [[1], [2]]:\n    part.append(3)",
    "a number": "k = self.w.shape[0]\nk += 1\nn = self.scale\nn *= 2",
    "a copy": "k = list(self.kept)\nk.append(1)\nk += [2]",
    "a view": "y = torch.empty(4)\ny = torch.as_strided(y, (2,), (1,))\ndouble[(1,)](x, y, 1, BLOCK=64)",
    "a result": "y = torch.empty(4)\ntorch.add(x, x, out=y)\ny.view(-1).add_(1)",
}


@pytest.mark.parametrize("body", OF_THE_CALL.values(), ids=OF_THE_CALL.keys())
def test_what_a_call_makes_for_itself_may_change(body):
    assert read(module(body, init=HELD + "\n        self.scale = 2.0")) == ()
