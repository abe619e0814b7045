from __future__ import annotations

import pytest

from kernelagent.dropin.review import review
from tests.dropin.emitted import CANDIDATE

KERNEL = '''\
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def scale(x, n, BLOCK: tl.constexpr):
    """Multiplies by two."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + offsets, tl.load(x + offsets, mask=offsets < n) * 2, mask=offsets < n)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.eval()
        self.compiled = torch.compile(F.relu)

    def forward(self, x):
        for name in ("weight", "bias"):
            getattr(self, name)
        return x
'''


@pytest.mark.parametrize("source", [CANDIDATE, KERNEL])
def test_an_ordinary_candidate_has_nothing_to_look_at(source: str) -> None:
    assert review(source) == ()


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("import os", "import of os"),
        ("import ctypes", "import of ctypes"),
        ("from subprocess import run", "import of subprocess"),
        ("import collections", "import of collections"),
        ("from . import other", "import of ."),
        ("import numpy as np", "import of numpy"),
        ("import torchvision", "import of torchvision"),
        ("import importlib", "import of importlib"),
        ("import torch.utils.cpp_extension", "import of torch.utils.cpp_extension"),
        ("from torch.utils.cpp_extension import load", "import of torch.utils.cpp_extension.load"),
        ("from torch import hub", "import of torch.hub"),
        ("exec('x = 1')", "exec"),
        ("run = eval", "eval"),
        ("compile('1', '', 'eval')", "compile"),
        ("__import__('o' + 's')", "__import__"),
        ("open('/tmp/x', 'w')", "open"),
        ("x = (lambda: 0).__globals__", ".__globals__"),
        ("x = ().__class__.__base__.__subclasses__()", ".__subclasses__"),
        ("import torch\nx = torch.load('weights.pt')", "torch.load"),
        ("import torch as t\nt.hub.load('a', 'b')", "torch.hub"),
        ("import torch\ntorch.zeros(1).numpy().tofile('x')", ".tofile"),
        ("import torch\ngetattr(torch, 'lo' + 'ad')('x')", "getattr on torch"),
        ("getattr(__builtins__, 'ex' + 'ec')", "getattr on builtins"),
        (f"x = {'QUJD' * 40!r}", "a constant that looks encoded"),
        (f"x = {b'QUJD' * 40!r}", "a constant that looks encoded"),
        (f"x = {'a b, ' * 500!r}", "a constant of 2500 characters"),
        ("def optimized(x): ...", "the name optimized"),
        ("def broken(:", "the text does not parse"),
    ],
)
def test_what_a_user_should_see_is_found_at_its_line(line: str, what: str) -> None:
    lines = line.split("\n")
    result = [f for f in review(f"x = 0\n{line}\n") if f.what == what]
    assert [f.line for f in result] == [1 + len(lines)]
    assert result[0].why


def test_words_in_strings_and_comments_are_no_findings() -> None:
    assert review('x = "exec(open(1)) import os"  # eval, ctypes\n') == ()


def test_findings_are_given_by_line() -> None:
    lines = [finding.line for finding in review("import sys\nx = 1\nimport os\neval('x')\n")]
    assert lines == [1, 3, 4]


def test_a_parameter_or_variable_with_the_name_of_a_built_in_function_is_none() -> None:
    for text in (
        "def forward(self, input):\n    input = input * 2\n    return lambda: input\n",
        "def kernel(x):\n    input = x + 1\n    return input * input\n",
    ):
        assert review(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    return input(x)\n",
        "def f(input=input):\n    return input\n",
        "def f(input):\n    def g():\n        global input\n        return input\n    return g\n",
        "def f(input):\n    return 1\n\n\ndef g():\n    return input()\n",
        "def f(eval):\n    return eval\n",
        "def f(x):\n    return [input for input in x], input\n",
        "class A:\n    input = input\n",
        "def f(x):\n    class A:\n        input = 1\n    return input\n",
    ],
)
def test_a_built_in_function_is_found_beside_parameters_of_its_name(text: str) -> None:
    assert review(text)
