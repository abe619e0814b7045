"""What of a candidate's text reaches the executor, and what cannot."""

from __future__ import annotations

import pytest

from kernelagent.tools.virtual.executor.source import KernelSource, UnknownKernel
from kernelagent.tools.virtual.executor.vocabulary import Refused
from kernelagent.tools.virtual.triton_versions import place_of

HEAD = "import triton\nimport triton.language as tl\n"


def _kernel(body, head=HEAD):
    return f"{head}@triton.jit\ndef k(x_ptr, B: tl.constexpr = 4):\n    {body}\n"


def _load(text, constants=None, name="k"):
    source = KernelSource(text)
    line = text.split(f"def {name}(")[0].count("\n")
    return source.load(constants or {}).function(name, line)


def test_only_jit_functions_are_taken(tmp_path):
    mark = tmp_path / "mark"
    text = f"open({str(mark)!r}, 'w')\n" + _kernel("tl.store(x_ptr, 1)")
    assert _load(text).fn.__name__ == "k"
    assert not mark.exists()


def test_lines_stay_the_candidate_s():
    text = "\n\n# a comment\n" + _kernel("tl.store(x_ptr, 1)")
    assert place_of(_load(text))[1] == text[: text.index("def k")].count("\n") + 1


@pytest.mark.parametrize(
    "body",
    [
        "tl.core.builtins.exec('1')",
        "tl.core.inspect.os.system('true')",
        "triton.knobs.os.system('true')",
        "triton.runtime.jit.os",
        "x_ptr.handle.data.tofile('x')",
        "getattr(tl, 'core')",
        "().__class__.__base__.__subclasses__()",
        "tl.sum.fn.__globals__",
        "tl.core.x = 1",
        "import os",
        "y = tl.core",
        "f = lambda: 1",
        "tl.store(x_ptr, (yield))",
        "__import__('os')",
    ],
)
def test_python_beyond_triton_is_refused(body):
    with pytest.raises(Refused, match="line 5"):
        _load(_kernel(body))


def test_a_default_value_is_not_a_way_to_run_python(tmp_path):
    mark = tmp_path / "mark"
    text = f"{HEAD}@triton.jit\ndef k(x_ptr, B=open({str(mark)!r}, 'w')):\n    pass\n"
    with pytest.raises(Refused):
        _load(text)
    assert not mark.exists()


def test_an_annotation_is_not_a_way_to_run_python(tmp_path):
    mark = tmp_path / "mark"
    text = f"{HEAD}@triton.jit\ndef k(x_ptr: open({str(mark)!r}, 'w')):\n    pass\n"
    _load(text)
    assert not mark.exists()


def test_a_decorator_is_not_a_way_to_run_python(tmp_path):
    mark = tmp_path / "mark"
    text = f"{HEAD}@triton.jit(repr=open({str(mark)!r}, 'w'))\ndef k(x_ptr):\n    pass\n"
    _load(text)
    assert not mark.exists()


@pytest.mark.parametrize("separator", ["\x0c", "\x1c", "\u2028", "\r"])
def test_odd_line_separators_do_not_shift_what_is_run(tmp_path, separator):
    mark = tmp_path / "mark"
    harm = f"open({str(mark)!r}, 'w')"
    text = f'{HEAD}"""{separator * 3}"""\n{harm}\n{harm}\n{harm}\n' + _kernel("pass", head="")
    definition = text.split("def k(")[0].replace("\r", "\n").count("\n")
    assert KernelSource(text).load({}).function("k", definition).fn.__name__ == "k"
    assert not mark.exists()


@pytest.mark.parametrize(
    "line",
    ["import os", "from os import system", "from triton.language.core import builtins as os"],
)
def test_imports_other_than_triton_and_math_are_not_there(line):
    with pytest.raises(Refused):
        _load(_kernel("os.system('true')", head=f"{HEAD}{line}\n"))


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("from triton.language.extra import libdevice", "libdevice.tanh(1.0)"),
        ("from triton.language.extra.cuda import libdevice as lib", "lib.tanh(1.0)"),
        ("from triton.language import exp", "exp(1.0)"),
        ("import math", "math.sqrt(2.0)"),
        ("tanh = tl.extra.cuda.libdevice.tanh", "tanh(1.0)"),
        ("try:\n    from triton.language.nowhere import x\nexcept ImportError:\n    x = 1", "tl.zeros((4,), tl.float32).to(tl.bfloat16)"),
    ],
    ids=["stub", "cuda", "function", "math", "alias", "missing"],
)  # fmt: skip
def test_the_ways_to_name_triton_s_functions_work(line, call):
    assert _load(_kernel(f"y = {call}", head=f"{HEAD}{line}\n")).fn.__name__ == "k"


def test_constants_are_data_from_the_runner():
    text = _kernel("tl.store(x_ptr, N)")
    kernel = _load(text, {"N": {"constexpr": 7}})
    assert kernel.fn.__globals__["N"].value == 7


def test_two_kernels_of_one_name_are_told_apart_by_their_scope():
    text = HEAD + "".join(
        f"def make{i}():\n    @triton.jit\n    def k(x_ptr):\n        tl.store(x_ptr, {i})\n"
        for i in range(2)
    )
    source = KernelSource(text)
    result = [source.load({}).function("k", line) for line in (4, 8)]
    assert ["store(x_ptr, 0)" in result[0].src, "store(x_ptr, 1)" in result[1].src] == [True, True]


def test_a_refusal_in_a_function_that_is_called_is_told():
    text = f"{HEAD}@triton.jit\ndef helper():\n    import os\n" + _kernel("helper()", head="")
    with pytest.raises(Refused, match="helper"):
        _load(text)


def test_an_unknown_kernel_is_named():
    with pytest.raises(UnknownKernel, match="nothing"):
        KernelSource(_kernel("pass")).load({}).function("nothing", 3)


def test_a_text_that_is_no_python_has_no_kernels():
    with pytest.raises(UnknownKernel):
        KernelSource("def (").load({}).function("k", 1)
